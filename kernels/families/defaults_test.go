package families_test

import (
	"fmt"
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// TestDefaults is what an H200 is given by the analytic base, without a map: a line for each of many widths and numbers
// of rows, so that the diff of changed arithmetic says what it moves.
func TestDefaults(t *testing.T) {
	widths := []int64{64, 128, 250, 256, 384, 512, 640, 768, 779, 1000, 1023, 1024, 1152, 1337, 1536, 2001, 2048, 2058, 2304, 3331,
		4094, 4096, 4098, 5120, 6003, 8186, 8192, 9999, 10240, 12288, 15001, 15872, 16384, 20480, 28672, 33024, 65536}
	r, d := families.With(), devicetest.H200()
	var b strings.Builder
	for _, op := range []kernels.Op{kernels.RMSNorm, kernels.LayerNorm} {
		for _, pass := range []kernels.Pass{kernels.Fwd, kernels.Bwd} {
			for _, n := range widths {
				for _, m := range []int64{1, 70, 501, 2003, 20011} {
					if m*n > 64<<20 {
						continue
					}
					p := problem(t, fmt.Sprintf("%s/%s/%dx%d/bf16", op, pass, m, n))
					p.Bias = op == kernels.LayerNorm
					v, err := r.Base(p, d)
					if err != nil {
						t.Fatal(err)
					}
					fmt.Fprintf(&b, "%s %s\n", p, v)
				}
			}
		}
	}
	// fp16 launches alike.
	for _, s := range []string{"2048x4096", "1024x8192", "4096x8192", "1500x10240"} {
		p := problem(t, "layernorm/bwd/"+s+"/fp16+bias")
		v, err := r.Base(p, d)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", p, v)
	}
	golden(t, "defaults_h200.txt", b.String())
}
