package sweep

import (
	"slices"

	"normbench/kernels"
	"normbench/sweep/replay"
)

// UseRecorded replaces the variants of each task by those that a replay has records of, so that a search
// of the replay is the same whatever today's spaces are. It leaves out variants of families that are
// gone, and of families that may not win the task. The base stays if it has times; else it becomes the
// first variant of its family that has, or the first of all. A problem that the replay lacks keeps its
// task, and fails by its name. It returns how many variants it left out because their family is gone.
func UseRecorded(r *kernels.Registry, tasks []Task, d *replay.Device) (gone int) {
	for i := range tasks {
		t := &tasks[i]
		all, timed := d.Variants(t.Problem)
		var vs []kernels.Variant
		for _, v := range all {
			f, err := r.Lookup(v.Family)
			switch {
			case err != nil || f.CheckServes(t.Problem) != nil:
				gone++
			case t.Rivals(v):
				vs = append(vs, v)
			}
		}
		if !slices.ContainsFunc(vs, func(v kernels.Variant) bool { return timed[v] }) {
			continue
		}
		base := t.Base
		if !timed[base] {
			is := func(family string) int {
				return slices.IndexFunc(vs,
					func(v kernels.Variant) bool { return timed[v] && (family == "" || v.Family == family) })
			}
			at := is(base.Family)
			if at < 0 {
				at = is("")
			}
			base = vs[at]
		}
		vs = slices.DeleteFunc(vs, func(v kernels.Variant) bool { return v == base })
		t.Base, t.Variants = base, append([]kernels.Variant{base}, vs...)
		t.Refused = 0
	}
	return gone
}
