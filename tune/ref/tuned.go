package ref

import (
	"fmt"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/tune"
)

// Exact is the match of an answer that is an entry for the problem itself.
const Exact = "exact"

// A TunedBook answers for a device: by the entries of a tuned table, then by its map.
type TunedBook struct {
	*tune.TunedTable                 // without entries where it is the program's own map
	Book             *launchmap.Book // nil where the table has no map
	device           kernels.DeviceInfo
}

type tunedKey struct {
	path   string
	device kernels.DeviceInfo
}

// ReadTuned reads a tuned table for a device; the empty path is the program's own map. It fails for a
// map that does not fit the device at any rung, and notes configs that no family has. A table of one
// family answers only for that family; family, if not "", must be the table's.
func (s *Resolver) ReadTuned(path, family string, d kernels.DeviceInfo) (*TunedBook, error) {
	if path == "" {
		return s.builtinBook(family, d)
	}
	key := tunedKey{path, d}
	t := s.tuned[key]
	if t == nil {
		table, err := tune.Read(path)
		if err != nil {
			return nil, err
		}
		if t, err = s.openTable(path, table, d); err != nil {
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

// builtinBook returns the program's own map, or the default of a family.
func (s *Resolver) builtinBook(family string, d kernels.DeviceInfo) (*TunedBook, error) {
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

// openTable makes the book of a table: its entries, and its map if it has one. path is for messages.
func (s *Resolver) openTable(path string, table *tune.TunedTable, d kernels.DeviceInfo) (*TunedBook, error) {
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

// TellOtherDevice returns a note if the table is of another device than asked for, else "".
func (t *TunedBook) TellOtherDevice(path string) string {
	if t.Device.ID == t.device.ID {
		return ""
	}
	return fmt.Sprintf("%s is of %s, not of %s", path, t.Device.ID, t.device.ID)
}

// Answer returns the variant for a problem, how well it matches, and why. The variant is without a
// family where the default runs.
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

// tunedVariant returns the variant of a table for a problem, without a family where it has none. It
// notes an answer that is no entry for the problem itself.
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
