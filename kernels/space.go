package kernels

import (
	"cmp"
	"crypto/sha256"
	"math/bits"
	"slices"
)

// A Refusal is a config left out of a space, with the reason.
type Refusal struct {
	Config Config
	Reason string
}

// A Space has the configs that a family accepts for a problem on a device, and the refused ones.
type Space struct {
	Configs []Config // the base first, then in grid order
	Refused []Refusal
}

// Space lays out the family's space: it crosses the ranges of its knobs, with override's in place of
// some, and sorts the configs into those worth running and refusals. Refused are configs that do not
// work, and aliases, whose plan is that of a config already in the space.
//
// A knob that the device does not read (a CPU reads those with Knob.Host) keeps its base value, since
// varying it would only measure noise.
func (f *Family) Space(p Problem, d DeviceInfo, override ...Range) (s Space) {
	s.Configs = f.listConfigs(p, d, override, func(c Config, why error, alias Config) {
		reason := "alias: launches the same as " + alias.String()
		if why != nil {
			reason = why.Error()
		}
		s.Refused = append(s.Refused, Refusal{Config{label: c.String()}, reason})
	})
	slices.SortStableFunc(s.Refused, func(a, b Refusal) int {
		return cmp.Compare(a.Config.label, b.Config.label)
	})
	return s
}

// Configs lists the configs of the space and counts the refused ones; without the reasons it is faster.
func (f *Family) Configs(p Problem, d DeviceInfo, override ...Range) (
	configs []Config, refused int) {
	configs = f.listConfigs(p, d, override, func(Config, error, Config) { refused++ })
	return configs, refused
}

// listConfigs lists the configs of a space. It calls refused for each other config, with the reason
// against it or with the config that launches the same; the callee must not keep the config.
func (f *Family) listConfigs(p Problem, d DeviceInfo, override []Range,
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
		key, kept := sha256.Sum256(text), Config{label: c.String()}
		if first, taken := plans[key]; !taken {
			plans[key] = kept
			configs = append(configs, kept)
		} else if first != kept {
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
	g := draft{}
	for _, s := range base.Settings() {
		g.set(s.Knob, s.Value)
	}
	for i := range products {
		for j := len(ranges) - 1; j >= 0; j-- { // the first range is the outermost
			values := ranges[j].Values
			g.set(ranges[j].Knob, values[i%len(values)])
			i /= len(values)
		}
		consider(Config{draft: &g})
	}
	return configs
}

// ranges lists the knobs that d varies with their values, in the order of the family. replaced says
// whether override has any of them.
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

// A draft is a config while a space is laid out: values by knob in place of a label.
type draft struct {
	values [maxKnobs]int // by place
	has    uint64        // places of the knobs that are assigned
}

const maxKnobs = 64

func (c *draft) set(k *Knob, v int) {
	c.values[k.place] = v
	c.has |= 1 << k.place
}

// with returns c with settings added or replaced.
func (c *draft) with(settings []Setting) Config {
	n := *c
	for _, s := range settings {
		n.set(s.Knob, s.Value)
	}
	return Config{draft: &n}
}

// Unpack returns c as a draft, for callers that look up many values. It must not be kept or compared.
func (c Config) Unpack() Config {
	var n draft
	return n.with(c.Settings())
}

// settings lists the assignments in label order.
func (c *draft) settings() []Setting {
	all := make([]Setting, 0, bits.OnesCount64(c.has))
	for rest := c.has; rest != 0; rest &= rest - 1 {
		at := bits.TrailingZeros64(rest)
		all = append(all, Setting{knobs[at], c.values[at]})
	}
	if c.has>>ours != 0 { // the places of users' knobs are in the order of their coming
		slices.SortFunc(all, func(a, b Setting) int { return a.Knob.compareOrder(b.Knob) })
	}
	return all
}
