package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/record"
	"normbench/tune"
	"normbench/tune/ref"
)

// recordedVariants returns the right variants of a recorded operand.
func (l *Lab) recordedVariants(text string) (map[kernels.Problem]kernels.Variant, error) {
	side, err := l.Side(text)
	vs := map[kernels.Problem]kernels.Variant{}
	for p, c := range side.Cells {
		if c.Status == kernels.StatusOK {
			vs[p] = c.Variant
		}
	}
	return vs, err
}

// Side reads what a recorded operand has.
func (l *Lab) Side(text string) (side report.Side, err error) {
	r, err := l.ParseRecording(text)
	if err != nil {
		return side, err
	}
	if r.Tuned {
		return tableSide(text, r.Path)
	}
	path, family := familyFolder(r.Path)
	f := l.files[path]
	if f == nil {
		if f, err = record.Load(path); err != nil {
			return side, err
		}
		l.Note(f.Notes...)
		l.files[path] = f
	}
	latest, searched := f.LatestOutcomes(), f.SearchOutcomes()
	if family == "" {
		if family, err = chooseFamily(path, &r, slices.Concat(latest, searched)); err != nil {
			return side, err
		}
	}
	latest, searched = latest.Against(family), searched.Against(family)
	var won map[kernels.Problem]tune.Entry
	ahead := map[kernels.Problem]report.Measurement{}
	if r.All { // the finals chose among all there is, and not always what was fastest in them
		won = map[kernels.Problem]tune.Entry{}
		for es := range latest.ByProblem() {
			for _, x := range tune.Pick(es) {
				if x.Chosen != "" {
					won[x.Problem] = x
				}
				if u := report.FasterThanBase(pointers(es), x.Variant()); u != nil {
					ahead[x.Problem] = report.Measurement{Outcome: *u}
				}
			}
		}
	}
	side = chosenSide(text, f.Path, latest, searched, r.Keeps, won)
	side.Ahead = ahead
	return side, nil
}

func pointers(entries []record.Outcome) (list []*record.Outcome) {
	for i := range entries {
		list = append(list, &entries[i])
	}
	return list
}

// familyFolder splits OUT/DEVICE/FAMILY, in which the tuned table of a family against itself lies, into
// the folder of the device's records, which are there beside all others, and the family.
func familyFolder(path string) (folder, family string) {
	if _, err := os.Stat(filepath.Join(path, tune.FileName)); err != nil {
		return path, ""
	}
	folder = filepath.Clean(path)
	for range 2 { // a family's name has up to two parts
		family = filepath.ToSlash(filepath.Join(filepath.Base(folder), family))
		folder = filepath.Dir(folder)
		if record.HasFile(path) {
			return path, ""
		}
		if record.HasFile(folder) {
			return folder, family
		}
	}
	return path, ""
}

// chooseFamily says which of a file's measurements an operand means: those against normbench's default,
// or those of a family against itself, if the selector names that or there is no base but its own.
func chooseFamily(path string, r *ref.Recording, entries record.Outcomes) (string, error) {
	var against []string
	based := false
	for _, e := range entries {
		switch {
		case e.BaseOf != "":
			if !slices.Contains(against, e.BaseOf) {
				against = append(against, e.BaseOf)
			}
		case e.Variant.Family == r.Family:
			return "", nil
		default:
			based = based || e.Base
		}
	}
	slices.Sort(against)
	switch {
	case slices.Contains(against, r.Family):
		return r.Family, nil
	case based || len(against) == 0 || !r.All && !r.Bases:
		return "", nil
	case len(against) == 1:
		return against[0], nil
	}
	return "", hint.Errorf("name the folder of one: "+filepath.Join(path, filepath.FromSlash(against[0])),
		"%s has sweeps of %s, each against itself, and no other", path, strings.Join(against, ", "))
}

// tableSide has the entries of a tuned table.
func tableSide(text, path string) (report.Side, error) {
	t, err := tune.Read(path)
	if err != nil {
		return report.Side{}, err
	}
	s := report.Side{Label: text, Records: path, Cells: map[kernels.Problem]report.Measurement{}}
	floors := map[string]float64{}
	for _, r := range t.Runs {
		floors[r.ID] = r.FloorUS
	}
	for _, x := range t.Entries {
		run := &record.Run{ID: x.Run, FloorUS: floors[x.Run]}
		run.Device.Kind = t.Device.Kind
		c := report.Measurement{Outcome: record.Outcome{Run: run, Variant: x.Variant(), Status: kernels.StatusOK,
			Bytes: x.Problem.Bytes(), StreamUS: x.StreamUS}}
		if c.Median = x.MedianUS; len(x.CIUS) == 2 {
			c.Lo, c.Hi = x.CIUS[0], x.CIUS[1]
		}
		s.Cells[x.Problem] = c
	}
	return s, nil
}

// chosenSide is the operand of the entries that keep wants; won is what the finals of a problem
// chose.
func chosenSide(text, path string, latest, searching record.Outcomes, keep func(*record.Outcome) bool,
	won map[kernels.Problem]tune.Entry) report.Side {
	of := func(entries record.Outcomes, won map[kernels.Problem]tune.Entry) report.Side {
		configs := map[kernels.Problem]int{}
		s := report.SideOf(text, slices.Values(entries), func(x *record.Outcome) bool {
			ours := keep(x)
			if ours && x.Status == kernels.StatusOK {
				configs[x.Problem]++
			}
			if w, ok := won[x.Problem]; ok {
				return ours && x.Variant == w.Variant() && x.Run != nil && x.Run.ID == w.Run
			}
			return ours
		})
		for p, c := range s.Cells {
			c.Configs = max(configs[p], 1)
			s.Cells[p] = c
		}
		return s
	}
	s, searched := of(latest, won), of(searching, nil)
	s.Records = path
	if len(searched.Cells) == 0 {
		return s
	}
	type at struct {
		p kernels.Problem
		v kernels.Variant
	}
	again := map[at]bool{}
	for _, x := range latest {
		again[at{x.Problem, x.Variant}] = true
	}
	s.Cells = report.BestCells(s.Cells, searched.Cells, func(p kernels.Problem, v kernels.Variant) bool {
		return won[p].Chosen != "" || again[at{p, v}]
	})
	return s
}
