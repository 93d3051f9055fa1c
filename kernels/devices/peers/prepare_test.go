package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
)

// prepared is a double whose processes beside it compile into a folder.
func prepared(t *testing.T) (*Worker, string) {
	t.Helper()
	cache := t.TempDir()
	theirs := double(t, 10*time.Second)
	theirs.command = []string{python(t), filepath.Join("testdata", "double.py"), "--cache", cache}
	return theirs, filepath.Join(cache, "triton")
}

func cells(t *testing.T, names []string, problems ...string) (list []ProblemVariant) {
	t.Helper()
	for _, text := range problems {
		for _, name := range names {
			list = append(list, ProblemVariant{devicetest.Problem(t, text), kernels.PeerVariant(name)})
		}
	}
	return list
}

// Every cell is compiled once, by as many processes as are asked for; what
// fails there is counted and does not keep the others from it.
func TestPrepareCompilesEveryCellOnce(t *testing.T) {
	t.Parallel()
	theirs, cache := prepared(t)
	d, err := Join(&devicetest.Fake{}, theirs)
	assert.NoError(t, err)
	list := cells(t, []string{"slow", "crashes", "raises", "plain", "prints"},
		"rmsnorm/fwd/8x64/bf16+zc", "rmsnorm/fwd/16x64/bf16+zc")
	list = append(list, ProblemVariant{list[0].Problem, kernels.Variant{Family: "rms_fwd/cta_reg"}})
	var seen []int
	begun := map[ProblemVariant]bool{}
	got, err := d.Prepare(t.Context(), list, PrepareOptions{Jobs: 2, Limit: 10 * time.Second,
		Progress: func(done, total int, oldest ProblemVariant) {
			assert.Equal(t, total, 10, done)
			assert.That(t, len(seen) != 0 || done <= 0 && oldest != ProblemVariant{},
				"it says %d done of %v at first, not what begins", done, oldest)
			begun[oldest] = true
			if len(seen) == 0 || seen[len(seen)-1] != done {
				seen = append(seen, done)
			}
		}})
	// What is refused is no failure: it is never asked of a peer.
	assert.That(t, err == nil && got.Cells == 10 && got.Failed == 4 && got.First != nil &&
		len(seen) == 11 && seen[10] == 10 && begun[ProblemVariant{}], "%+v, %v, %v", got, err, seen)
	pids := map[string]bool{}
	for _, name := range []string{"slow-8", "slow-16", "prints-8", "prints-16"} {
		text, err := os.ReadFile(filepath.Join(cache, name))
		if lines := strings.Fields(string(text)); err != nil || len(lines) != 1 {
			t.Errorf("%s: %q, %v", name, text, err)
		} else {
			pids[lines[0]] = true
		}
	}
	assert.That(t, len(pids) >= 2, "one process did all")
	_, err = os.Stat(filepath.Join(cache, "plain-8"))
	assert.That(t, err != nil, "what is refused was compiled")
}

// A process that hangs is ended, and one that cannot start costs no time.
func TestProcessThatHangsInPrepareIsEnded(t *testing.T) {
	theirs, _ := prepared(t)
	start := time.Now()
	prepare := func(jobs int, names ...string) (Preparation, error) {
		return theirs.Prepare(t.Context(), cells(t, names, "rmsnorm/fwd/8x64/bf16"),
			PrepareOptions{Jobs: jobs, Limit: 6 * time.Second})
	}
	got, err := prepare(1, "hangs", "prints")
	assert.That(t, err == nil && got.Failed == 1 &&
		strings.Contains(got.First.Error(), "no answer within 6s") &&
		time.Since(start) <= time.Minute, "hangs: %+v, %v", got, err)
	t.Setenv("NORMBENCH_TEST_BUILDER", "none")
	got, err = prepare(2, "right", "prints")
	assert.That(t, err == nil && got.Failed == 2 &&
		strings.Contains(got.First.Error(), "it compiles nothing"), "none: %+v, %v", got, err)
	got, err = prepare(0, "right")
	assert.That(t, err == nil && got.Failed == 0 && got.Cells == 1, "no jobs: %+v, %v", got, err)
}

// What hangs at one number of rows is not asked again at another, and not measured: the reason is there at once.
func TestWhatIsNotCompiledInTimeIsNotMeasured(t *testing.T) {
	theirs, _ := prepared(t)
	d, err := Join(&devicetest.Fake{}, theirs)
	assert.NoError(t, err)
	list := cells(t, []string{"hangs", "right"}, "rmsnorm/fwd/8x64/bf16", "rmsnorm/fwd/16x64/bf16")
	start := time.Now()
	got, err := d.Prepare(t.Context(), list, PrepareOptions{Jobs: 1, Limit: 4 * time.Second})
	assert.That(t, err == nil && got.Failed == 2 && time.Since(start) < time.Minute, "%+v, %v", got, err)
	b, err := d.Open(t.Context(), list[0].Problem, kernels.Inputs{Seed: 1})
	assert.NoError(t, err)
	defer b.Close()
	_, err = b.Check(t.Context(), kernels.PeerVariant("hangs"), 1)
	var f *kernels.Failure
	assert.That(t, errors.As(err, &f) && f.Status == kernels.StatusCompile &&
		f.Reason == "it was not compiled within 4s", "%v", err)
	_, err = b.Check(t.Context(), kernels.PeerVariant("right"), 1)
	assert.NoError(t, err)
}

// The widest rows are compiled first, what tunes before the others, and each width once before it comes again.
func TestPrepareBeginsWithWhatTakesLongest(t *testing.T) {
	theirs := &Worker{Client: double(t, 10*time.Second).Client}
	list := cells(t, []string{"slow"}, "rmsnorm/fwd/8x64/bf16", "rmsnorm/fwd/16x64/bf16", "rmsnorm/fwd/8x128/bf16", "rmsnorm/fwd/4x128/bf16")
	theirs.longestFirst(list)
	var order []string
	for _, c := range list {
		order = append(order, strings.Split(c.Problem.String(), "/")[2])
	}
	assert.Equal(t, strings.Join(order, " "), "8x128 8x64 4x128 16x64")
}

// An interrupt ends them at once.
func TestInterruptEndsPrepareAtOnce(t *testing.T) {
	t.Parallel()
	theirs, _ := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	start := time.Now()
	_, err := theirs.Prepare(ctx, cells(t, []string{"hangs"}, "rmsnorm/fwd/8x64/bf16",
		"rmsnorm/fwd/16x64/bf16"), PrepareOptions{Jobs: 1, Limit: time.Minute})
	assert.That(t, errors.Is(err, context.Canceled) && time.Since(start) <= 20*time.Second,
		"%v after %s", err, time.Since(start))
}
