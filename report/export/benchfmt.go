package export

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
)

// WriteBenchfmt writes Go's benchmark format (golang.org/design/14313): a line
// per visit, or per sample where there was one visit, as benchstat takes every
// line for one measurement. Failures have none.
func WriteBenchfmt(w io.Writer, ps []*record.ProblemRecords) error {
	b := bufio.NewWriter(w)
	first := true
	for _, p := range ps {
		if d := p.Run.Device; first {
			first = false
			fmt.Fprintf(b, "pkg: normbench\ndevice: %s\ndriver: %s\ncompiler: %s\nprotocol: %s\n", d.Name,
				d.Driver, d.Compiler, p.Run.Protocol.Name)
		}
		name := benchName(p.Problem)
		for _, r := range p.Records {
			if r.Status != kernels.StatusOK {
				continue
			}
			rounds := r.Rounds()
			if rounds == nil {
				rounds = r.SamplesUS
			}
			design := r.Family[strings.LastIndexByte(r.Family, '/')+1:]
			for _, us := range rounds {
				fmt.Fprintf(b, "%s/family=%s/config=%s-1 1 %g ns/op %.6g B/s\n", name, design, r.Config,
					us*1e3,
					float64(r.Bytes)/us*1e6)
			}
		}
	}
	return b.Flush()
}

// benchName is a problem as BenchmarkRMSNormBwd/M=4096/N=8192/dtype=bf16, with all its options:
// what benchstat finds under one name it takes for one benchmark.
func benchName(p kernels.Problem) string {
	pass := map[kernels.Pass]string{kernels.Fwd: "Fwd", kernels.Bwd: "Bwd"}[p.Pass]
	s := fmt.Sprintf("Benchmark%s%s/M=%d/N=%d/dtype=%s", p.Op.Spec().Title, pass, p.M, p.N, p.DType)
	if p.Weight != p.DType {
		s += "/weight=" + p.Weight.String()
	}
	for _, o := range p.Options() {
		s += "/" + o + "=1"
	}
	return s
}
