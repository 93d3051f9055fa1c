package kernels

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// A Family is one kernel design with its knobs, for one op and pass. Its functions are pure.
type Family struct {
	Name   string // "rms_bwd/reg_persist"
	Op     Op     // of a peer "": it does what it can of all
	Pass   Pass
	Doc    string // one line: the design
	Origin string // where the design was published
	// Version is that of foreign code, a peer's, once it is known.
	Version string
	Knobs   []Range
	Files   []string // what its source hash covers: its .go, its .cu and what they share

	// Hidden families measure the ruler or test the harness; sweeps leave them
	// out.
	Hidden bool
	// Plain families are to be read, not to win: who seeks the fastest takes them by name only, or
	// where there is no other.
	Plain bool
	// Stream marks the families that move a problem's tensors and compute
	// nothing else. Their only output is y = x or dx = x + dy.
	Stream bool

	// Unwritten are outputs that the family does not write, so no check holds it to them: the saved
	// statistics of a user's forward.
	Unwritten []string

	// Bits is the family's determinism, and Unordered, where set, says which
	// configs are less than that: not bitwise.
	Bits      Determinism
	Unordered func(c Config) bool

	// Serves says why the family cannot do p, or nil.
	Serves func(p Problem) error
	// Base is the family's own launch rule: the Config it would pick untuned.
	Base func(p Problem, d DeviceInfo) Config
	// Refuse says why c is not a valid Config for p on d, or nil. Plan is only
	// called for what it accepts.
	Refuse func(p Problem, c Config, d DeviceInfo) error
	// Fragile says that only the compiler knows whether c works, and that it may say otherwise at
	// the next number of columns. A search tries such a config, and a tuned entry may have it. A
	// map, which answers for problems that nobody measured, may not. nil says it of none.
	Fragile func(c Config) bool
	// ByPlace says that a row's bits depend on its number: rows are no whole vectors, so each starts its sums
	// elsewhere in one. A request then has other bits beside others. nil says it of none.
	ByPlace func(p Problem, c Config, d DeviceInfo) bool
	Plan    func(p Problem, c Config, d DeviceInfo) Plan
	// Host holds the host stage of each entry that Plan launches.
	Host map[string]HostStage
}

// A Determinism says when a variant's outputs have the same bits.
type Determinism uint8

// The classes. All sums of a family that is bitwise have one order whatever the
// config; of most families the order of sums depends on the config; where
// CTAs add to the same memory as they come, it depends on the run.
const (
	// All sums of a Bitwise family have one order whatever the config. In most families the order
	// depends on the config. Where CTAs add to the same memory as they come, it depends on the run.
	PerConfig  Determinism = iota // the same bits from run to run, for one config
	Bitwise                       // the same bits from run to run and from config to config
	NotBitwise                    // other bits from run to run
)

func (d Determinism) String() string {
	return [...]string{"bitwise per config", "bitwise", "not bitwise"}[d]
}

// KeepsRows says whether a config gives a row the same bits wherever it stands, as far as the family knows.
func (f *Family) KeepsRows(p Problem, c Config, d DeviceInfo) bool {
	return f.ByPlace == nil || !f.ByPlace(p, c, d)
}

// Writes says whether the family writes the output of that name.
func (f *Family) Writes(name string) bool { return !slices.Contains(f.Unwritten, name) }

// BitsOf returns the determinism of one config.
func (f *Family) BitsOf(c Config) Determinism {
	if f.Unordered != nil && f.Unordered(c) {
		return NotBitwise
	}
	return f.Bits
}

// A Range has the values of one knob that a family's grid crosses.
type Range struct {
	Knob   *Knob
	Values []int
}

// Values makes a Range.
func Values(k *Knob, values ...int) Range { return Range{k, values} }

// A Variant is a family with one of its configs, by name. It is comparable.
type Variant struct {
	Family string
	Config Config
}

// String writes FAMILY@LABEL, which ParseVariant reads.
func (v Variant) String() string { return v.Family + "@" + v.Config.String() }

// MarshalText implements encoding.TextMarshaler with String.
func (v Variant) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseVariant.
func (v *Variant) UnmarshalText(b []byte) error {
	w, err := ParseVariant(string(b))
	*v = w
	return err
}

// ParseVariant reads FAMILY@LABEL. It does not check that the family exists.
func ParseVariant(s string) (Variant, error) {
	family, label, ok := strings.Cut(s, "@")
	if !ok || family == "" {
		return Variant{}, hint.Errorf("write FAMILY@LABEL, such as rms_bwd/reg_persist@br1.w8",
			"malformed variant %q", s)
	}
	c, err := ParseConfig(label)
	return Variant{family, c}, err
}

// A Registry has the families that a run knows, with their source files.
type Registry struct {
	Families []*Family
	// Default is the variant that serves p before any tuning.
	Default func(p Problem, d DeviceInfo) Variant
	// File returns a source file of the families by name.
	File func(name string) (string, error)
	// BaseOf names the family that is measured against its own default, see Against; "" for all
	// families.
	BaseOf string
}

// Against returns a registry for measuring a family against its own default: the family is the only
// candidate for a problem, and its own launch rule gives the base. The other families can still be
// looked up, because their variants may be measured beside it.
func (r *Registry) Against(family string) (*Registry, error) {
	f, err := r.Lookup(family)
	if err != nil {
		return nil, err
	}
	against := *r
	against.BaseOf = family
	against.Default = func(p Problem, d DeviceInfo) Variant {
		if !f.CanServe(p) {
			return Variant{}
		}
		v := Variant{family, f.Base(p, d)}
		if f.Refuse(p, v.Config, d) != nil {
			return Variant{}
		}
		return v
	}
	return &against, nil
}

// Lookup finds a family by name.
func (r *Registry) Lookup(name string) (*Family, error) {
	for _, f := range r.Families {
		if f.Name == name {
			return f, nil
		}
	}
	var names []string
	for _, f := range r.Families {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	return nil, hint.Errorf(hint.DidYouMean(name, names, "`normbench list families` names them"),
		"unknown family %q", name)
}

// FamiliesFor lists the families for p's op and pass that can do p, without hidden ones.
func (r *Registry) FamiliesFor(p Problem) []*Family {
	var fs []*Family
	for _, f := range r.Families {
		if !f.Hidden && f.Op == p.Op && f.Pass == p.Pass && f.Serves(p) == nil {
			fs = append(fs, f)
		}
	}
	return fs
}

// Candidates lists the families among which the fastest for p is searched: those named, or without names
// all that serve p. Plain families are among them only where there are no others.
func (r *Registry) Candidates(p Problem, named ...string) []*Family {
	if r.BaseOf != "" {
		if f, err := r.Lookup(r.BaseOf); err == nil && !f.Hidden && f.CanServe(p) {
			return []*Family{f}
		}
		return nil
	}
	all := r.FamiliesFor(p)
	if len(named) > 0 {
		return slices.DeleteFunc(all, func(f *Family) bool { return !slices.Contains(named, f.Name) })
	}
	fast := slices.DeleteFunc(slices.Clone(all), func(f *Family) bool { return f.Plain })
	if len(fast) == 0 {
		return all
	}
	return fast
}

// StreamOf names the stream's family for p's op and pass, "" where there is none.
func (r *Registry) StreamOf(p Problem) string {
	for _, f := range r.Families {
		if f.Stream && f.Op == p.Op && f.Pass == p.Pass {
			return f.Name
		}
	}
	return ""
}

// Base returns the variant that runs p without tuning.
func (r *Registry) Base(p Problem, d DeviceInfo) (Variant, error) {
	v := r.Default(p, d)
	if v.Family == "" && r.BaseOf != "" {
		return v, r.refusesDefault(p, d)
	}
	if _, err := r.Lookup(v.Family); err != nil {
		return Variant{}, err
	}
	return v, nil
}

// refusesDefault makes the error of a registry whose one family has no default for p.
func (r *Registry) refusesDefault(p Problem, d DeviceInfo) error {
	f, err := r.Lookup(r.BaseOf)
	if err == nil {
		err = f.CheckServes(p)
	}
	if err != nil {
		return err
	}
	c := f.Base(p, d)
	return hint.Errorf("`normbench list configs` shows what it takes",
		"%s refuses its own default %s for %s: %w", f.Name, c, p, f.Refuse(p, c, d))
}

// Resolve completes a variant whose config may set only a few knobs with its family's base config, and
// makes its plan. The error says what is unknown, not served or refused.
func (r *Registry) Resolve(p Problem, v Variant, d DeviceInfo) (*Family, Variant, Plan, error) {
	f, err := r.Lookup(v.Family)
	if err != nil {
		return nil, v, Plan{}, err
	}
	if err := f.CheckServes(p); err != nil {
		return nil, v, Plan{}, err
	}
	if v.Config, err = f.Complete(p, v.Config, d); err != nil {
		return nil, v, Plan{}, err
	}
	return f, v, f.Plan(p, v.Config, d), nil
}

// CanServe says whether f can do p, without the words of CheckServes: maps ask it thousands of times.
func (f *Family) CanServe(p Problem) bool {
	return (f.Op == "" || f.Op == p.Op && f.Pass == p.Pass) && f.Serves(p) == nil
}

// CheckServes says why f cannot do p, or returns nil.
func (f *Family) CheckServes(p Problem) error {
	const next = "`normbench list families` shows what each family serves"
	if f.Op != "" && (f.Op != p.Op || f.Pass != p.Pass) {
		return hint.Errorf(next, "%s does not serve %s %s", f.Name, p.Op, p.Pass)
	}
	err := f.Serves(p)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s does not serve %s: %w", f.Name, p, err)
	if hint.Of(err) == "" {
		err = hint.With(err, next)
	}
	return err
}

// CheckKnobs refuses a config with a knob that f does not have.
func (f *Family) CheckKnobs(c Config) error {
	for _, s := range c.Settings() {
		if !f.hasKnob(s.Knob) {
			return hint.Errorf("`normbench list families` shows its knobs", "%s has no knob %q",
				f.Name, s.Knob.Key)
		}
	}
	return nil
}

func (f *Family) hasKnob(k *Knob) bool {
	return slices.ContainsFunc(f.Knobs, func(r Range) bool { return r.Knob == k })
}

// KnownSettings returns the settings of a config whose knobs f has.
func (f *Family) KnownSettings(c Config) []Setting {
	return slices.DeleteFunc(c.Settings(), func(s Setting) bool { return !f.hasKnob(s.Knob) })
}

// Complete sets the knobs that c leaves open to the base config's values. It refuses knobs that f does
// not have and values that do not work for p on d.
func (f *Family) Complete(p Problem, c Config, d DeviceInfo) (Config, error) {
	settings := c.Settings()
	if err := f.CheckKnobs(c); err != nil {
		return c, err
	}
	if len(settings) < len(f.Knobs) { // a map's base takes longer than all the rest
		c = f.Base(p, d).With(settings...)
	}
	if err := f.Refuse(p, c, d); err != nil {
		next := cmp.Or(hint.Of(err), "`normbench list families` shows the values it takes")
		return c, hint.Errorf(next, "%s refuses %s for %s: %w", f.Name, cmp.Or(c.String(), "its only config"), p, err)
	}
	return c, nil
}
