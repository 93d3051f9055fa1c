package peers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"normbench/kernels"
	"normbench/kernels/devices/worker"
)

// A ProblemVariant is a variant of a peer on a problem.
type ProblemVariant struct {
	Problem kernels.Problem
	Variant kernels.Variant
}

// PrepareOptions say how Prepare compiles.
type PrepareOptions struct {
	Jobs  int           // processes at once
	Limit time.Duration // longest for one cell
	// Progress, where set, is told of every cell that begins or ends: how many have ended,
	// and which of those at work began first, the zero ProblemVariant where none is. Calls do not overlap.
	Progress func(done, total int, oldest ProblemVariant)
}

// DefaultLimit is a few times what tuning a backward takes on a busy machine.
const DefaultLimit = 2 * time.Minute

// Preparation is what came of a Prepare.
type Preparation struct {
	Cells  int   // of peers that compile
	Failed int   // of them; they compile when they are measured, or say then what they lack
	First  error // why the first one failed
}

// Prepare compiles for cells before they are measured, in as many processes as
// Jobs says, each a peers.py of its own (Builder there says what is kept). No
// sample may be taken meanwhile: they run on the same GPU. A process that
// hangs or crashes is ended, and is a cell that is not prepared. What a peer has not compiled within the limit it is
// asked no more: neither here, for another number of rows, nor to be measured. The error is ctx's.
func (w *Worker) Prepare(ctx context.Context, cells []ProblemVariant, o PrepareOptions) (Preparation, error) {
	var sum Preparation
	cells = slices.DeleteFunc(slices.Clone(cells), func(c ProblemVariant) bool { return w.builds(c) == "" })
	w.longestFirst(cells)
	if w.late == nil {
		w.late = map[ProblemVariant]error{}
	}
	sum.Cells = len(cells)
	if len(cells) == 0 || o.Jobs < 1 || len(w.command) == 0 {
		return sum, ctx.Err()
	}
	next := make(chan ProblemVariant, len(cells))
	for _, c := range cells {
		next <- c
	}
	close(next)
	var mu sync.Mutex
	done := 0
	var none error               // why a process did not start
	var working []ProblemVariant // in the order in which they began
	tell := func(change func()) {
		mu.Lock()
		defer mu.Unlock()
		if change(); o.Progress != nil && ctx.Err() == nil {
			o.Progress(done, len(cells), append(slices.Clone(working), ProblemVariant{})[0])
		}
	}
	end := func(c ProblemVariant, err error) {
		var f *kernels.Failure
		if errors.As(err, &f) && f.Status == kernels.StatusTimeout {
			w.late[c.width()] = kernels.Failf(kernels.StatusCompile, "it was not compiled within %s", o.Limit)
		}
		if err != nil && !(errors.As(err, &f) && f.Status == kernels.StatusRefused) {
			sum.Failed++
			sum.First = cmp.Or(sum.First, err)
		}
		done++
		working = slices.DeleteFunc(working, func(w ProblemVariant) bool { return w == c })
	}
	var wg sync.WaitGroup
	for range min(o.Jobs, len(cells)) {
		wg.Go(func() {
			command := append(slices.Clone(w.command), "--prepare")
			c, err := worker.Start(ctx, worker.ClientOptions{Command: command, Env: w.env,
				Timeout: o.Limit, Builds: true})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				none = err
				return // the others have its cells
			}
			defer c.Close()
			for cell := range next {
				if ctx.Err() != nil {
					return
				}
				err := error(nil)
				tell(func() { working, err = append(working, cell), w.tooLate(cell) })
				if err == nil {
					err = prepare(ctx, c, cell)
				}
				tell(func() { end(cell, err) })
			}
		})
	}
	wg.Wait()
	if ctx.Err() == nil {
		for cell := range next { // not one process has started
			tell(func() { end(cell, none) })
		}
	}
	return sum, ctx.Err()
}

// width is the cell without its rows.
func (c ProblemVariant) width() ProblemVariant {
	c.Problem.M = 0
	return c
}

// tooLate is why a cell needs not be asked for, or nil: at its width the peer took longer than the limit.
func (w *Worker) tooLate(c ProblemVariant) error { return w.late[c.width()] }

// longestFirst orders cells so that the last ones to end are short. What tunes comes first, and wide rows, of which a
// thread has the most. A row count has seldom kernels of its own: each width is compiled once before it is asked for
// again, and found.
func (w *Worker) longestFirst(cells []ProblemVariant) {
	again := map[ProblemVariant]int{}
	times := make(map[ProblemVariant]int, len(cells))
	for _, c := range cells {
		times[c] = again[c.width()]
		again[c.width()]++
	}
	slices.SortStableFunc(cells, func(a, b ProblemVariant) int {
		return cmp.Or(cmp.Compare(min(times[a], 1), min(times[b], 1)), cmp.Compare(w.builds(b), w.builds(a)),
			cmp.Compare(b.Problem.N, a.Problem.N))
	})
}

func prepare(ctx context.Context, c *worker.Client, cell ProblemVariant) error {
	b, err := c.Open(ctx, cell.Problem, kernels.Inputs{Seed: 1})
	if err != nil {
		return err
	}
	defer b.Close()
	_, err = b.Check(ctx, cell.Variant, 1)
	return err
}

// builds is what a cell's peer says of itself: "compiles", "tunes" or nothing.
func (w *Worker) builds(c ProblemVariant) string {
	name, _ := kernels.PeerName(c.Variant.Family)
	p, _ := Find(w.Peers(), name)
	return p.Builds
}
