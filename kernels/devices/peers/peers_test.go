package peers

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
)

// python is the interpreter of these tests; they are skipped, loudly, where
// there is none.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("NOT TESTED: there is no python3 here, and peers.py is Python")
	}
	return path
}

// double starts testdata/double.py.
func double(t *testing.T, limit time.Duration, args ...string) *Worker {
	t.Helper()
	c, err := worker.Start(t.Context(), worker.ClientOptions{
		Command: append([]string{python(t), filepath.Join("testdata", "double.py")}, args...),
		Timeout: limit,
	})
	assert.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &Worker{Client: c}
}

// A registry with peers runs them, and no sweep takes them along.
func TestNoSweepTakesPeersAlong(t *testing.T) {
	const mine = "py:old/my.py:norm"
	r := Register(families.New(), []kernels.Peer{{Name: mine, Version: "source 1"}})
	shared, err := fs.Glob(os.DirFS("."), "peerbench/*.py")
	assert.That(t, err == nil && len(shared) > 0, "%v", err)
	shared = append([]string{"peers.py"}, shared...)
	for name, own := range map[string][]string{
		"peer/compile-max": {"libraries/compile_max.py", "libraries/torch.py"},
		mine:               nil,
	} {
		want := slices.Concat(shared, own)
		f, err := r.Lookup(name)
		assert.That(t, err == nil && slices.Equal(f.Files, want) &&
			(f.Version != "") == (name == mine), "%s: %+v, %v", name, f, err)
	}
	assert.Equal(t, len(Register(r, nil).Families), len(r.Families)-1,
		len(r.Families), "families, then")
	for _, text := range []string{"rmsnorm/fwd/8x64/bf16", "layernorm/bwd/8x64/bf16+bias"} {
		p := devicetest.Problem(t, text)
		for _, name := range append(Names, mine) {
			_, _, plan, err := r.Resolve(p, kernels.PeerVariant(name), devicetest.H200())
			assert.That(t, err == nil && len(plan.Launches) == 0,
				"%s on %s: %v, %v", name, p, plan, err)
		}
		for _, f := range r.FamiliesFor(p) {
			_, ok := kernels.PeerName(f.Name)
			assert.That(t, !ok, "%s serves %s in a sweep", f.Name, p)
		}
	}
	h, err := families.Hash(r)
	assert.That(t, err == nil && h != "", "%v %v", h, err)
}

// outcome is what a peer of the double came to.
func outcome(t *testing.T, b kernels.Bench, name, op string) string {
	t.Helper()
	v := kernels.PeerVariant(name)
	var err error
	if op == "hash" {
		_, err = kernels.HashRows(t.Context(), b, v, kernels.MostHashed)
	} else if op == "time" {
		var tm kernels.Timing
		tm, err = b.Time(t.Context(), v, kernels.TimeOptions{Samples: 3, Flush: 1 << 20})
		assert.That(t, err != nil || len(tm.Seconds) == 3, "%s: %d samples", name, len(tm.Seconds))
	} else {
		var c kernels.Check
		if c, err = b.Check(t.Context(), v, 2); err == nil {
			return c.Reason()
		}
	}
	if err == nil {
		return ""
	}
	var f *kernels.Failure
	assert.Must(t, errors.As(err, &f), "%s %s: %v is no Failure", op, name, err)
	text := f.Error()
	if f.Broken {
		text += " (broken)"
	}
	return text
}

// What a peer may do, each beside one that does right before and after it: testdata/protocol.txt.
func TestPeersThatMisbehaveAreFailures(t *testing.T) {
	t.Parallel()
	p := devicetest.Problem(t, "rmsnorm/fwd/8x64/bf16+zc+residual")
	ours := &devicetest.Fake{}
	d, err := Join(ours, double(t, 6*time.Second))
	assert.NoError(t, err)
	b, err := d.Open(t.Context(), p, kernels.Inputs{Seed: 1<<63 + 7})
	assert.NoError(t, err)
	defer b.Close()
	assert.Lines(t, "testdata/protocol.txt", func(input string) string {
		op, name, _ := strings.Cut(input, " ")
		defer func() { assert.Equal(t, outcome(t, b, "right", op), "", op, "right after", name) }()
		return cmp.Or(outcome(t, b, name, op), "right")
	})
	text := "the host takes 40.0 us for a call, which is in no time here: up to 75% host-bound, " +
		"on 1 of 1 problems"
	if got := d.HostBound("peer/right"); got != text || d.HostBound("peer/wrong") != "" {
		t.Errorf("%q, %q", got, d.HostBound("peer/wrong"))
	}
	// Ours was opened once, whatever the peers did.
	calls := ours.Calls("open", "close")
	assert.Equal(t, len(calls), 1, calls)
	assert.Equal(t, outcome(t, b, "right", "check"), "")
	_, err = b.Check(t.Context(), kernels.Variant{Family: "rms_fwd/cta_reg"}, 1)
	assert.That(t, err == nil, "%v", err)
}

// Our sensor is told of the process that the peers have at the moment.
func TestSensorKnowsTheProcessOfThePeers(t *testing.T) {
	t.Parallel()
	ours := &devicetest.SensorFake{Fake: &devicetest.Fake{},
		Reading: func(int) kernels.Reading { return kernels.Reading{ClockMHz: 1980} }}
	d, err := Join(ours, double(t, time.Minute))
	assert.NoError(t, err)
	b, err := d.Open(t.Context(), devicetest.Problem(t, "rmsnorm/fwd/8x64/bf16"), kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	seen := func() []int {
		r, err := d.Sense(t.Context())
		assert.That(t, err == nil && r.ClockMHz == 1980, "%+v, %v", r, err)
		return ours.PIDs
	}
	outcome(t, b, "right", "check")
	first := seen()
	outcome(t, b, "crashes", "check")
	gone := seen()
	assert.Equal(t, len(gone), 0, "after a crash", gone, "beside")
	outcome(t, b, "right", "check")
	next := seen()
	assert.That(t, len(first) == 1 && len(next) == 1 && first[0] != next[0] &&
		first[0] != os.Getpid(), "beside: %v, then %v", first, next)
}

// Two GPUs are not one.
func TestTwoGPUsAreNotOne(t *testing.T) {
	theirs := double(t, time.Minute, "--uuid", "GPU-2")
	for _, info := range []kernels.DeviceInfo{{ID: "cpu", Kind: kernels.KindCPU, Name: "a CPU"},
		{ID: "x", Kind: kernels.KindCUDA, UUID: "GPU-1"}} {
		_, err := Join(&devicetest.Fake{DeviceInfo: info}, theirs)
		assert.That(t, err != nil && hint.Of(err) != "", "beside %+v: %v", info, err)
	}
	all := theirs.Peers()
	assert.That(t, len(all) >= 2 && all[0].Version == "right 1.0" &&
		strings.Contains(all[1].Missing, "'absent'"), "%+v", all)
}

// What a Python may lack is one line and a hint, and no file is left.
func TestWhatPythonLacksIsOneLineAndAHint(t *testing.T) {
	path := python(t)
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, test := range []struct{ python, path, want string }{
		{t.TempDir(), "", "is not there"},
		{path, "notorch", "has no torch: ModuleNotFoundError: No module named 'torch'"},
		{path, "nocuda", `torch 9\.9\+cpu of .* has no CUDA GPU`},
	} {
		if test.path != "" {
			abs, err := filepath.Abs(filepath.Join("testdata", test.path))
			assert.NoError(t, err)
			t.Setenv("PYTHONPATH", abs)
		}
		_, err := Start(t.Context(), LibraryOptions{Python: test.python, Timeout: 20 * time.Second})
		assert.Must(t, err != nil && matches(test.want, err.Error()), "%v, want %q", err, test.want)
		assert.Refused(t, err, "")
	}
	left, err := os.ReadDir(tmp)
	assert.That(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
}

// Every file of libraries says what lies in the interval of its backward, for the tables of pages.
func TestLibrariesSayWhatIsTimed(t *testing.T) {
	for _, name := range Names {
		system, interval := About(name)
		assert.That(t, system != "" && len(interval) > 10 && len(interval) < 120, "%s: %q, %q", name, system, interval)
	}
}
