package cupti

import (
	"cmp"
	"fmt"
	"slices"
)

// Stages sorts the activities of a timing run by what was launched. The run was samples times the
// launches, which are symbols of kernels, or "memcpy" and "memset". Activities whose names are in
// skip, such as flushes and spins, are left out. It is an error if what remains is not exactly
// that, in that order and in one stream.
//
// stages[j][i] is the device time in seconds of launch j in sample i, and gaps[i] the time between
// the launches of sample i. A gap is negative where launches overlapped, as programmatic ones may.
func Stages(acts []Activity, launches []string, samples int,
	skip ...string) (stages [][]float64, gaps []float64, err error) {
	var run []Activity
	for _, a := range acts {
		if !slices.Contains(skip, a.Name) {
			run = append(run, a)
		}
	}
	slices.SortStableFunc(run, func(a, b Activity) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.CorrelationID, b.CorrelationID))
	})
	if want := samples * len(launches); want <= 0 || len(run) != want {
		return nil, nil, fmt.Errorf("%d activities, want %d samples of %d launches", len(run),
			samples, len(launches))
	}
	stages, gaps = make([][]float64, len(launches)), make([]float64, samples)
	for i, a := range run {
		sample, j := i/len(launches), i%len(launches)
		if a.StreamID != run[0].StreamID || a.Name != launches[j] {
			return nil, nil, fmt.Errorf("launch %d of sample %d was %s in stream %d, want %s in %d", j+1,
				sample+1, a.Name, a.StreamID, launches[j], run[0].StreamID)
		}
		stages[j] = append(stages[j], seconds(a.StartNS, a.EndNS))
		if j > 0 {
			gaps[sample] += seconds(run[i-1].EndNS, a.StartNS)
		}
	}
	return stages, gaps, nil
}

func seconds(fromNS, toNS uint64) float64 { return float64(int64(toNS-fromNS)) * 1e-9 }
