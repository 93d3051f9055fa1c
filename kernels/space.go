package kernels

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// A Refusal is a config left out of a space, with the reason.
type Refusal struct {
	Config Config
	Reason string
}

// A Space is what a family offers for a problem on a device.
type Space struct {
	Configs []Config // the base first, then in grid order
	Refused []Refusal
}

// Space crosses the family's ranges, with replaced ranges from override, and
// sorts the result into configs worth running and refusals: configs that do
// not work, and aliases, whose plan is that of a config already in the space.
//
// A knob that the device does not read (Knob.Host on the cpu) keeps its base
// value, since varying it would only measure noise.
func (f *Family) Space(p Problem, d DeviceInfo, override ...Range) (s Space) {
	s.Configs = f.lay(p, d, override, func(c Config, why error, alias Config) {
		reason := "alias: launches the same as " + alias.String()
		if why != nil {
			reason = why.Error()
		}
		s.Refused = append(s.Refused, Refusal{c, reason})
	})
	slices.SortStableFunc(s.Refused, func(a, b Refusal) int {
		return cmp.Compare(a.Config.label, b.Config.label)
	})
	return s
}

// Configs is Space without the reasons: its Configs, and how many it refuses.
func (f *Family) Configs(p Problem, d DeviceInfo, override ...Range) (
	configs []Config, refused int) {
	configs = f.lay(p, d, override, func(Config, error, Config) { refused++ })
	return configs, refused
}

// lay lists the configs of a space and calls refused with each other one and the reason against
// it, or with the config that launches the same.
func (f *Family) lay(p Problem, d DeviceInfo, override []Range,
	refused func(c Config, why error, alias Config)) (configs []Config) {
	plans := map[[sha256.Size]byte]Config{} // by a hash of the plan
	var text []byte
	consider := func(c Config) {
		if err := f.Refuse(p, c, d); err != nil {
			refused(c, err, Config{})
			return
		}
		plan := f.Plan(p, c, d)
		text = plan.appendText(text[:0])
		key := sha256.Sum256(text)
		if first, taken := plans[key]; !taken {
			plans[key] = c
			configs = append(configs, c)
		} else if first != c {
			refused(c, nil, first)
		}
	}
	base := f.Base(p, d)
	ranges, replaced := f.ranges(d, override)
	if !replaced {
		consider(base)
	}
	products := 1
	for _, r := range ranges {
		products *= len(r.Values)
	}
	all := base.With(firsts(ranges)...).Settings() // of the config at hand
	at := make([]int, len(ranges))
	for j, r := range ranges {
		at[j] = slices.IndexFunc(all, func(s Setting) bool { return s.Knob == r.Knob })
	}
	for i := range products {
		for j := len(ranges) - 1; j >= 0; j-- { // the first range is the outermost
			values := ranges[j].Values
			all[at[j]].Value = values[i%len(values)]
			i /= len(values)
		}
		consider(Config{labelOf(all)})
	}
	return configs
}

// firsts are the knobs of ranges with their first values.
func firsts(ranges []Range) (settings []Setting) {
	for _, r := range ranges {
		settings = append(settings, Setting{r.Knob, r.Values[0]})
	}
	return settings
}

// ranges are the knobs that d varies with their values, in the order of the family, and whether
// override has any of the family's.
func (f *Family) ranges(d DeviceInfo, override []Range) (rs []Range, replaced bool) {
	for _, r := range f.Knobs {
		if i := slices.IndexFunc(override, func(o Range) bool { return o.Knob == r.Knob }); i >= 0 {
			r.Values, replaced = override[i].Values, true
		} else if d.Kind == KindCPU && !r.Knob.Host {
			continue
		}
		rs = append(rs, r)
	}
	return rs, replaced
}
