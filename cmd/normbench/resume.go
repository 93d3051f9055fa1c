package main

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/ab"
)

// resume reads a live compare that ended early, and returns it with the pairings that are left.
// Cells that are ok stay, unless their operand now has another variant, as after a new tuned table.
// fresh is the run that goes on; it is added to the list of such runs. Everything else that
// influences a cell must be the same. Another card of the same model is only noted, because both
// arms of a cell ran on one card.
func (e *env) resume(path string, fresh *liveRun, pairings []pairing) (run *liveRun, left []pairing, err error) {
	if run, err = readLive(path); err != nil {
		return nil, nil, err
	}
	was, now := run.Run, fresh.Run
	for _, x := range []struct {
		what     string
		was, now any
	}{
		{"BASE", run.A, fresh.A}, {"CANDIDATE", run.B, fresh.B}, {"normbench", was.Tool, now.Tool},
		{"set of kernels", run.Kernels, fresh.Kernels}, {"device", was.Device.ID, now.Device.ID},
		{"driver", was.Device.DriverVersion, now.Device.DriverVersion}, {"compiler", was.Device.Compiler, now.Device.Compiler},
		{"protocol", was.Protocol, now.Protocol}, {"rule", run.Rule, fresh.Rule},
		{"choice of peers", run.Among, fresh.Among}, {"set of peers", peersIn(was.Env), peersIn(now.Env)},
	} {
		if !reflect.DeepEqual(x.was, x.now) {
			return nil, nil, hint.Errorf("ask for what it was measured with, or leave out --resume", "%s is of another %s", path, x.what)
		}
	}
	if was.Device.UUID != now.Device.UUID {
		e.notef("%s is of another card of this model", path)
	}
	asked := map[kernels.Problem]pairing{}
	for _, b := range pairings {
		asked[b.problem] = b
	}
	there := map[kernels.Problem]bool{}
	run.Duels = slices.DeleteFunc(run.Duels, func(d *ab.Result) bool {
		b, ok := asked[d.Problem]
		keep := d.Status == kernels.StatusOK && (!ok || b.asks(d.Duel))
		there[d.Problem] = keep
		return !keep
	})
	run.Resumed = append(run.Resumed, now)
	run.Gate = nil
	run.judge()
	return run, slices.DeleteFunc(slices.Clone(pairings), func(b pairing) bool { return there[b.problem] }), nil
}

// asks says whether a duel is of variants that the pairing has.
func (b pairing) asks(d ab.Duel) bool {
	d.A.Family = strings.TrimPrefix(d.A.Family, families.Baseline)
	return slices.Contains(b.of[0], d.A) && slices.Contains(b.of[1], d.B)
}

// peersIn are the versions of the peers that were there.
func peersIn(env map[string]string) map[string]string {
	there := map[string]string{}
	for k, v := range env {
		if _, ok := kernels.PeerName(k); ok {
			there[k] = v
		}
	}
	return there
}

// order puts the cells into the order of the requested pairings, after the cells that were not
// requested.
func (r *liveRun) order(pairings []pairing) {
	place := map[kernels.Problem]int{}
	for i, b := range pairings {
		place[b.problem] = i + 1
	}
	slices.SortStableFunc(r.Duels, func(x, y *ab.Result) int { return cmp.Compare(place[x.Problem], place[y.Problem]) })
}
