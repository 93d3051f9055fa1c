package history

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// A move is arms that went the same way, with the reason.
type move struct {
	cause   Cause
	arms    []string
	shift   float64 // of the logarithm of their times
	kinds   []string
	singles []int           // problems, by their places in the trace
	by      map[int]float64 // shift of each problem: kinds that moved alike moved by more or less
}

// A comparison is a point beside those before it. An arm's values are less what was expected of each problem.
type snapshotPair struct {
	rule    Thresholds
	settled bool
	names   []string         // of the arms
	kinds   map[string][]int // problems of each kind
	all     []int            // problems
	now     [2][][]float64   // by arm and problem: as they are, and relative to the stream
	before  [2][][][]float64 // likewise, by point of the window
	noise   float64          // standard error of a cell, by second copies; 0 where there are none
	seen    map[seenKey]estimate
}

// A seenKey is what an estimate is of. Lists of problems are those of the comparison.
type seenKey struct {
	first    *int
	n        int
	arm, way int
}

// The two ways to look at an arm.
const (
	alone  = 0
	beside = 1 // relative to the stream
)

// compare makes the comparison of point i with those of a window.
func (r Thresholds) compare(t *trace, i int, window []int) *snapshotPair {
	c := &snapshotPair{rule: r, settled: len(window) >= r.Settled, names: t.arms, kinds: map[string][]int{},
		seen: map[seenKey]estimate{}}
	again := t.Points[i].again()
	for _, j := range window {
		again = append(again, t.Points[j].again()...)
	}
	if len(again) > 1 {
		c.noise = scale(again, 0) / math.Sqrt2
	}
	matrix := func() [][]float64 {
		m := make([][]float64, len(t.arms))
		for a := range m {
			m[a] = make([]float64, len(t.problems))
		}
		return m
	}
	c.now[alone] = matrix()
	for range window {
		c.before[alone] = append(c.before[alone], matrix())
	}
	there := make([]bool, len(t.problems))
	past := make([]float64, 0, len(window))
	for a := range t.arms {
		for k := range t.problems {
			past = past[:0]
			for _, j := range window {
				if v := t.logs[j][a][k]; !math.IsNaN(v) {
					past = append(past, v)
				}
			}
			expected := median(past)
			c.now[alone][a][k] = t.logs[i][a][k] - expected
			for n, j := range window {
				c.before[alone][n][a][k] = t.logs[j][a][k] - expected
			}
			there[k] = there[k] || !math.IsNaN(c.now[alone][a][k])
		}
	}
	besides := func(m [][]float64) [][]float64 {
		ratio := matrix()
		for a := range m {
			for k := range m[a] {
				ratio[a][k] = m[a][k] - m[0][k]
			}
		}
		return ratio
	}
	c.now[beside] = besides(c.now[alone])
	for _, m := range c.before[alone] {
		c.before[beside] = append(c.before[beside], besides(m))
	}
	for k, kind := range t.kinds {
		if there[k] {
			c.kinds[kind], c.all = append(c.kinds[kind], k), append(c.all, k)
		}
	}
	return c
}

// pick appends those of some values that are known.
func pick(list, values []float64, of []int) []float64 {
	for _, k := range of {
		if v := values[k]; !math.IsNaN(v) {
			list = append(list, v)
		}
	}
	return list
}

// An estimate is how far an arm moved, and how far it goes by itself.
type estimate struct {
	shift, limit float64
	known        bool
}

func (e estimate) moved() bool { return e.known && math.Abs(e.shift) > e.limit }

// estimate returns that of an arm on problems. What it goes by itself is seen twice: by the scatter of single
// problems, of which there are many, and by that of whole points, which a machine moves as one.
func (c *snapshotPair) estimate(of []int, arm, way int) estimate {
	key := seenKey{&of[0], len(of), arm, way}
	e, ok := c.seen[key]
	if !ok {
		e = c.makeEstimate(of, arm, way)
		c.seen[key] = e
	}
	return e
}

func (c *snapshotPair) makeEstimate(of []int, arm, way int) estimate {
	now := pick(nil, c.now[way][arm], of)
	if len(now) == 0 {
		return estimate{}
	}
	n, least := len(now), c.rule.Least
	e := estimate{shift: median(now), known: true}
	single := make([]float64, 0, len(of)*len(c.before[way]))
	var points []float64
	for _, m := range c.before[way] {
		if list := pick(single, m[arm], of)[len(single):]; len(list) > 0 {
			single = append(single, list...)
			points = append(points, median(list))
		}
	}
	w := float64(len(points))
	sd, between := c.noise, 0.0
	if c.settled && len(points) >= c.rule.Settled {
		// The values are less their own median, which takes some of their scatter away. Of few points the
		// farthest tells more than their median deviation, which is small by chance now and then.
		sd = max(sd, scale(single, 0)*math.Sqrt(w/(w-1)))
		between = max(scale(points, 0), farthest(points)*c.rule.Farthest/c.rule.Factor) * math.Sqrt(1+1/w)
	} else {
		if least = c.rule.Unproven; !c.settled && n < c.rule.Cells {
			least = math.Inf(1) // nor do other problems show it
		}
	}
	within := medianError(sd, n) * math.Sqrt(1+math.Pi/2/max(w, 1))
	e.limit = max(c.rule.Factor*max(within, between), least)
	return e
}

func farthest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}

// owner is who made an arm's code.
func owner(arm string) string {
	if strings.HasPrefix(arm, PeerArm) {
		return arm
	}
	return Ours
}

// moves says what moved: in all kinds alike, else kind by kind, then single problems of ours.
func (c *snapshotPair) moves() (list []move) {
	list = c.explain(c.all)
	if len(c.kinds) > 1 && !c.isUniform() {
		list = nil
		for _, k := range slices.Sorted(maps.Keys(c.kinds)) {
			for _, m := range c.explain(c.kinds[k]) {
				i := slices.IndexFunc(list, func(x move) bool {
					return x.cause == m.cause && slices.Equal(x.arms, m.arms) && x.shift*m.shift > 0
				})
				if i < 0 {
					m.kinds = []string{k}
					list = append(list, m)
					continue
				}
				list[i].kinds = append(list[i].kinds, k)
				maps.Copy(list[i].by, m.by)
			}
		}
	}
	for i := range list {
		list[i].shift = median(slices.Collect(maps.Values(list[i].by)))
		if len(list[i].kinds) == len(c.kinds) {
			list[i].kinds = nil
		}
	}
	return append(list, c.singles(list)...)
}

// isUniform says that no kind moved otherwise than all together.
func (c *snapshotPair) isUniform() bool {
	for arm := range c.names {
		for _, way := range []int{alone, beside} {
			pooled := c.estimate(c.all, arm, way)
			for _, of := range c.kinds {
				e := c.estimate(of, arm, way)
				if e.known && math.Abs(e.shift-pooled.shift) > e.limit {
					return false
				}
			}
		}
	}
	return true
}

// An armMove is what an arm did by itself, and relative to the stream.
type armMove struct {
	arm       string
	by, ratio estimate
}

// explain names the causes on some problems, from which arms moved.
func (c *snapshotPair) explain(of []int) []move {
	list := c.causes(of)
	for i := range list {
		list[i].by = map[int]float64{}
		for _, k := range of {
			list[i].by[k] = list[i].shift
		}
	}
	return list
}

func (c *snapshotPair) causes(of []int) (list []move) {
	stream := c.estimate(of, 0, alone)
	var moved, still []armMove // relative to the stream
	for i, arm := range c.names[1:] {
		a := armMove{arm, c.estimate(of, i+1, alone), c.estimate(of, i+1, beside)}
		switch {
		case !a.by.known:
		case !a.ratio.known: // no stream was timed beside it
			a.ratio = a.by
			fallthrough
		default:
			if a.ratio.moved() {
				moved = append(moved, a)
			} else {
				still = append(still, a)
			}
		}
	}
	every := func(arms []armMove) (names []string) {
		for _, a := range arms {
			names = append(names, a.arm)
		}
		return names
	}
	switch {
	case len(moved) == 0:
		if stream.moved() && len(still) > 0 {
			list = append(list, move{cause: Machine, arms: append([]string{Stream}, every(still)...), shift: stream.shift})
		} else if stream.moved() {
			list = append(list, move{cause: Memory, arms: []string{Stream}, shift: stream.shift})
		}
		return list
	case len(still) == 0 && agree(moved):
		var by []float64
		owners := map[string]bool{}
		for _, a := range moved {
			by = append(by, a.by.shift)
			owners[owner(a.arm)] = true
		}
		shift := median(by)
		if stream.known && math.Abs(stream.shift) > math.Abs(shift) {
			return []move{{cause: Memory, arms: []string{Stream}, shift: stream.shift}}
		}
		if len(owners) > 1 {
			return []move{{cause: Machine, arms: every(moved), shift: shift}}
		}
		if stream.moved() && stream.shift*shift > 0 { // ours went further than the machine took it
			list = append(list, move{cause: Machine, arms: append([]string{Stream}, every(moved)...), shift: stream.shift})
		}
	case len(still) > 0 && stream.moved(): // with the stream went those that are still beside it
		list = append(list, move{cause: Machine, arms: append(append([]string{Stream}, every(still)...), every(moved)...),
			shift: stream.shift})
	case stream.moved():
		list = append(list, move{cause: Memory, arms: []string{Stream}, shift: stream.shift})
		moved = slices.DeleteFunc(moved, func(a armMove) bool { return !a.by.moved() })
		for i := range moved {
			moved[i].ratio = moved[i].by
		}
	}
	if !stream.moved() { // what the stream did below its limit is no arm's
		moved = slices.DeleteFunc(moved, func(a armMove) bool {
			return math.Abs(a.by.shift) < math.Abs(a.ratio.shift)/2
		})
	}
	return append(list, own(moved)...)
}

// agree says whether arms moved the same way by about the same.
func agree(arms []armMove) bool {
	for _, a := range arms[1:] {
		x, y := arms[0].ratio, a.ratio
		if x.shift*y.shift < 0 || math.Abs(x.shift-y.shift) > max(x.limit, y.limit) {
			return false
		}
	}
	return true
}

// own returns the moves of arms that moved each by itself: our own arms together where they agree.
func own(arms []armMove) (list []move) {
	for _, a := range arms {
		m := move{cause: Kernel, arms: []string{a.arm}, shift: a.ratio.shift}
		if strings.HasPrefix(a.arm, PeerArm) {
			m.cause = Peer
		} else if n := len(list); n > 0 && list[n-1].cause == Kernel && math.Abs(list[n-1].shift-m.shift) <= a.ratio.limit {
			list[n-1].arms = append(list[n-1].arms, a.arm)
			continue
		}
		list = append(list, m)
	}
	return list
}

// singles returns problems on which ours moved beyond what their kinds did.
func (c *snapshotPair) singles(found []move) (list []move) {
	if !c.settled {
		return nil
	}
	kinds := slices.Sorted(maps.Keys(c.kinds))
	for a, arm := range c.names {
		if arm != Base && arm != Ours {
			continue
		}
		for _, kind := range kinds {
			var before []float64
			for _, m := range c.before[beside] {
				before = pick(before, m[a], c.kinds[kind])
			}
			least := max(c.rule.Single, 2*c.rule.Factor*scale(before, 0))
			for _, k := range c.kinds[kind] {
				by, stream := c.now[alone][a][k], c.now[alone][0][k]
				for _, m := range found {
					if slices.Contains(m.arms, arm) {
						by -= m.by[k]
					}
					if slices.Contains(m.arms, Stream) {
						stream -= m.by[k]
					}
				}
				shift := by - stream
				if !(math.Abs(shift) > least) || math.Abs(by) < math.Abs(stream) { // or it is the stream's
					continue
				}
				if e := c.makeEstimate([]int{k}, a, beside); math.Abs(shift) <= e.limit {
					continue
				}
				i := slices.IndexFunc(list, func(m move) bool { return m.arms[0] == arm && m.shift*shift > 0 })
				if i < 0 {
					list = append(list, move{cause: Kernel, arms: []string{arm}, shift: shift, by: map[int]float64{}})
					i = len(list) - 1
				} else if math.Abs(shift) > math.Abs(list[i].shift) {
					list[i].shift = shift // the largest is told
				}
				list[i].singles, list[i].by[k] = append(list[i].singles, k), shift
			}
		}
	}
	return list
}
