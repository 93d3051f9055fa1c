package ref

import (
	"fmt"

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
// no step of the device's ladder is an error, and a config that no family has a note.
func (s *Resolver) ReadTuned(path string, d kernels.DeviceInfo) (*TunedBook, error) {
	if path == "" {
		return &TunedBook{&tune.TunedTable{Device: d}, families.Book(s.Registry, families.Rung(d), d), d}, nil
	}
	key := tunedKey{path, d}
	if t := s.tuned[key]; t != nil {
		return t, nil
	}
	table, err := tune.Read(path)
	if err != nil {
		return nil, err
	}
	t := &TunedBook{TunedTable: table, device: d}
	if m := table.Map; m != nil {
		step, err := launchmap.RungOf(path, m, &d)
		if err != nil {
			return nil, err
		}
		for _, note := range m.UnknownConfigs(s.Registry) {
			s.Note(path + ": " + note + "; its cells are skipped")
		}
		t.Book = families.Book(s.Registry, step, d)
	}
	s.Note(t.TellOtherDevice(path))
	if s.tuned == nil {
		s.tuned = map[tunedKey]*TunedBook{}
	}
	s.tuned[key] = t
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
	t, err := s.ReadTuned(r.Name, d)
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
