package main

import (
	"cmp"
	"reflect"
	"slices"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep"
)

// resume takes up the live compare in a file, which ended early: its cells that are ok
// stay, and fresh, the run that would measure them again, is kept among those that went on
// with it. What makes a cell what it is must be the same; another card of the model is only
// noted, as the arms of a cell are always of one.
func (e *env) resume(path string, fresh *liveRun) (*liveRun, error) {
	run, err := readLive(path)
	if err != nil {
		return nil, err
	}
	was, now := run.Run, fresh.Run
	for _, x := range []struct {
		what     string
		was, now any
	}{
		{"BASE", run.A, fresh.A}, {"CANDIDATE", run.B, fresh.B}, {"normbench", was.Tool, now.Tool}, {"device", was.Device.ID, now.Device.ID},
		{"driver", was.Device.DriverVersion, now.Device.DriverVersion}, {"compiler", was.Device.Compiler, now.Device.Compiler},
		{"protocol", was.Protocol, now.Protocol}, {"rule", run.Rule, fresh.Rule},
		{"choice of peers", run.Among, fresh.Among}, {"set of peers", peersIn(was.Env), peersIn(now.Env)},
	} {
		if !reflect.DeepEqual(x.was, x.now) {
			return nil, hint.Errorf("ask for what it was measured with, or leave out --resume", "%s is of another %s", path, x.what)
		}
	}
	if was.Device.UUID != now.Device.UUID {
		e.notef("%s is of another card of this model", path)
	}
	run.Duels = slices.DeleteFunc(run.Duels, func(d *sweep.DuelResult) bool { return d.Status != kernels.StatusOK })
	run.Resumed = append(run.Resumed, now)
	run.Gate = nil
	run.judge()
	return run, nil
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

// has says whether the run has a problem's cell.
func (r *liveRun) has(p kernels.Problem) bool {
	return slices.ContainsFunc(r.Duels, func(d *sweep.DuelResult) bool { return d.Problem == p })
}

// order puts the cells into the order of the bouts that were asked for, behind those that
// were not.
func (r *liveRun) order(bouts []bout) {
	place := map[kernels.Problem]int{}
	for i, b := range bouts {
		place[b.problem] = i + 1
	}
	slices.SortStableFunc(r.Duels, func(x, y *sweep.DuelResult) int { return cmp.Compare(place[x.Problem], place[y.Problem]) })
}
