package ref

import (
	"fmt"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/tune"
)

// Exact is the match of an entry of the problem's own.
const Exact = "exact"

// A TunedBook answers for a device: by the entries of a tuned table, then by a map.
type TunedBook struct {
	*tune.TunedTable                 // without entries where it is the program's own map
	Book             *launchmap.Book // nil where the table has no map
	device           kernels.DeviceInfo
}

type tunedKey struct {
	path   string
	device kernels.DeviceInfo
}

// ReadTuned reads a tuned table for a device; the empty path is the program's own map. A map that is
// no step of the device's ladder is an error, and a config that no family has a note. A table of one
// family answers with no other; the family that is asked for, "" for all or for the table's own, must be
// its.
func (s *Resolver) ReadTuned(path, family string, d kernels.DeviceInfo) (*TunedBook, error) {
	if path == "" {
		return s.builtin(family, d)
	}
	key := tunedKey{path, d}
	t := s.tuned[key]
	if t == nil {
		table, err := tune.Read(path)
		if err != nil {
			return nil, err
		}
		if t, err = s.open(path, table, d); err != nil {
			return nil, err
		}
		if s.tuned == nil {
			s.tuned = map[tunedKey]*TunedBook{}
		}
		s.tuned[key] = t
	}
	if family != "" {
		return t, t.CheckFamily(path, family)
	}
	return t, nil
}

// builtin returns the program's own map, or the default of a family.
func (s *Resolver) builtin(family string, d kernels.DeviceInfo) (*TunedBook, error) {
	t := &TunedBook{TunedTable: &tune.TunedTable{Device: d, BaseOf: family}, device: d}
	if family == "" {
		t.Book = families.Book(s.Registry, families.Rung(d), d)
		return t, nil
	}
	against, err := s.Registry.Against(family)
	if err == nil {
		t.Book = launchmap.NewBook(launchmap.Rung{}, d, against)
	}
	return t, err
}

func (s *Resolver) open(path string, table *tune.TunedTable, d kernels.DeviceInfo) (*TunedBook, error) {
	t, r := &TunedBook{TunedTable: table, device: d}, s.Registry
	if table.BaseOf != "" {
		var err error
		if r, err = r.Against(table.BaseOf); err != nil {
			return nil, hint.Errorf("add --kernels FOLDER, if it is yours", "%s is the table of a family that is not "+
				"there: %w", path, err)
		}
	}
	if m := table.Map; m != nil {
		step, err := launchmap.RungOf(path, m, &d)
		if err != nil {
			return nil, err
		}
		for _, note := range m.UnknownConfigs(s.Registry) {
			s.Note(path + ": " + note + "; its cells are skipped")
		}
		t.Book = families.Book(r, step, d)
	}
	s.Note(t.TellOtherDevice(path))
	return t, nil
}

// TellOtherDevice notes that a table is of another device than it is asked for, or returns "".
func (t *TunedBook) TellOtherDevice(path string) string {
	if t.Device.ID == t.device.ID {
		return ""
	}
	return fmt.Sprintf("%s is of %s, not of %s", path, t.Device.ID, t.device.ID)
}

// Answer is the variant for a problem, without a family for the default, how good the match is,
// and why.
func (t *TunedBook) Answer(p kernels.Problem) (a launchmap.Answer, match, why string) {
	if x, ok := t.Lookup(p); ok {
		a.Variant = x.Variant()
		if t.Device.ID != t.device.ID {
			return a, "other device", "an entry of " + t.Device.ID + ", measured there"
		}
		return a, Exact, "an entry of its own"
	}
	if t.Book == nil {
		return a, "default", "the table has no entry for it, and no map"
	}
	a = t.Book.Answer(p)
	return a, string(a.Match), t.Book.Explain(p, &a)
}

// tunedVariant is the variant of a table for a problem, without a family where it has none.
func (s *Resolver) tunedVariant(r *Ref, p kernels.Problem, d kernels.DeviceInfo) (kernels.Variant, error) {
	t, err := s.ReadTuned(r.Name, "", d)
	if err != nil {
		return kernels.Variant{}, err
	}
	a, match, why := t.Answer(p)
	if a.Variant.Family == "" || match == Exact {
		return a.Variant, nil
	}
	s.Note(r.Text + ": " + p.String() + ": " + match + ", " + why)
	_, v, _, err := s.Registry.Resolve(p, a.Variant, d)
	return v, err
}
