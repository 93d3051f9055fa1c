package families

import (
	"math"
	"math/rand/v2"
	"testing"

	"normbench/kernels"
	"normbench/kernels/devicetest"
)

// Every zone of the launch rules is the first for some problem, and its family takes what it sets: none is hidden by those above
// it, and none sets what is refused.
func TestZones(t *testing.T) {
	whole := func(p kernels.Problem, _ kernels.DeviceInfo) bool { return p.N*p.DType.Size()%16 == 0 }
	short := func(p kernels.Problem, d kernels.DeviceInfo) bool {
		return whole(p, d) && p.M*p.N*p.DType.Size() <= d.CacheBytes
	}
	uneven := func(p kernels.Problem, d kernels.DeviceInfo) bool { return !whole(p, d) }
	narrow := func(p kernels.Problem, d kernels.DeviceInfo) bool { return inZone(narrowRows, p, d) }
	all := func(kernels.Problem, kernels.DeviceInfo) bool { return true }
	eights := func(p kernels.Problem, _ kernels.DeviceInfo) bool { return p.N%8 == 4 }
	fours := func(p kernels.Problem, _ kernels.DeviceInfo) bool { return p.N%4 == 2 }
	less := func(p kernels.Problem, _ kernels.DeviceInfo) bool { return p.N%4 != 0 }
	pipe, reg, shot, tiles := defaults{"smem_pipe", onePipe}, defaults{"cta_reg", oneReg}, defaults{"one_shot", at("br1.u1.cl1")}, defaults{"smem_pipe", oneTile}
	for name, table := range map[string]struct {
		pass     kernels.Pass
		defaults defaults
		zones    []zoneConfig
		among    func(kernels.Problem, kernels.DeviceInfo) bool
	}{
		"wideShots":     {kernels.Fwd, shot, wideShots, all},
		"smallShots":    {kernels.Fwd, shot, smallShots, whole},
		"wholeShots":    {kernels.Fwd, shot, wholeShots, whole},
		"unevenShots":   {kernels.Fwd, shot, unevenShots, uneven},
		"narrowPipes":   {kernels.Fwd, pipe, narrowPipes, narrow},
		"pipes":         {kernels.Fwd, pipe, pipes, all},
		"wholeRegs":     {kernels.Fwd, reg, wholeRegs, all},
		"narrowZones":   {kernels.Bwd, tiles, narrowZones, all},
		"shortTiles":    {kernels.Bwd, tiles, shortTiles, short},
		"shortNarrow":   {kernels.Bwd, tiles, shortNarrow, short},
		"someRowsZones": {kernels.Bwd, tiles, someRowsZones, whole},
		"wholeTiles":    {kernels.Bwd, tiles, wholeTiles, whole},
		"wholeZones":    {kernels.Bwd, tiles, wholeZones, whole},
		"eightZones":    {kernels.Bwd, tiles, eightZones, eights},
		"evenZones":     {kernels.Bwd, tiles, evenZones, fours},
		"oddZones":      {kernels.Bwd, tiles, oddZones, less},
		"fewRowsZones":  {kernels.Bwd, defaults{"few_rows", oneRow}, fewRowsZones, all},
		"unevenFwds":    {kernels.Fwd, defaults{}, nil, uneven},
	} {
		zones, design := table.zones, make([]defaults, len(table.zones))
		for i := range design {
			design[i] = table.defaults
		}
		if name == "unevenFwds" {
			for _, z := range unevenFwds {
				zones = append(zones, zoneConfig{z.zone, z.set})
				if z.design == "cta_reg" {
					design = append(design, reg)
				} else {
					design = append(design, defaults{"smem_pipe", oneUneven.With(onePipe.Settings()...)})
				}
			}
		}
		for i := range zones {
			if !reached(zones, i, table.pass, design[i], table.among) {
				t.Errorf("%s: zone %d, %+v %s, is no problem's, or refused for all", name, i, zones[i].zone, zones[i].set)
			}
		}
	}
}

// defaults are a design and what a table leaves out of its configs.
type defaults struct {
	design string
	config kernels.Config
}

// reached looks for a problem of zone i, and of none above it.
func reached(zones []zoneConfig, i int, pass kernels.Pass, def defaults, among func(kernels.Problem, kernels.DeviceInfo) bool) bool {
	r, d, z := rand.New(rand.NewPCG(1, uint64(i))), devicetest.H200(), zones[i]
	registry := New()
	for range 20000 {
		p := draw(z.zone, pass, r, d)
		if !z.holds(p, d) || !among(p, d) {
			continue
		}
		first := 0
		for !zones[first].holds(p, d) {
			first++
		}
		if first != i {
			continue
		}
		if z.set == leave {
			return true
		}
		f, err := registry.Lookup(name(p.Op, pass, def.design))
		if err != nil {
			panic(err)
		}
		c := f.Base(p, d).With(def.config.Settings()...).With(z.set.Settings()...)
		if f.Refuse(p, c, d) == nil {
			return true
		}
	}
	return false
}

// draw is a problem within the bounds of z, as far as they are simple.
func draw(z zone, pass kernels.Pass, r *rand.Rand, d kernels.DeviceInfo) kernels.Problem {
	between := func(least, most float64) int64 {
		return int64(math.Ceil(least * math.Pow(max(most/least, 1), r.Float64())))
	}
	p := kernels.Problem{Op: z.op, Pass: pass, DType: kernels.BF16, Weight: kernels.BF16}
	if p.Op == "" {
		p.Op = []kernels.Op{kernels.RMSNorm, kernels.LayerNorm}[r.IntN(2)]
	}
	p.Bias = p.Op == kernels.LayerNorm
	most := z.most
	if most == 0 {
		most = max(3*z.over, 128<<10)
	}
	row := between(float64(max(z.over+1, 32)), float64(most))
	if r.IntN(8) == 0 {
		row = most
	}
	step := max(z.aligned, 2)
	if z.aligned == 0 && r.IntN(2) == 0 {
		step = 16
	}
	if row += -row & (step - 1); row > most {
		row -= step
	}
	if z.columns == powerOfTwo || r.IntN(8) == 0 {
		row = floorPow2(row)
	}
	p.N = max(row/2, 1)
	units, l2 := float64(d.Units), float64(d.CacheBytes)/float64(max(row, 1))
	low := max(1, z.least*units, z.above*units+1, float64(z.rowsOver+1), z.xOver*l2+1)
	high := 2e6
	for _, bound := range []float64{z.below*units - 1, z.upTo * units, float64(z.rowsMost), z.xMost * l2} {
		if bound > 0 {
			high = min(high, bound)
		}
	}
	p.M = min(between(low, high), int64(max(high, 1)))
	if z.multiple > 0 {
		p.M += -p.M & (z.multiple - 1)
	}
	return p
}

func floorPow2(n int64) int64 { return ceilPow2(n+1) / 2 }
