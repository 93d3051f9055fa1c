package tune

import (
	"slices"
	"time"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// A Fold builds a tuned table in the course of a sweep. A search writes the table after each problem, so
// that its winners are there however the sweep ends.
type Fold struct {
	registry *kernels.Registry
	id       *families.Identity
	records  *record.File // of the results folder
	old      *TunedTable  // as the sweep found it, nil for none
	table    *TunedTable  // of this sweep
	at       durable.Place
}

// NewFold begins a table without entries, which will replace an old one of the same device and family
// (nil for none). A table of one family takes a registry for that family (kernels.Registry.Against).
func NewFold(r *kernels.Registry, records *record.File, old, table *TunedTable, at durable.Place) (*Fold,
	error) {
	if id := table.Device.ID; old != nil && old.Device.ID != id {
		return nil, hint.Errorf("keep one tuned table per device",
			"a tuned table of %s does not merge with one of %s", old.Device.ID, id)
	}
	if err := old.CheckFamily(at.String(), table.BaseOf); err != nil {
		return nil, err
	}
	return &Fold{r, families.NewIdentity(r, table.Device.Kind), records, old, table, at}, nil
}

// Resume writes entries for the searches that the records have already: a killed sweep may not have
// written its last problem.
func (f *Fold) Resume() error {
	for es := range f.current() {
		f.table.Entries = append(f.table.Entries, Pick(es)...)
	}
	if len(f.table.Entries) == 0 {
		return nil
	}
	_, err := f.write()
	return err
}

// Add adds the entry of a problem whose search is done, and writes the table.
func (f *Fold) Add(recs []*record.Record, final *record.Run) error {
	var entries []record.Outcome
	for _, r := range recs {
		if r.Run == final.ID {
			entries = append(entries, record.Summarize(r, final))
		}
	}
	picks := Pick(entries)
	f.table.Entries = slices.DeleteFunc(f.table.Entries, func(a Entry) bool {
		return slices.ContainsFunc(picks, func(b Entry) bool { return a.Problem == b.Problem })
	})
	f.table.Entries = append(f.table.Entries, picks...)
	f.table.addRuns(final)
	_, err := f.write()
	return err
}

// Conclude makes all entries anew from the records, writes the table and returns notes for a person.
// each is called for each problem with its variants and its entry.
//
// A grid that was cut off gives whole, how many variants each problem must have. A problem with fewer
// gets no entry, and if no problem is whole the table is not written.
func (f *Fold) Conclude(whole map[kernels.Problem]int,
	each func(p kernels.Problem, variants []*record.Outcome, picks []Entry)) (notes []string, err error) {
	finals, some := f.table.Protocol.Phase == record.PhaseFinal, whole == nil
	f.table.Entries = nil
	for es := range f.current() {
		var variants []*record.Outcome
		for i := range es {
			if es[i].Variant.Family != record.Stream {
				variants = append(variants, &es[i])
			}
		}
		if p := es[0].Problem; finals || len(variants) >= whole[p] {
			some = true
			picks := Pick(es)
			f.table.Entries = append(f.table.Entries, picks...)
			each(p, variants, picks)
		}
	}
	if !some {
		return nil, nil
	}
	f.table.addRuns(f.records.Runs...)
	if finals {
		notes = f.countVariants()
	}
	wrote, err := f.write()
	return append(notes, wrote...), err
}

// write merges the table with the old one, writes it and returns notes about what it replaced. It leaves
// the map of a table that was written meanwhile.
func (f *Fold) write() (notes []string, err error) {
	t := f.table
	slices.SortFunc(t.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	t.Created = time.Now().UTC().Truncate(time.Second)
	if f.old != nil {
		if f.old.Protocol.Cold && !t.Protocol.Cold {
			return []string{"warm times are for comparison only: " + f.at.String() + " stays as it is"}, nil
		}
		n := 0
		if t, n = merge(f.old, t, f.id.SourceOf); n > 0 {
			bak := f.at.Sibling(FileName + ".bak")
			if err := f.old.Write(bak); err != nil {
				return nil, err
			}
			notes = append(notes,
				console.Count(n, "entry")+" replaced; "+bak.String()+" has the table before")
		}
	}
	return append(notes, "wrote "+f.at.String()), Update(f.at, func(now *TunedTable) (*TunedTable, error) {
		if now == nil {
			return t, nil
		}
		half := *t
		half.Map = now.Map // learn's, which may have written since the sweep began
		return &half, nil
	})
}
