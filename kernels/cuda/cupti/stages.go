package cupti

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Stages sorts the activities of a timing run by what was launched. The run was samples times the
// launches, which are entry names of kernels, or "memcpy" and "memset" for what is no kernel. What
// skip accepts by its name, such as flushes and spins, is left out; skip may be nil. It is an error
// if what remains is not exactly that, in that order and in one stream.
//
// perStage[j][i] is the device time in seconds of launch j in sample i, and gaps[j][i] the time
// from the end of launch j to the start of launch j+1. A gap is negative if they overlapped, as
// they may with programmatic launches.
func Stages(acts []Activity, launches []string, samples int, skip func(name string) bool) (perStage, gaps [][]float64, err error) {
	if len(launches) == 0 || samples <= 0 {
		return nil, nil, fmt.Errorf("%d samples of %d launches", samples, len(launches))
	}
	var run []Activity
	for _, a := range acts {
		if skip == nil || !skip(a.Name) {
			run = append(run, a)
		}
	}
	inStartOrder(run)
	for i, a := range run {
		if a.StreamID != run[0].StreamID {
			return nil, nil, fmt.Errorf("%s ran in stream %d, others in stream %d", a.Name, a.StreamID, run[0].StreamID)
		}
		if i/len(launches) >= samples {
			return nil, nil, fmt.Errorf("%s ran after the %d samples of %d launches", a.Name, samples, len(launches))
		}
		if want := launches[i%len(launches)]; !a.isOf(want) {
			return nil, nil, fmt.Errorf("launch %d of sample %d was %s, want %s", i%len(launches)+1, i/len(launches)+1, a.Name, want)
		}
	}
	if want := samples * len(launches); len(run) != want {
		return nil, nil, fmt.Errorf("%d activities, want %d samples of %d launches", len(run), samples, len(launches))
	}
	perStage, gaps = make([][]float64, len(launches)), make([][]float64, len(launches)-1)
	for j := range perStage {
		perStage[j] = make([]float64, samples)
		for i := range samples {
			a := run[i*len(launches)+j]
			perStage[j][i] = seconds(a.StartNS, a.EndNS)
		}
	}
	for j := range gaps {
		gaps[j] = make([]float64, samples)
		for i := range samples {
			a := run[i*len(launches)+j:]
			gaps[j][i] = seconds(a[0].EndNS, a[1].StartNS)
		}
	}
	return perStage, gaps, nil
}

func seconds(fromNS, toNS uint64) float64 { return float64(int64(toNS-fromNS)) * 1e-9 }

func inStartOrder(acts []Activity) {
	slices.SortStableFunc(acts, func(a, b Activity) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.CorrelationID, b.CorrelationID))
	})
}

// isOf reports whether an activity is a launch of an entry. The names "memcpy" and "memset" are
// never kernels.
func (a Activity) isOf(entry string) bool {
	if a.Kind != Kernel || entry == string(Memcpy) || entry == string(Memset) {
		return string(a.Kind) == entry
	}
	return a.Name == entry || unqualified(a.Name) == entry
}

// unqualified returns the last identifier of a name that C++ mangled: "k" of _Z1kPf, of
// _ZN4norm1kEPf and of _Z1kILi4EEvPf. It returns "" for other names.
func unqualified(name string) (last string) {
	rest, ok := strings.CutPrefix(name, "_Z")
	if !ok {
		return ""
	}
	nested := strings.HasPrefix(rest, "N")
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "N"), "L") // L: internal linkage
	for {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 {
			return last
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n <= 0 || n > len(rest)-digits {
			return last
		}
		last, rest = rest[digits:digits+n], strings.TrimLeft(rest[digits+n:], "L")
		if !nested {
			return last
		}
	}
}
