package main

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep"
)

// resume takes up the live compare in a file, which ended early, and returns it with the
// pairings that are left. Its cells that are ok stay, but for those whose operand now has
// another variant, as a tuned table has that was written since; and fresh, the run that would
// measure all of them, is kept among those that went on with it. What else makes a cell what
// it is must be the same. Another card of the model is only noted: the arms of a cell are
// always of one.
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
	run.Duels = slices.DeleteFunc(run.Duels, func(d *sweep.DuelResult) bool {
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
func (b pairing) asks(d sweep.Duel) bool {
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

// order puts the cells into the order of the pairings that were asked for, behind those that
// were not.
func (r *liveRun) order(pairings []pairing) {
	place := map[kernels.Problem]int{}
	for i, b := range pairings {
		place[b.problem] = i + 1
	}
	slices.SortStableFunc(r.Duels, func(x, y *sweep.DuelResult) int { return cmp.Compare(place[x.Problem], place[y.Problem]) })
}
