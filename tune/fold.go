package tune

import (
	"slices"
	"time"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/sweep/record"
)

// A Fold is what becomes of a tuned table in the course of a sweep: it is written after each
// problem, so that whatever ends the sweep leaves what was found.
type Fold struct {
	Old    *Table // as the sweep found it, nil for none
	Table  *Table // of this sweep
	At     durable.Place
	Source func(family string) string // hash of a family's code now
}

// Add folds in the records of a problem whose search is done.
func (f *Fold) Add(recs []*record.Record, final *record.Run) error {
	var entries []record.Entry
	for _, r := range recs {
		if r.Run == final.ID {
			entries = append(entries, record.Summarize(r, final))
		}
	}
	picks := Pick(entries)
	f.Table.Entries = slices.DeleteFunc(f.Table.Entries, func(a Entry) bool {
		return slices.ContainsFunc(picks, func(b Entry) bool { return a.Problem == b.Problem })
	})
	f.Table.Entries = append(f.Table.Entries, picks...)
	f.Table.AddRuns([]*record.Run{final})
	_, err := f.Write()
	return err
}

// Write writes the table as it is now, over that of before, and says what it wrote.
func (f *Fold) Write() (notes []string, err error) {
	t := f.Table
	slices.SortFunc(t.Entries, func(a, b Entry) int { return record.CompareProblems(a.Problem, b.Problem) })
	t.Created = time.Now().UTC().Truncate(time.Second)
	if f.Old != nil {
		if f.Old.Protocol.Cold && !t.Protocol.Cold {
			return []string{"warm times are for comparison only: " + f.At.String() + " stays as it is"}, nil
		}
		n := 0
		if t, n, err = Merge(f.Old, t, f.Source); err != nil {
			return nil, err
		}
		if n > 0 {
			bak := f.At.In(FileName + ".bak")
			if err := f.Old.Write(bak); err != nil {
				return nil, err
			}
			notes = append(notes, console.Count(n, "entry")+" replaced; "+bak.String()+" has the table before")
		}
	}
	return append(notes, "wrote "+f.At.String()), Update(f.At, func(now *Table) (*Table, error) {
		if now == nil {
			return t, nil
		}
		half := *t
		half.Map = now.Map // learn's, which may have written since the sweep began
		return &half, nil
	})
}
