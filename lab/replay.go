package lab

import (
	"fmt"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/shapes"
)

// ReplayProblems are those asked for, of which a replay must have one.
func ReplayProblems(sel *shapes.Selection, d *replay.Device, c *OpenOptions) ([]kernels.Problem, error) {
	all := d.Problems()
	slices.SortFunc(all, record.CompareProblems)
	fits, err := sel.Filter()
	if err != nil {
		return nil, err
	}
	ps := slices.DeleteFunc(slices.Clone(all), func(p kernels.Problem) bool { return !fits(p) })
	if sel.Shapes != "" || sel.Model != "" {
		if ps, err = sel.Problems(""); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(ps, func(p kernels.Problem) bool { return slices.Contains(all, p) }) {
			ps = nil // else the others fail by name
		}
	}
	if len(ps) == 0 {
		return nil, hint.Errorf(fmt.Sprintf("leave the problem flags out to search all it has: "+
			"%s, such as %s",
			console.Count(len(all), "problem"), all[0]), "%s has none of these problems",
			strings.TrimPrefix(c.Device, "replay:"))
	}
	return ps, nil
}
