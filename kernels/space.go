package kernels

import (
	"crypto/sha256"
	"math/bits"
	"slices"
	"strconv"
)

// Configs is Space without the reasons: its Configs, and how many it refuses. It does not ask about
// each product of the ranges.
//
// Refuse is watched for the knobs that it reads. A refusal holds for every value of the others, so
// they are not crossed. The next config has another value of the knob that was read last. (The method
// is that of Korat: Boyapati, Khurshid and Marinov, ISSTA 2002.)
func (f *Family) Configs(p Problem, d DeviceInfo, override ...Range) (configs []Config, refused int) {
	o := offers{plans: map[planKey]Config{}}
	base := f.Base(p, d)
	ranges, replaced := f.ranges(d, override)
	if !replaced {
		if f.Refuse(p, base, d) == nil {
			o.add(base, f.Plan(p, base, d))
		} else {
			refused++
		}
	}
	products := 1
	for _, r := range ranges {
		products *= len(r.Values)
	}
	if products == 0 {
		return o.configs, refused
	}
	g := newGrid(base, ranges)
	accepted := g.accepted(func(c Config) bool { return f.Refuse(p, c, d) == nil })
	refused += products
	for _, i := range accepted {
		c := g.at(i)
		plain := Config{label: c.String()}
		if first, taken := o.add(plain, f.Plan(p, c, d)); taken || first == plain {
			refused--
		}
	}
	return o.configs, refused
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

// offers are the configs of a space, no two of which have the same plan.
type offers struct {
	configs []Config
	plans   map[planKey]Config
	text    []byte
}

// add takes c, or returns the config that has its plan.
func (o *offers) add(c Config, plan Plan) (first Config, taken bool) {
	o.text = plan.appendText(o.text[:0])
	key := planKey(sha256.Sum256(o.text))
	if first, ok := o.plans[key]; ok {
		return first, false
	}
	o.plans[key] = c
	o.configs = append(o.configs, c)
	return c, true
}

// A planKey is a hash of everything in a plan.
type planKey [sha256.Size]byte

// ---- The grid ---------------------------------------------------------------------

// A draft is the value of a Config while a space is laid out: numbers in place of a label, and a
// record of which of them are read.
type draft struct {
	values [maxKnobs]int // by place
	has    uint64        // places of the knobs that are assigned
	own    uint64        // those of With since: reading them reads nothing of the grid
	reads  *reads        // of the config in the grid, shared by what With makes of it
}

// reads are the knobs of a grid that were read, in the order of the first time.
type reads struct {
	varied uint64
	seen   uint64
	order  []uint8
}

const maxKnobs = 64

// read notes that the knob at a place was read.
func (c *draft) read(at int) {
	if bit := uint64(1) << at; bit&c.reads.varied&^(c.reads.seen|c.own) != 0 {
		c.reads.seen |= bit
		c.reads.order = append(c.reads.order, uint8(at))
	}
}

// with is c with settings added or replaced.
func (c *draft) with(settings []Setting) Config {
	n := *c
	for _, s := range settings {
		n.values[s.Knob.place] = s.Value
		n.has |= 1 << s.Knob.place
		n.own |= 1 << s.Knob.place
	}
	return Config{draft: &n}
}

// Unpacked is c with its values at hand, for who asks Refuse of one config many times. It is neither kept nor compared.
func (c Config) Unpacked() Config {
	n := draft{reads: &reads{}}
	return n.with(c.Settings())
}

// settings lists the assignments in label order.
func (c *draft) settings() []Setting {
	all := make([]Setting, 0, bits.OnesCount64(c.has))
	for left := c.has; left != 0; left &= left - 1 {
		at := bits.TrailingZeros64(left)
		c.read(at)
		all = append(all, Setting{knobs[at], c.values[at]})
	}
	return all
}

// label is the label of the config.
func (c *draft) label() string {
	var b [128]byte
	text := b[:0]
	for left := c.has; left != 0; left &= left - 1 {
		at := bits.TrailingZeros64(left)
		c.read(at)
		if len(text) > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendInt(append(text, knobs[at].Key...), int64(c.values[at]), 10)
	}
	return string(text)
}

// A grid is the product of ranges, the first the outermost, over a base config.
type grid struct {
	ranges []Range
	stride []int         // of a range's value in the number of a product
	of     [maxKnobs]int // a knob's range
	config draft
	reads  reads
}

func newGrid(base Config, ranges []Range) *grid {
	g := &grid{ranges: ranges, stride: make([]int, len(ranges))}
	g.config.reads = &g.reads
	for _, s := range base.Settings() {
		g.config.values[s.Knob.place] = s.Value
		g.config.has |= 1 << s.Knob.place
	}
	products := 1
	for i := len(ranges) - 1; i >= 0; i-- {
		at := ranges[i].Knob.place
		g.of[at] = i
		g.config.has |= 1 << at
		g.reads.varied |= 1 << at
		g.stride[i] = products
		products *= len(ranges[i].Values)
	}
	return g
}

// at is product number i. It changes with the next call.
func (g *grid) at(i int) Config {
	for j, r := range g.ranges {
		g.config.values[r.Knob.place] = r.Values[i/g.stride[j]%len(r.Values)]
	}
	return Config{draft: &g.config}
}

// accepted are the numbers of the products that ok accepts, in their order. The path is the knobs that
// ok has read; every other one has its first value.
func (g *grid) accepted(ok func(Config) bool) []int {
	type step struct{ of, value int } // a range, and which of its values
	var path []step
	var numbers []int
	c := g.at(0)
	for {
		g.reads.seen, g.reads.order = 0, g.reads.order[:0]
		yes := ok(c)
		for _, at := range g.reads.order[len(path):] {
			path = append(path, step{g.of[at], 0})
		}
		if yes {
			from := len(numbers)
			n := 0
			for _, s := range path {
				n += s.value * g.stride[s.of]
			}
			numbers = append(numbers, n)
			for i, r := range g.ranges { // what was not read may have any value
				if g.reads.seen&(1<<r.Knob.place) != 0 {
					continue
				}
				for _, n := range numbers[from:] {
					for v := 1; v < len(r.Values); v++ {
						numbers = append(numbers, n+v*g.stride[i])
					}
				}
			}
		}
		for {
			if len(path) == 0 {
				slices.Sort(numbers)
				return numbers
			}
			s := &path[len(path)-1]
			r := g.ranges[s.of]
			if s.value++; s.value < len(r.Values) {
				g.config.values[r.Knob.place] = r.Values[s.value]
				break
			}
			g.config.values[r.Knob.place] = r.Values[0]
			path = path[:len(path)-1]
		}
	}
}
