package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/kernels/replay"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// An object is a JSON object whose keys keep their order: kernel_tuner refuses a
// cache whose parameters stand in another order than the tuner's.
type object struct {
	keys   []string
	values []any
}

func (o *object) set(k string, v any) { o.keys, o.values = append(o.keys, k), append(o.values, v) }

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q: ", k)
		b.Write(encode(o.values[i]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
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

// errorName is what kernel_tuner calls a failure. It has no name for a wrong
// answer, nor for a timeout: the truth is in normbench_status, and in T4.
func errorName(s kernels.Status) string {
	switch s {
	case kernels.StatusRefused, kernels.StatusResource, record.StatusPruned:
		return "InvalidConfig"
	case kernels.StatusCompile:
		return "CompilationFailedConfig"
	}
	return "RuntimeFailedConfig"
}

// params are the tune parameters of a record in the order of the header.
func params(r *record.Record, knobs []*kernels.Knob) object {
	var o object
	o.set(replay.KeyFamily, r.Family)
	for _, k := range knobs {
		v, ok := r.Config.Lookup(k)
		if !ok {
			v = replay.NoKnob
		}
		o.set(k.Name, v)
	}
	return o
}

// kt is a kernel_tuner cache: the header in kernel_tuner's order, one entry per
// line, and "}" newline "}" at the end, by which kernel_tuner tells a closed file
// from one to append to. time is the median, where kernel_tuner's own is a mean.
func kt(p *Problem) []byte {
	knobs := p.knobs()
	var head object
	head.set("device_name", p.Run.Device.Name)
	head.set("kernel_name", replay.KernelName(p.Problem))
	head.set("problem_size", []int64{p.Problem.M, p.Problem.N})
	keys := []string{replay.KeyFamily}
	var values object
	var families []string
	for _, r := range p.Records {
		families = add(families, r.Family)
	}
	values.set(replay.KeyFamily, families)
	for _, k := range knobs {
		keys = append(keys, k.Name)
		var vs []int
		for _, r := range p.Records {
			v, ok := r.Config.Lookup(k)
			if !ok {
				v = replay.NoKnob
			}
			vs = add(vs, v)
		}
		values.set(k.Name, vs)
	}
	head.set("tune_params_keys", keys)
	head.set("tune_params", values)
	head.set("objective", "time")
	if r := restrictions(p, knobs); len(r) > 0 {
		head.set("restrictions", r)
	}
	head.set(replay.KeyDevice, p.Run.Device)
	if len(p.Stream) > 0 {
		head.set(replay.KeyStream, p.Stream)
	}
	var b bytes.Buffer
	b.WriteString("{\n")
	for i, k := range head.keys {
		fmt.Fprintf(&b, "%q: %s,\n", k, encode(head.values[i]))
	}
	b.WriteString("\"cache\": {\n")
	for i, r := range p.Records {
		e := params(r, knobs)
		key := make([]string, len(e.values))
		for j, v := range e.values {
			key[j] = fmt.Sprint(v) // as Python's str
		}
		if r.Status == kernels.StatusOK {
			e.set("time", stats.Median(r.SamplesUS)/1e3)
			e.set("times", millis(r.SamplesUS))
			e.set("normbench_rounds", max(len(r.Visits), 1))
		} else {
			e.set("time", errorName(r.Status))
			e.set("__error__", errorName(r.Status))
			e.set(replay.KeyStatus, r.Status)
			e.set(replay.KeyReason, r.Reason)
		}
		// All phases as numbers: one that no entry has trips an assertion.
		benchmark, check := phases(r)
		for _, phase := range []string{"compile_time", "strategy_time", "framework_time"} {
			e.set(phase, 0)
		}
		e.set("verification_time", check)
		e.set("benchmark_time", benchmark)
		e.set("timestamp", r.Time.Format("2006-01-02 15:04:05.000000-07:00"))
		comma := ","
		if i == len(p.Records)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "%q: %s%s\n", strings.Join(key, ","), encode(e), comma)
	}
	b.WriteString("}\n}")
	return b.Bytes()
}

func add[T comparable](list []T, v T) []T {
	for _, x := range list {
		if x == v {
			return list
		}
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

// restrictions are, for each knob, the values of it that each family has, as
// kernel_tuner reads them: without, it makes the product of all knobs' values, most of
// which no family has. tune_cache takes them as its argument of that name.
func restrictions(p *Problem, knobs []*kernels.Knob) []string {
	var list []string
	for _, k := range knobs {
		var pairs []string
		families := map[string]bool{}
		for _, r := range p.Records {
			v, ok := r.Config.Lookup(k)
			if !ok {
				v = replay.NoKnob
			}
			families[r.Family] = true
			pairs = add(pairs, fmt.Sprintf("(%q, %d)", r.Family, v))
		}
		if len(families) > 1 {
			list = append(list, fmt.Sprintf("(%s, %s) in (%s,)", replay.KeyFamily, k.Name, strings.Join(pairs, ", ")))
		}
	}
	return list
}

// byFamily are the problem's families, each with its records alone: among the others
// a config has no neighbours, as it lacks their knobs.
func (p *Problem) byFamily() []*Problem {
	var list []*Problem
	for _, r := range p.Records {
		i := slices.IndexFunc(list, func(q *Problem) bool { return q.Records[0].Family == r.Family })
		if i < 0 {
			i = len(list)
			list = append(list, &Problem{Problem: p.Problem, Run: p.Run, Stream: p.Stream})
		}
		list[i].Records = append(list[i].Records, r)
	}
	return list
}
