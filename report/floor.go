package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Timer says how good the clock was of the runs of sides, which are named by letters where they
// differ: the floor of those on a GPU, and what failed in their selftests.
func Timer(sides ...[]*record.Run) (lines []string) {
	if floors, _ := textBySide(floorText, "%[2]s %[1]s", sides...); floors != "" {
		lines = append(lines, "floor (an empty launch): "+floors)
	}
	for _, failed := range words((*record.Run).Failures, sides...) {
		lines = append(lines, failed+"; do not trust small differences")
	}
	return lines
}

// differences say how the runs of sides were not alike.
func differences(sides ...[]*record.Run) (notes []string) {
	for _, what := range []struct {
		name string
		of   func(*record.Run) string
	}{{"devices", func(r *record.Run) string { return r.Device.ID }}, {"protocols", protocolName}} {
		if text, same := textBySide(what.of, "%s of %s", sides...); !same {
			notes = append(notes,
				fmt.Sprintf("the %s differ, so the code is not all that does: %s.", what.name, text))
		}
	}
	return notes
}

func protocolName(r *record.Run) string { return r.Protocol.Name }

// textBySide joins the answers of the sides that have any: one for all, or that of each in a format with
// its letter.
func textBySide(of func(*record.Run) string, format string, sides ...[]*record.Run) (text string, same bool) {
	var list []string
	same = true
	first := ""
	for i, s := range sides {
		if w := strings.Join(words(of, s), ", "); w != "" {
			first = cmp.Or(first, w)
			same = same && w == first
			list = append(list, fmt.Sprintf(format, w, letter(i)))
		}
	}
	if same {
		return first, true
	}
	return strings.Join(list, ", "), false
}

// words are the different answers of runs, sorted, but for the empty one.
func words(of func(*record.Run) string, sides ...[]*record.Run) []string {
	seen := map[string]bool{}
	for _, r := range slices.Concat(sides...) {
		seen[of(r)] = true
	}
	delete(seen, "")
	return slices.Sorted(maps.Keys(seen))
}

func floorText(r *record.Run) string {
	switch {
	case r.Device.Kind != kernels.KindCUDA:
		return ""
	case r.FloorUS == 0:
		return "unknown"
	}
	return fmt.Sprintf("%.2f us", r.FloorUS)
}

// oneInvocation says whether one invocation measured both cells: a search and its finals are two
// runs of one.
func oneInvocation(a, b Measurement) bool {
	id := func(c Measurement) string { return strings.TrimSuffix(c.run().ID, record.FinalsSuffix) }
	return id(a) != "" && id(a) == id(b)
}

// widenBand is verdict.WidenBand for two cells of two runs. On a cpu floors do not differ.
func widenBand(band float64, a, b Measurement) (float64, bool) {
	x, y := a.run(), b.run()
	if x.Device.Kind != kernels.KindCUDA && y.Device.Kind != kernels.KindCUDA {
		return band, true
	}
	return verdict.WidenBand(band, x.FloorUS, y.FloorUS, min(a.Median, b.Median))
}
