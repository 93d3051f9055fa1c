package sweep

import (
	"fmt"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
	"normbench/kernels/families"
)

// A duel visits its arms in orders of its own problem, the same for one seed.
func TestOrdersOfDuels(t *testing.T) {
	r := families.New()
	visits := func(seed uint64, m int64) (s string) {
		d, o := testDuel(t, r), duelOptions(6)
		d.Problem.M, o.Order, o.Seed = m, OrderRandom, seed
		res, err := RunDuel(t.Context(), r, &devicetest.Fake{Registry: r}, d, o)
		if err != nil || len(res.Visits) != 24 {
			t.Fatalf("%v, %+v", err, res)
		}
		for _, v := range res.Visits {
			s += v.Arm
		}
		return s
	}
	one := visits(1, 4096)
	if visits(1, 4096) != one || visits(1, 8192) == one || visits(2, 4096) == one {
		t.Error("the orders are of neither the seed nor the problem alone")
	}
}

// Every problem has orders of its own, whatever it differs by, and the same ones for one seed.
func TestOrders(t *testing.T) {
	problems := []string{
		"rmsnorm/fwd/64x256/bf16", "rmsnorm/bwd/64x256/bf16", "layernorm/fwd/64x256/bf16", "layernorm/fwd/64x256/bf16+bias",
		"rmsnorm/fwd/256x64/bf16", "rmsnorm/fwd/64x256/fp16", "rmsnorm/fwd/64x256/bf16-wfp32", "rmsnorm/fwd/64x256/bf16+zc",
	}
	draw := func(seed uint64, p kernels.Problem) (s string) {
		rng := orders(seed, p)
		for range 12 {
			s += fmt.Sprint(rng.Perm(4))
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
