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

// An object is a JSON object whose keys keep their order: kernel_tuner refuses a
// cache whose parameters stand in another order than the tuner's.
type object struct {
	keys   []string
	values []any
}

func (o *object) set(k string, v any) { o.keys, o.values = append(o.keys, k), append(o.values, v) }

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) { return o.append(nil), nil }

// append adds the text of o, without the way through an encoder, which looks it over again.
func (o object) append(b []byte) []byte {
	b = append(b, '{')
	for i, k := range o.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(quote(b, k), ':')
		switch v := o.values[i].(type) {
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case float64:
			b = number(b, v)
		case []float64:
			b = append(b, '[')
			for i, f := range v {
				if i > 0 {
					b = append(b, ',')
				}
				b = number(b, f)
			}
			b = append(b, ']')
		case string:
			b = quote(b, v)
		case object:
			b = v.append(b)
		default:
			b = append(b, encode(v)...)
		}
	}
	return append(b, '}')
}

// quote adds a string as the encoder writes it.
func quote(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return append(b, encode(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// number adds a number as the encoder writes it.
func number(b []byte, f float64) []byte {
	if f >= 1e-6 && f < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return append(b, encode(f)...)
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
	case kernels.StatusRefused, kernels.StatusResource, record.StatusPruned:
		return "InvalidConfig"
	case kernels.StatusCompile:
		return "CompilationFailedConfig"
	}
	return "RuntimeFailedConfig"
}

// params are the tune parameters of a record in the order of the header.
func (p *Problem) params(i int, knobs []*kernels.Knob) object {
	o := object{make([]string, 0, len(knobs)+1), make([]any, 0, len(knobs)+1)}
	o.set(keyFamily, p.Records[i].Family)
	for _, k := range knobs {
		o.set(k.Name, p.value(i, k))
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
	head.set("kernel_name", strings.ReplaceAll(p.Problem.String(), "/", "_"))
	head.set("problem_size", []int64{p.Problem.M, p.Problem.N})
	keys := []string{keyFamily}
	var values object
	var families []string
	for _, r := range p.Records {
		families = add(families, r.Family)
	}
	values.set(keyFamily, families)
	for _, k := range knobs {
		keys = append(keys, k.Name)
		var vs []int
		for i := range p.Records {
			vs = add(vs, p.value(i, k))
		}
		values.set(k.Name, vs)
	}
	head.set("tune_params_keys", keys)
	head.set("tune_params", values)
	head.set("objective", "time")
	if r := restrictions(p, knobs); len(r) > 0 {
		head.set("restrictions", r)
	}
	head.set("normbench_device", p.Run.Device)
	head.set("normbench_cache", p.Run.Protocol.Cache())
	if len(p.Stream) > 0 {
		head.set("normbench_stream_us", p.Stream)
	}
	b := append(make([]byte, 0, 1<<10*(len(p.Records)+1)), "{\n"...)
	for i, k := range head.keys {
		b = fmt.Appendf(b, "%q: %s,\n", k, encode(head.values[i]))
	}
	b = append(b, "\"cache\": {\n"...)
	for i := range p.Records {
		e := p.params(i, knobs)
		var key []byte
		for j, v := range e.values { // as Python's str
			if n, ok := v.(int); ok {
				key = strconv.AppendInt(append(key, ','), int64(n), 10)
			} else {
				key = fmt.Append(append(key, ","[:min(j, 1)]...), v)
			}
		}
		b = append(quote(b, string(key)), ": "...)
		b = e.append(b)
		b[len(b)-1] = ',' // in place of its end
		b = append(b, tail(p.Run, p.Records[i])[1:]...)
		if i < len(p.Records)-1 {
			b = append(b, ',')
		}
		b = append(b, '\n')
	}
	return append(b, "}\n}"...)
}

// tail is what an entry has beside its parameters.
func tail(run *record.Run, r *record.Record) []byte {
	var e object
	if r.Status == kernels.StatusOK {
		e.set("time", stats.Median(r.SamplesUS)/1e3)
		e.set("times", millis(r.SamplesUS))
		e.set("normbench_rounds", max(len(r.Visits), 1))
	} else {
		e.set("time", errorName(r.Status))
		e.set("__error__", errorName(r.Status))
		e.set("normbench_status", r.Status)
		e.set("normbench_reason", r.Reason)
	}
	benchmark, check := phases(r)
	if ms := compiling(run, r); ms != nil {
		e.set("compile_time", *ms)
	}
	// A simulation of kernel_tuner asserts that some entry has a number in the other fields.
	e.set("strategy_time", 0)
	e.set("framework_time", 0)
	e.set("verification_time", check)
	e.set("benchmark_time", benchmark)
	e.set("timestamp", r.Time.Format("2006-01-02 15:04:05.000000-07:00"))
	return e.append(nil)
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

// compiling is the milliseconds that a record's code took to compile, nil where they were
// not recorded: with a 0 a simulated time limit would get them free. What was never
// launched, and all of a CPU, took none.
func compiling(run *record.Run, r *record.Record) *float64 {
	ms := 0.0
	switch {
	case r.Check != nil && r.Check.Compile > 0:
		ms = r.Check.Compile * 1e3
	case run.Device.Kind == kernels.KindCPU, r.Status == kernels.StatusRefused, r.Status == record.StatusPruned:
	default:
		return nil
	}
	return &ms
}

// restrictions are, for each knob, the values of it that each family has, as
// kernel_tuner reads them: without, it makes the product of all knobs' values, most of
// which no family has. tune_cache takes them as its argument of that name.
func restrictions(p *Problem, knobs []*kernels.Knob) []string {
	var list []string
	for _, k := range knobs {
		type pair struct {
			family string
			value  int
		}
		var pairs []pair
		families := map[string]bool{}
		for i, r := range p.Records {
			families[r.Family] = true
			pairs = add(pairs, pair{r.Family, p.value(i, k)})
		}
		if len(families) > 1 {
			text := make([]string, len(pairs))
			for i, x := range pairs {
				text[i] = fmt.Sprintf("(%q, %d)", x.family, x.value)
			}
			list = append(list, fmt.Sprintf("(%s, %s) in (%s,)", keyFamily, k.Name, strings.Join(text, ", ")))
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
		q := list[i]
		q.Records = append(q.Records, r)
	}
	return list
}
