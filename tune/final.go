package tune

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// pickFinal is pick of a problem whose search has chosen: of several, the last in
// the file, as clocks are set back.
func pickFinal(es []record.Entry) (Entry, bool) {
	chosen := -1
	for i, e := range es {
		if e.Finals().Chosen == "" || e.Status != kernels.StatusOK {
			continue
		}
		if chosen < 0 || e.Finals().Place > es[chosen].Finals().Place {
			chosen = i
		}
	}
	if chosen < 0 {
		return Entry{}, false
	}
	b := es[chosen]
	won := b.Finals()
	var finals []record.Entry // of the same run
	for _, e := range es {
		if e.Run == b.Run {
			finals = append(finals, e)
		}
	}
	// Records of before this rule may have chosen one that the rounds do not prove faster. Where
	// the medians of all samples have the base ahead the two disagree, and nothing is proved.
	for _, o := range finals {
		if of := o.Finals(); o.Base && o.Status == kernels.StatusOK && o.Variant != b.Variant {
			floor, _, _, _ := verdict.Gain(of.BaseAgain, of.Rounds)
			if !verdict.Ahead(of.Rounds, won.Rounds, floor) || o.Median < b.Median {
				b, won = o, of
				won.Chosen = "base: none is faster beyond doubt"
			}
			break
		}
	}
	e := entryOf(&b)
	e.SearchUS, e.Chosen, e.Unstable = won.SearchUS, won.Chosen, b.Differing > 0
	slices.SortStableFunc(finals, func(a, b record.Entry) int { return cmp.Compare(a.Median, b.Median) })
	for _, o := range finals {
		e.Variants.Measured++
		if o.Status != kernels.StatusOK {
			e.Variants.Failed++
			continue
		}
		e.Variants.OK++
		of := o.Finals()
		rival := rivalOf(&o)
		gain, lo, hi, ok := verdict.Gain(of.Rounds, won.Rounds)
		if ok {
			rival.GainLo = round(lo)
		}
		if o.Base {
			e.Base = rival
			e.Speedup = round(o.Median / b.Median)
			if ok && o.Variant != b.Variant {
				e.Speedup = round(1 + gain) // paired: what drifts between rounds cancels
				e.SpeedupCI = []float64{round(1 + lo), round(1 + hi)}
			}
			if floor, _, _, ok := verdict.Gain(of.BaseAgain, of.Rounds); ok {
				e.Noise = round(math.Abs(floor))
			}
		}
		if of.Entry {
			e.Held = rival
		}
		if o.Variant != b.Variant && e.RunnerUp == nil {
			e.RunnerUp = &RunnerUp{*rival, round(100 * (o.Median/b.Median - 1))}
		}
	}
	return e, true
}

// AddSearched fills in what the searches before the finals measured, from
// record.File.Searched of the run's search: how many variants stood behind a
// pick.
func (t *Table) AddSearched(entries iter.Seq[*record.Entry]) {
	at := map[kernels.Problem]int{}
	for i, e := range t.Entries {
		if e.Chosen != "" {
			at[e.Problem] = i
			t.Entries[i].Variants = Counts{}
		}
	}
	for e := range entries {
		i, ok := at[e.Problem]
		if !ok || e.Variant.Family == record.Stream {
			continue
		}
		c := &t.Entries[i].Variants
		switch {
		case e.Status == record.StatusPruned:
			c.Pruned++
			continue
		case e.Status == kernels.StatusOK:
			c.OK++
		default:
			c.Failed++
		}
		c.Measured++
	}
}
