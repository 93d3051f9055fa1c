package lab

import (
	"maps"
	"path/filepath"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
)

// Arms are operands as sides, with only the problems that are wanted.
func (l *Lab) Arms(ops []string, wanted func(kernels.Problem) bool) ([]report.Side, error) {
	if len(ops) == 0 {
		return nil, hint.Errorf("`normbench report results/nvidia-h200`, for one", "report needs records")
	}
	var arms []report.Side
	for _, text := range ops {
		sides, err := l.armsOf(text)
		if err != nil {
			return nil, err
		}
		n := len(arms)
		var fastest report.Side
		for _, side := range sides {
			maps.DeleteFunc(side.Cells, func(p kernels.Problem, _ report.Cell) bool { return !wanted(p) })
			// The fastest of a run of the base alone is the base.
			if len(side.Cells) == 0 || len(sides) > 1 && sameCells(side, fastest) {
				continue
			}
			fastest = side
			if len(ops) > 1 && len(sides) > 1 {
				side.Label, side.Name = text+" "+side.Label, filepath.Base(text)+" "+side.Label
			}
			arms = append(arms, side)
		}
		if len(arms) == n {
			return nil, NoRecord(text)
		}
	}
	if len(arms) > report.MaxArms {
		return nil, hint.Errorf("give fewer operands, or choose among their variants with #",
			"%d arms are more than the %d that a report tells apart", len(arms), report.MaxArms)
	}
	return arms, nil
}

// NoRecord is the trouble of an operand none of whose problems is wanted.
func NoRecord(text string) error {
	return hint.Errorf("leave out --shapes, --op, --pass and --dtype to see all it holds; "+
		report.OperandHelp, "%s holds no record that fits", text)
}

// armsOf are the sides of one operand.
func (l *Lab) armsOf(text string) ([]report.Side, error) {
	switch {
	case strings.Contains(text, "#") || strings.HasPrefix(text, "tuned:"):
		side, err := l.Side(text)
		return []report.Side{side}, err
	case report.IsLive(text):
		arms, err := report.ReadArms(text)
		return arms[:], err
	}
	var sides []report.Side
	for _, arm := range []struct {
		selector, label,
		name string
	}{{"#base", "base", "normbench default"},
		{"", "fastest of ours", "normbench, fastest recorded"}, {"#peers", "fastest peer",
			"best other library"}} {
		side, err := l.Side(text + arm.selector)
		if err != nil {
			return nil, err
		}
		side.Label, side.Name = arm.label, arm.name
		sides = append(sides, side)
	}
	return sides, nil
}

// sameCells says whether two sides are the same measurements.
func sameCells(a, b report.Side) bool {
	return maps.EqualFunc(a.Cells, b.Cells,
		func(x, y report.Cell) bool { return x.Run == y.Run && x.Variant == y.Variant })
}
