package report

import (
	"fmt"
	"slices"
	"strings"

	"normbench/kernels"
)

// SpaceTable has the configs that a family has for a problem on a device, or what they launch (plans),
// and those that it refuses with the reason of each. These are all there if every one is asked for, or
// if they are few. csv and json have all.
func SpaceTable(f *kernels.Family, p kernels.Problem, info kernels.DeviceInfo,
	plans, every bool) *Table {
	s := f.Space(p, info)
	t := New(fmt.Sprintf("%s on %s, %s: %d configs, %d refused", f.Name, p, info.Name,
		len(s.Configs), len(s.Refused)), "config", "runs, or why not=runs")
	t.Device = info.ID
	base := f.Base(p, info)
	for _, c := range s.Configs {
		text := "runs"
		if c == base {
			text = "runs (base)"
		}
		if plans {
			text = strings.TrimSpace(strings.ReplaceAll(f.Plan(p, c, info).String(), "\n", "; "))
		}
		t.Rows = append(t.Rows, []string{c.String(), text})
	}
	all := *t
	all.Rows = slices.Clone(t.Rows)
	for _, r := range s.Refused {
		all.Rows = append(all.Rows, []string{r.Config.String(), r.Reason})
	}
	if len(s.Refused) <= fewRefused || every {
		return &all
	}
	t.Data, t.Notes = &all, []string{"--refused lists what is refused, with reasons"}
	return t
}

// fewRefused configs are listed one by one.
const fewRefused = 20
