package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// An object is a JSON object whose members keep their order: kernel_tuner refuses a
// cache whose parameters stand in another order than the tuner's.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var members [][]byte
	for _, m := range o {
		members = append(members, fmt.Appendf(nil, "%s:%s", encode(m.key), encode(m.value)))
	}
	return fmt.Appendf(nil, "{%s}", bytes.Join(members, []byte{','})), nil
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // of plain values
	}
	return bytes.TrimSpace(b.Bytes())
}

const (
	keyFamily = "family"
	noKnob    = -1 // the value of a knob that a config's family does not have
)

// errorName is what kernel_tuner calls a failure. It has no name for a wrong
// answer, nor for a timeout: the truth is in normbench_status.
func errorName(s kernels.Status) string {
	switch s {
	case kernels.StatusRefused, kernels.StatusResource:
		return "InvalidConfig"
	case kernels.StatusCompile:
		return "CompilationFailedConfig"
	}
	return "RuntimeFailedConfig"
}

// kt is a kernel_tuner cache: the header in kernel_tuner's order, one entry per
// line, and "}" newline "}" at the end, by which kernel_tuner tells a closed file
// from one to append to. time is the median, where kernel_tuner's own is a mean.
func kt(p *record.ProblemRecords) []byte {
	knobs := knobsOf(p)
	keys := []string{keyFamily}
	var families []string
	for _, r := range p.Records {
		families = add(families, r.Family)
	}
	values := object{{keyFamily, families}}
	for _, k := range knobs {
		keys = append(keys, k.Name)
		var vs []int
		for _, r := range p.Records {
			vs = add(vs, knobValue(r, k))
		}
		values = append(values, member{k.Name, vs})
	}
	head := object{{"device_name", p.Run.Device.Name},
		{"kernel_name", strings.ReplaceAll(p.Problem.String(), "/", "_")},
		{"problem_size", []int64{p.Problem.M, p.Problem.N}},
		{"tune_params_keys", keys}, {"tune_params", values}, {"objective", "time"}}
	if r := restrictions(p, knobs); len(r) > 0 {
		head = append(head, member{"restrictions", r})
	}
	head = append(head, member{"normbench_device", p.Run.Device},
		member{"normbench_cache", p.Run.Protocol.Cache()})
	if len(p.Stream) > 0 {
		head = append(head, member{"normbench_stream_us", p.Stream})
	}
	b := []byte("{\n")
	for _, m := range head {
		b = fmt.Appendf(b, "%q: %s,\n", m.key, encode(m.value))
	}
	b = append(b, "\"cache\": {\n"...)
	for i, r := range p.Records {
		entry := object{{keyFamily, r.Family}}
		key := []string{r.Family} // as Python's str
		for _, k := range knobs {
			v := knobValue(r, k)
			entry, key = append(entry, member{k.Name, v}), append(key, strconv.Itoa(v))
		}
		if i > 0 {
			b = append(b, ",\n"...)
		}
		b = fmt.Appendf(b, "%s: %s", encode(strings.Join(key, ",")),
			encode(append(entry, timings(p.Run, r)...)))
	}
	return append(b, "\n}\n}"...)
}

// timings are what an entry has beside its parameters.
func timings(run *record.Run, r *record.Record) (e object) {
	set := func(key string, value any) { e = append(e, member{key, value}) }
	if r.Status == kernels.StatusOK {
		set("time", stats.Median(r.SamplesUS)/1e3)
		set("times", millis(r.SamplesUS))
		set("normbench_rounds", max(len(r.Visits), 1))
	} else {
		set("time", errorName(r.Status))
		set("__error__", errorName(r.Status))
		set("normbench_status", r.Status)
		set("normbench_reason", r.Reason)
	}
	benchmark, check := phases(r)
	if ms := compileMillis(run, r); ms != nil {
		set("compile_time", *ms)
	}
	// A simulation of kernel_tuner asserts that some entry has a number in the other fields.
	set("strategy_time", 0)
	set("framework_time", 0)
	set("verification_time", check)
	set("benchmark_time", benchmark)
	set("timestamp", r.Time.Format("2006-01-02 15:04:05.000000-07:00"))
	return e
}

// add adds v where the list lacks it.
func add[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

func millis(us []float64) []float64 {
	ms := make([]float64, len(us))
	for i, t := range us {
		ms[i] = t / 1e3
	}
	return ms
}

// phases are the milliseconds that a record's launches and its check took. The
// finals' records have no wall time: theirs is that of their samples.
func phases(r *record.Record) (benchmark, check float64) {
	if r.Check != nil {
		check = r.Check.Busy * 1e3
	}
	for _, us := range r.SamplesUS {
		benchmark += us / 1e3
	}
	return max(benchmark, r.WallMS-check), check
}

// compileMillis returns the milliseconds that a record's code took to compile, nil where they were
// not recorded: with a 0 a simulated time limit would get them free. What was never
// launched, and all of a CPU, took none.
func compileMillis(run *record.Run, r *record.Record) *float64 {
	ms := 0.0
	switch {
	case r.Check != nil && r.Check.Compile > 0:
		ms = r.Check.Compile * 1e3
	case run.Device.Kind == kernels.KindCPU, r.Status == kernels.StatusRefused:
	default:
		return nil
	}
	return &ms
}

// restrictions are, for each knob, the values of it that each family has, as
// kernel_tuner reads them: without, it makes the product of all knobs' values, most of
// which no family has. tune_cache takes them as its argument of that name.
func restrictions(p *record.ProblemRecords, knobs []*kernels.Knob) []string {
	var list []string
	for _, k := range knobs {
		type pair struct {
			family string
			value  int
		}
		var pairs []pair
		families := map[string]bool{}
		for _, r := range p.Records {
			families[r.Family] = true
			pairs = add(pairs, pair{r.Family, knobValue(r, k)})
		}
		if len(families) > 1 {
			text := make([]string, len(pairs))
			for i, x := range pairs {
				text[i] = fmt.Sprintf("(%q, %d)", x.family, x.value)
			}
			list = append(list, fmt.Sprintf("(%s, %s) in (%s,)", keyFamily, k.Name,
				strings.Join(text, ", ")))
		}
	}
	return list
}
