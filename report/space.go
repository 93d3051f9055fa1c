package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"normbench/kernels"
)

// SpaceTables are the configs that a family has for a problem on a device, or what they launch
// (plans), and those that it refuses: each with its reason, or, unless every one is asked for, how
// many there are for each reason.
func SpaceTables(f *kernels.Family, p kernels.Problem, info kernels.DeviceInfo,
	plans, every bool) []*Table {
	s := f.Space(p, info)
	t := New(fmt.Sprintf("%s on %s, %s: %d configs, %d refused", f.Name, p, info.Name,
		len(s.Configs), len(s.Refused)), "config", "runs, or why not")
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
		return []*Table{&all}
	}
	t.Data = &all
	return []*Table{t, reasonTable(s.Refused)}
}

// fewRefused configs are listed one by one.
const fewRefused = 20

// reasonTable counts refused configs by reason, the most frequent first. Reasons that differ in
// a number or a config are one.
func reasonTable(refused []kernels.Refusal) *Table {
	t := New("", "refused because", ">configs")
	t.Notes = []string{"--refused lists each of them"}
	var order []string
	counts, texts := map[string]int{}, map[string]string{}
	for _, r := range refused {
		key := anyNumber.ReplaceAllString(anyLabel.ReplaceAllString(r.Reason, "another config"), "N")
		if counts[key]++; counts[key] == 1 {
			order, texts[key] = append(order, key), r.Reason
		} else if texts[key] != r.Reason {
			texts[key] = key
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return counts[b] - counts[a] })
	for _, key := range order {
		t.Rows = append(t.Rows, []string{texts[key], strconv.Itoa(counts[key])})
	}
	return t
}

var (
	anyLabel  = regexp.MustCompile(`\b[a-z]{1,2}\d+(\.[a-z]{1,2}\d+)+\b`)
	anyNumber = regexp.MustCompile(`\b\d+\b`)
)
