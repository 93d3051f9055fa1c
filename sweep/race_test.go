package sweep

import (
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
)

// TestContestDropsWhoIsFarBehind: who is far behind goes after two rounds, a tie ends it, and what fails is a record.
func TestContestDropsWhoIsFarBehind(t *testing.T) {
	ts := tasks(t, 6, "rmsnorm/fwd/4096x1024/bf16")
	vs := ts[0].Variants
	factor := map[kernels.Variant]float64{vs[0]: 1.03, vs[1]: 1, vs[2]: 1.001, vs[3]: 1.5}
	f := fake()
	f.Seconds = func(p kernels.Problem, v kernels.Variant, sample int) float64 {
		noise := 0.001 * float64(pick(100, p, v, sample)-50) / 50
		if isStream(v) {
			return 10e-6 * (1 + noise)
		}
		return 20e-6 * factor[v] * (1 + noise)
	}
	f.Fail = func(_ kernels.Problem, v kernels.Variant) *kernels.Failure {
		switch v {
		case vs[4]:
			return kernels.Failf(kernels.StatusWrong, "wrong")
		case vs[5]:
			return kernels.Failf(kernels.StatusCompile, "does not compile")
		}
		return nil
	}
	o := contesting(10)
	sink := &memorySink{}
	sum := mustRun(t, ts, sink, o, f)
	sink.remember()
	rounds := map[kernels.Variant]int{}
	status := map[kernels.Variant]kernels.Status{}
	for _, r := range sink.variants() {
		rounds[r.Variant()], status[r.Variant()] = len(r.Visits), r.Status
		assert.That(t,
			(r.Status != kernels.StatusOK || len(r.SamplesUS) == FinalLaunches*len(r.Visits)) &&
				r.Base == (r.Variant() == vs[0]) && r.StreamUS != 0, "%+v", r)
	}
	assert.That(t, rounds[vs[3]] == 2 && rounds[vs[0]] == 3 && rounds[vs[1]] >= 3 &&
		rounds[vs[1]] != 10 && rounds[vs[1]] == rounds[vs[2]], "rounds %v", rounds)
	assert.That(t, status[vs[4]] == kernels.StatusWrong && status[vs[5]] == kernels.StatusCompile &&
		sum.Measured == 6 && sum.Failed == 2 && sum.Problems == 1, "%v, %+v", status, sum)
	// What is there is not measured again, unless a variant is new: then all are.
	again := &memorySink{keys: sink.keys}
	if sum := mustRun(t, ts, again, o, fake()); sum.Skipped != 6 || len(again.records) != 0 {
		t.Errorf("%+v", sum)
	}
	for k, v := range sink.keys {
		if v == kernels.StatusWrong {
			delete(sink.keys, k)
		}
	}
	f = fake()
	if sum := mustRun(t, ts, again, o, f); sum.Measured != 6 || sum.Skipped != 0 {
		t.Errorf("%+v", sum)
	}
}
