package sweep

import (
	"fmt"
	"testing"

	"normbench/kernels"
)

// Every problem has orders of its own, whatever it differs by, and the same ones for one seed.
func TestOrders(t *testing.T) {
	problems := []string{
		"rmsnorm/fwd/64x256/bf16", "rmsnorm/bwd/64x256/bf16", "layernorm/fwd/64x256/bf16", "layernorm/fwd/64x256/bf16+bias",
		"rmsnorm/fwd/256x64/bf16", "rmsnorm/fwd/64x256/fp16", "rmsnorm/fwd/64x256/bf16-wfp32", "rmsnorm/fwd/64x256/bf16+zc",
	}
	draw := func(seed uint64, p kernels.Problem) (s string) {
		order := Orders(seed, p)
		for range 12 {
			s += fmt.Sprint(order(0, 4))
		}
		return s
	}
	seen := map[string]string{}
	for seed := range uint64(20) {
		for _, name := range problems {
			p, err := kernels.ParseProblem(name)
			if err != nil {
				t.Fatal(err)
			}
			got := draw(seed, p)
			what := fmt.Sprintf("%s, seed %d", name, seed)
			if other := seen[got]; other != "" {
				t.Errorf("%s has the orders of %s", what, other)
			}
			if seen[got] = what; draw(seed, p) != got {
				t.Errorf("%s: the orders do not repeat", what)
			}
		}
	}
}
