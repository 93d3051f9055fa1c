package ab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/stats"
)

const (
	look    = 5 // samples of a candidate in a round: as many as Triton's autotuner takes at least
	looks   = 5 // rounds of peers at most
	rejects = 8 // rounds that an unfit device may cost, here and in a duel
)

// Choose returns the fastest of the variants of a session's problem, and all arms if it visited them:
// the fastest first, those behind, and those that failed. Of our own it is what a system that times
// its candidates itself would settle on, after one round. Peers are visited until they are decided.
// If all fail, the first variant is the answer, and measuring it will say why. visiting is told
// before each visit; it may be nil.
func Choose(ctx context.Context, s *sweep.Session, vs []kernels.Variant, visiting func(*sweep.Arm)) (
	kernels.Variant, []*sweep.Arm, error) {
	if len(vs) == 1 {
		return vs[0], nil, nil
	}
	s.Device.Prefetch(s.Problem, vs)
	defer s.Close()
	if err := s.Open(ctx); err != nil {
		return kernels.Variant{}, nil, err
	}
	arms := make([]*sweep.Arm, len(vs))
	for i, v := range vs {
		arms[i] = &sweep.Arm{Variant: v}
	}
	most := 1
	if _, peers := kernels.PeerName(vs[0].Family); peers {
		most = looks
	}
	r := &sweep.RoundRunner{Session: s, Rejects: rejects, Launches: look, Visiting: visiting,
		More: func(n int) bool { return n == 0 || n < most && !sweep.DropSlower(arms) }}
	if err := r.Run(ctx, arms); err != nil {
		return kernels.Variant{}, nil, err
	}
	slices.SortStableFunc(arms, func(a, b *sweep.Arm) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(stats.Median(a.Samples), stats.Median(b.Samples)))
	})
	if arms[0].Failure != nil {
		return vs[0], arms, nil
	}
	return arms[0].Variant, arms, nil
}

// rank puts the arms that are behind after the others, and those that failed last.
func rank(a *sweep.Arm) int {
	switch {
	case a.Failure != nil:
		return 2
	case a.Out:
		return 1
	}
	return 0
}

// maxDeaths is how often a peer may take its process down or hang, each of which may have cost its
// whole time limit.
const maxDeaths = 2

// ChooseSeed is that of the inputs with which variants are chosen among.
const ChooseSeed = 1

// A FastestChooser chooses among variants, tells the console what it saw of peers, and asks no more of one that
// died again.
type FastestChooser struct {
	*console.Console
	deaths map[string]int // how often a peer took its process down, or hung
	tried  map[string]*trials
	looks  map[kernels.Problem][]PeerLook
}

// trials count the problems on which a peer was tried, and those on which it has no time.
type trials struct {
	all, failed int
	first       string // why the first of them failed
}

// NewChooser has seen nobody die.
func NewChooser(out *console.Console) *FastestChooser {
	return &FastestChooser{out, map[string]int{}, map[string]*trials{}, map[kernels.Problem][]PeerLook{}}
}

// Failures returns a line for each peer that has no time on some of the problems, with their number and the first reason:
// it refused them, had no plan or did not compile.
func (c *FastestChooser) Failures() (lines []string) {
	if c == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.tried)) {
		if t := c.tried[name]; t.failed > 0 {
			lines = append(lines, fmt.Sprintf("%s: no time on %d of %s, first: %s", kernels.PeerVariant(name).Family,
				t.failed, console.Count(t.all, "problem"), t.first))
		}
	}
	return lines
}

// Choose settles on one of the variants of a session's problem, as the function Choose does.
func (c *FastestChooser) Choose(ctx context.Context, s *sweep.Session, vs []kernels.Variant) (kernels.Variant, error) {
	if len(vs) == 1 {
		return vs[0], nil
	}
	alive := slices.DeleteFunc(slices.Clone(vs), func(v kernels.Variant) bool {
		name, _ := kernels.PeerName(v.Family)
		return c.deaths[name] >= maxDeaths
	})
	if len(alive) == 0 {
		return vs[0], nil // measuring it will say why
	}
	var visiting func(*sweep.Arm)
	_, peer := kernels.PeerName(vs[0].Family)
	if peer && len(alive) > 1 {
		waiting := c.Wait("peer:best: opening %s", s.Problem)
		defer waiting.End()
		visiting = func(a *sweep.Arm) {
			name, _ := kernels.PeerName(a.Variant.Family)
			waiting.Set("peer:best: timing %s on %s", name, s.Problem)
		}
	}
	v, arms, err := Choose(ctx, s, alive, visiting)
	if peer && arms != nil {
		c.reportPeers(s.Problem, arms)
	}
	return v, err
}

// reportPeers prints how fast the peers of a problem are, and counts those that timed out or crashed. A peer that
// did so maxDeaths times is asked no more.
func (c *FastestChooser) reportPeers(p kernels.Problem, arms []*sweep.Arm) {
	var text []string
	var looks []PeerLook
	for _, a := range arms {
		name, _ := kernels.PeerName(a.Variant.Family)
		f := a.Failure
		look := PeerLook{Peer: name}
		if f == nil {
			look.US = math.Round(1000*stats.Median(a.Samples)) / 1000
		} else {
			look.Reason = console.OneLine(f.Error())
		}
		looks = append(looks, look)
		if c.tried[name] == nil {
			c.tried[name] = &trials{}
		}
		if t := c.tried[name]; f == nil {
			t.all++
		} else {
			t.all, t.failed, t.first = t.all+1, t.failed+1, cmp.Or(t.first, console.OneLine(f.Error()))
		}
		switch {
		case f == nil:
			text = append(text, fmt.Sprintf("%s %s us", name, console.Micros(stats.Median(a.Samples))))
		case f.Status != kernels.StatusRefused:
			text = append(text, name+" "+console.OneLine(f.Error()))
		}
		if f != nil && (f.Status == kernels.StatusTimeout || f.Status == kernels.StatusCrash) {
			c.deaths[name]++
			if c.deaths[name] == maxDeaths {
				c.Notef("no more of peer %s: %s", name, console.OneLine(f.Error()))
			}
		}
	}
	c.looks[p] = looks
	c.Notef("%s: %s", p, strings.Join(text, ", "))
}

// peersAt returns what choosing among peers saw at a problem, the fastest first.
func (c *FastestChooser) peersAt(p kernels.Problem) []PeerLook {
	if c == nil {
		return nil
	}
	return c.looks[p]
}

// PeerNotes returns the versions of the peers among families, each once, and what of them the devices found to
// be bound by the host.
func PeerNotes(peers []kernels.Peer, families []string, devices ...kernels.Device) (notes []string) {
	for _, p := range peers {
		for _, f := range families {
			if name, ok := kernels.PeerName(f); ok && name == p.Name {
				notes = append(notes, f+" is "+p.System+": "+p.Version)
				for _, d := range devices {
					timed, ok := d.(interface{ HostBound(family string) string })
					if !ok {
						continue
					}
					if text := timed.HostBound(f); text != "" {
						notes = append(notes, f+": "+text)
					}
				}
				break
			}
		}
	}
	return notes
}
