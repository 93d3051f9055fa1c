package export

import (
	"bytes"
	"encoding/json"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

type t4File struct {
	Schema  string     `json:"schema_version"`
	Results []t4Result `json:"results"`
	// Metadata is no part of the schema's results, which leave further properties
	// open; kernel_tuner writes it into a file of its own.
	Metadata t4Metadata `json:"metadata"`
}

type t4Metadata struct {
	TimeUnit string             `json:"timeunit"`
	Problem  string             `json:"problem"`
	Device   kernels.DeviceInfo `json:"device"`
	Tool     string             `json:"tool"`
}

type t4Result struct {
	Timestamp     string          `json:"timestamp"`
	Configuration object          `json:"configuration"`
	Objectives    []string        `json:"objectives"`
	Times         t4Times         `json:"times"`
	Invalidity    string          `json:"invalidity"`
	Correctness   float64         `json:"correctness"`
	Measurements  []t4Measurement `json:"measurements"`
}

// t4Times has what the schema names, compilation_time and runtimes, and what
// kernel_tuner writes in its place.
type t4Times struct {
	CompilationTime *float64  `json:"compilation_time,omitempty"`
	Compilation     *float64  `json:"compilation,omitempty"`
	Benchmark       float64   `json:"benchmark"`
	Framework       float64   `json:"framework"`
	SearchAlgorithm float64   `json:"search_algorithm"`
	Validation      float64   `json:"validation"`
	Runtimes        []float64 `json:"runtimes"`
}

type t4Measurement struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// invalidity is a status in the words of T4.
func invalidity(s kernels.Status) string {
	switch s {
	case kernels.StatusOK:
		return "correct"
	case kernels.StatusWrong:
		return "correctness"
	case kernels.StatusTimeout:
		return "timeout"
	case kernels.StatusCompile:
		return "compile"
	case kernels.StatusRefused, kernels.StatusResource:
		return "constraints"
	}
	return "runtime"
}

// t4 is a T4 results file (schema 1.0.0, JSON Schema draft 2020-12). Unlike
// kernel_tuner's, its invalidity and correctness are what was found.
func t4(p *Problem) []byte {
	f := t4File{Schema: "1.0.0", Results: []t4Result{},
		Metadata: t4Metadata{"milliseconds", p.Problem.String(), p.Run.Device, p.Run.Tool}}
	knobs := p.knobs()
	for i, r := range p.Records {
		if r.Status == record.StatusPruned {
			continue // it breaks no constraint, and the schema has no word for what was not tried
		}
		x := t4Result{
			Timestamp:     r.Time.Format("2006-01-02T15:04:05.000Z07:00"),
			Configuration: p.params(i, knobs),
			Objectives:    []string{"time"},
			Times:         t4Times{Runtimes: millis(r.SamplesUS)},
			Invalidity:    invalidity(r.Status),
			Correctness:   fraction(r),
			Measurements:  []t4Measurement{},
		}
		x.Times.Compilation = compiling(p.Run, r)
		x.Times.CompilationTime = x.Times.Compilation
		x.Times.Benchmark, x.Times.Validation = phases(r)
		if r.Status == kernels.StatusOK {
			m := stats.Median(r.SamplesUS)
			x.Measurements = append(x.Measurements, t4Measurement{"time", m / 1e3, "ms"},
				t4Measurement{"GB/s", float64(r.Bytes) / m / 1e3, "GB/s"})
			for _, s := range r.Stages {
				x.Measurements = append(x.Measurements, t4Measurement{s.Stage + "_time", stats.Median(s.SamplesUS) / 1e3, "ms"})
			}
		}
		f.Results = append(f.Results, x)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		panic(err) // of plain values
	}
	return b.Bytes()
}
