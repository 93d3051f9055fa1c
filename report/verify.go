package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"normbench/internal/console"
	"normbench/kernels"
	"normbench/sweep/verify"
)

// VerifyTable has a row for each finding; for people a family's further outputs have nothing else.
func VerifyTable(repeats int, findings []verify.Finding) *Table {
	type column = Column[verify.Finding]
	once := func(head, name string, value func(verify.Finding) any) column {
		c := column{Head: head, Name: name, Value: value}
		c.Text = func(f verify.Finding) string {
			if f.Further {
				return ""
			}
			return fmt.Sprint(value(f))
		}
		return c
	}
	number := func(head, name, format string, value func(kernels.OutputCheck) float64) column {
		return column{Head: head, Name: name, Format: format, Value: func(f verify.Finding) any {
			if f.Output.Name == "" {
				return nil
			}
			return value(f.Output)
		}, Text: func(f verify.Finding) string {
			switch v := value(f.Output); {
			case f.Output.Name == "":
				return ""
			case v > math.MaxFloat32/1.01: // stands for infinity in JSON, rounded or not
				return "inf"
			default:
				return fmt.Sprintf(format, v)
			}
		}}
	}
	// People see it where rows were compared.
	rows := once("", "same_rows", func(f verify.Finding) any { return strings.Trim(fmt.Sprint(f.SameRows()), "[]") })
	if slices.ContainsFunc(findings, func(f verify.Finding) bool { return len(f.SameRows()) > 0 }) {
		rows.Head = "same rows"
	}
	columns := ProblemColumns(func(f verify.Finding) (kernels.Problem, int64) {
		return f.Problem,
			f.Problem.Bytes()
	})
	columns[0] = once("problem", "problem", func(f verify.Finding) any { return f.Problem.String() })
	t := NewTable("worst error over tolerance (at most 1 passes), bits compared over "+
		runsOf(repeats, findings), findings, append(columns,
		once("REF", "ref", func(f verify.Finding) any { return f.Refs }),
		once("family", "family", func(f verify.Finding) any { return f.Family.Name }),
		once("code", "code", func(f verify.Finding) any { return f.Code }),
		once("configs", "configs", func(f verify.Finding) any { return f.Configs }),
		column{Name: "failed", Value: func(f verify.Finding) any { return f.Failed }},
		column{Head: "output", Name: "output", Value: func(f verify.Finding) any { return f.Output.Name }},
		number("error/tol", "error_over_tol", "%.2f",
			func(o kernels.OutputCheck) float64 { return o.MaxErr }),
		number("rel L2", "rel_l2", "%.1e", func(o kernels.OutputCheck) float64 { return o.RelL2 }),
		once("differing", "differing", func(f verify.Finding) any { return f.Differing }),
		once("stated", "stated", func(f verify.Finding) any { return f.Determinism() }),
		rows,
		column{Head: "verdict", Name: "verdict",
			Value: func(f verify.Finding) any { v, _, _ := f.Word(); return v }, Text: func(f verify.Finding) string {
				if f.Further {
					return ""
				}
				_, _, text := f.Word()
				return text
			}},
		column{Name: "reason", Value: func(f verify.Finding) any { _, reason, _ := f.Word(); return reason }}))
	t.Group, t.Drop = ByProblem, []string{"stated", "rel L2", "configs"}
	return t
}

// runsOf says over how many runs bits were compared, of emulated code apart. Where nothing ended it
// is how many were asked for.
func runsOf(repeats int, findings []verify.Finding) string {
	ours, emulated := 0, 0
	for _, f := range findings {
		if f.Code == verify.Emulated {
			emulated = max(emulated, f.Runs)
		} else {
			ours = max(ours, f.Runs)
		}
	}
	switch {
	case ours == 0 && emulated == 0:
		return console.Count(repeats, "run")
	case ours == 0 || ours == emulated:
		return console.Count(emulated, "run")
	case emulated == 0:
		return console.Count(ours, "run")
	}
	return console.Count(ours, "run") + ", of emulated code over " + console.Count(emulated, "run")
}
