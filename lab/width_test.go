package lab

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep"
	"normbench/sweep/search"
	"normbench/tune"
)

// widthMachine is a CPU on which two_pass is the fastest of few rows, cta_reg of many, and smem_pipe second of both.
func widthMachine() *devicetest.Fake {
	return &devicetest.Fake{DeviceInfo: devicetest.CPU(), Registry: families.New(),
		Seconds: func(p kernels.Problem, v kernels.Variant, sample int) float64 {
			us := 200.0
			few := p.M < 32
			switch design := v.Family[strings.Index(v.Family, "/")+1:]; {
			case design == "stream":
				us = 50
			case design == "two_pass" && few, design == "cta_reg" && !few:
				us = 90
			case design == "smem_pipe":
				us = 99
			}
			return us * (1 + 0.001*float64(sample%3)) * 1e-6
		}}
}

// sweepWidth sweeps two numbers of rows of a width, batch-invariant, and returns what people see and the table.
func sweepWidth(t *testing.T, dev kernels.Device, out, strategy string) (string, *tune.TunedTable) {
	t.Helper()
	return sweepWidthBy(t, families.New(), dev, out, strategy)
}

// sweepWidthBy is sweepWidth with the families of a registry.
func sweepWidthBy(t *testing.T, reg *kernels.Registry, dev kernels.Device, out, strategy string) (string, *tune.TunedTable) {
	t.Helper()
	var said strings.Builder
	l := New(t.Context(), console.New(t.Context(), nil, &said), reg, func() {})
	s := &SweepTask{Config: &OpenOptions{}, Devices: []kernels.Device{dev}, Out: out, BatchInvariant: true}
	for _, text := range []string{"rmsnorm/fwd/8x512/bf16", "rmsnorm/fwd/512x512/bf16"} {
		s.Problems = append(s.Problems, devicetest.Problem(t, text))
	}
	s.Search.Strategy = strategy
	s.Options = sweep.RunOptions{Run: l.NewRun(dev.Info(), sweep.ColdProtocol(dev.Info(), 7)), Seed: 1}
	s.Options.Run.Tool = "test"
	assert.NoError(t, l.LayOut(s))
	found, err := l.Sweep(s)
	assert.Must(t, err == nil && found != nil, "%v: %s", err, &said)
	table, err := tune.Read(filepath.Join(out, dev.Info().ID, tune.FileName))
	assert.NoError(t, err)
	_, err = io.WriteString(&said, found.Found[0].B)
	assert.NoError(t, err)
	return said.String(), table
}

// A batch-invariant sweep gives all rows of a width one config, the best on the whole, and says what that costs. The
// same command measures nothing again.
func TestBatchInvariantSweepPicksOneConfigForAWidth(t *testing.T) {
	for _, strategy := range []string{search.Grid, search.Auto} {
		dev, out := widthMachine(), t.TempDir()
		said, table := sweepWidth(t, dev, out, strategy)
		assert.Must(t, len(table.Entries) == 2, "%s: %d entries\n%s", strategy, len(table.Entries), said)
		a, b := table.Entries[0], table.Entries[1]
		assert.That(t, a.Variant() == b.Variant() && a.Family == "rms_fwd/smem_pipe", "%s: %s and %s", strategy, a.Variant(), b.Variant())
		assert.That(t, a.BatchInvariant > 1.05 && b.BatchInvariant > 1.05, "%s: %g and %g of free choice", strategy,
			a.BatchInvariant, b.BatchInvariant)
		assert.That(t, strings.Contains(said, "batch-invariant: 1.10x of free choice, at most 1.10x, over 2 problems of 1 width"),
			"%s: %s", strategy, said)
		before := len(dev.Calls("time"))
		_, again := sweepWidth(t, dev, out, strategy)
		assert.That(t, again.Entries[0].Variant() == a.Variant(), "%s: again %s", strategy, again.Entries[0].Variant())
		took := 0
		for _, c := range dev.Calls("time")[before:] {
			if _, tested := strings.CutPrefix(c.Problem.String(), "rmsnorm/fwd/"); tested && !strings.HasSuffix(c.Variants[0].Family, "/stream") {
				took++
			}
		}
		assert.That(t, took == 0, "%s: the same command takes %d more times", strategy, took)
	}
}

// A config whose rows have other bits in fewer rows is not picked, and named.
func TestConfigWhoseRowsChangeIsNotPickedForAWidth(t *testing.T) {
	dev := widthMachine()
	dev.Rows = func(p kernels.Problem, v kernels.Variant) uint64 {
		if v.Family == "rms_fwd/smem_pipe" && p.M < 128 {
			return 1
		}
		return 0
	}
	said, table := sweepWidth(t, dev, t.TempDir(), search.Grid)
	assert.That(t, len(table.Entries) == 2 && table.Entries[0].Family != "rms_fwd/smem_pipe" &&
		table.Entries[0].Variant() == table.Entries[1].Variant(), "%v", table.Entries)
	assert.That(t, strings.Contains(said, "is left out on rmsnorm/fwd/512x512/bf16: row 0 of rstd has other bits in 7 rows than in 512"),
		"%s", said)
}

// A config whose bits depend on a row's number is not picked for a width, by its family's word: a replay runs nothing.
func TestConfigByPlaceIsNotPickedForAWidth(t *testing.T) {
	reg := families.New()
	f, err := reg.Lookup("rms_fwd/smem_pipe")
	assert.NoError(t, err)
	f.ByPlace = func(p kernels.Problem, _ kernels.Config, _ kernels.DeviceInfo) bool { return p.N == 512 }
	dev := widthMachine()
	dev.Registry = reg
	for _, strategy := range []string{search.Grid, search.Auto} {
		said, table := sweepWidthBy(t, reg, dev, t.TempDir(), strategy)
		assert.That(t, len(table.Entries) == 2 && table.Entries[0].Family != "rms_fwd/smem_pipe", "%s: %v", strategy, table.Entries)
		assert.That(t, strategy == search.Auto ||
			strings.Contains(said, "is left out on rows of 512 columns: a row's bits depend on its number there"), "%s", said)
	}
}
