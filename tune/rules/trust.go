package rules

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// maxFolds bounds the fits of one evaluation. With more shapes than that, a fold
// leaves out several.
const maxFolds = 64

// folds are the groups of shapes that are left out together: one shape each,
// or all shapes of one number of columns.
func (t *table) folds(byN bool) [][]int {
	var groups [][]int
	at := map[int64]int{}
	for k, s := range t.shapes {
		key := int64(k)
		if byN {
			key = s.n
		} else if k > 0 && s.m == t.shapes[k-1].m && s.n == t.shapes[k-1].n {
			key = int64(groups[len(groups)-1][0]) // the same shape, as in fp16 beside bf16
		}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], k)
	}
	if len(groups) <= maxFolds {
		return groups
	}
	merged := make([][]int, maxFolds)
	for i, g := range groups {
		merged[i%maxFolds] = append(merged[i%maxFolds], g...)
	}
	return merged
}

// eachFold calls do for every fold with what it leaves in, several at a time.
// Without the shapes left out there may be nothing to fit: do gets none then.
func (t *table) eachFold(folds [][]int, do func(out, in []int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, out := range folds {
		var in []int
		for k := range t.shapes {
			if !slices.Contains(out, k) {
				in = append(in, k)
			}
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(out, in)
		})
	}
	wg.Wait()
}

// unknownLoss is what an answer costs, beside the default's regret, whose time
// is not known: a third.
var unknownLoss = math.Log(4. / 3)

// heldOut is the log regret of what rules answer on each shape when they were
// fitted without it.
func (t *table) heldOut(byN bool, barred []int, o Options) (loss []float64, unknown int) {
	loss = make([]float64, len(t.shapes))
	blind := make([]bool, len(t.shapes))
	t.eachFold(t.folds(byN), func(out, in []int) {
		l := List{}
		if len(in) > 0 {
			l = t.list(in, barred, o, false)
			l.Hull = hullOf(t, in)
		}
		for _, k := range out {
			s := t.shapes[k]
			loss[k] = s.base
			if slices.Contains(barred, k) {
				continue
			}
			i, _ := l.Find(&s.at)
			if i < 0 || !offers(t.judge, s.problem, l.Rules[i].Recipe) {
				continue // in a written file, the box is narrowed to exclude it
			}
			r := slices.IndexFunc(t.recipes, func(r Recipe) bool { return compareRecipes(r, l.Rules[i].Recipe) == 0 })
			if loss[k] = t.loss[r][k]; math.IsInf(loss[k], 1) {
				loss[k], blind[k] = s.base+unknownLoss, true
			}
		}
	})
	for _, b := range blind {
		if b {
			unknown++
		}
	}
	return loss, unknown
}

// distrust finds the shapes that rules do worse on than the default by more than
// the band when they have not seen them. There the neighbours mislead, and so
// they may between there and the next shape: the place is left to the default,
// in the fits of the folds as in the last one. Fits without some places can
// mislead at others, so it goes on until nothing is worse.
func (t *table) distrust(o Options) (barred []int) {
	band := math.Log1p(TieBand)
	for {
		loss, _ := t.heldOut(false, barred, o)
		before := len(barred)
		for k, s := range t.shapes {
			if loss[k] > s.base+band && !slices.Contains(barred, k) {
				barred = append(barred, k)
			}
		}
		if len(barred) == before {
			slices.Sort(barred)
			return barred
		}
	}
}
