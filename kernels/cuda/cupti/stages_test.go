package cupti

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// acts makes activities from words such as "k1:100-150" or, beside stream 7, "k1:100-150@8".
func acts(t *testing.T, line string) (list []Activity) {
	for i, word := range strings.Fields(line) {
		name, times, _ := strings.Cut(word, ":")
		a := Activity{Name: name, StreamID: 7, CorrelationID: uint32(i)}
		if n, err := fmt.Sscanf(times, "%d-%d@%d", &a.StartNS, &a.EndNS, &a.StreamID); n < 2 {
			t.Fatal(word, err)
		}
		list = append(list, a)
	}
	return list
}

func TestStages(t *testing.T) {
	for _, tt := range []struct {
		name, acts, launches string
		samples              int
		stages, gaps         string // in ns
		err                  string
	}{
		{"one", "k1:100-150", "k1", 1, "[[50]]", "[0]", ""},
		{"two launches", "k1:100-150 k2:160-190 k1:200-260 k2:275-280", "k1 k2", 2,
			"[[50 60] [30 5]]", "[10 15]", ""},
		{"skipped", "spin:1-50 flush:60-90 k1:100-150 flush:155-190@9 k1:200-260", "k1", 2,
			"[[50 60]]", "[0 0]", ""},
		{"out of order", "k2:160-190 k1:100-150", "k1 k2", 1, "[[50] [30]]", "[10]", ""},
		{"overlap", "k1:100-150 k2:140-190", "k1 k2", 1, "[[50] [50]]", "[-10]", ""},
		{"same start", "k1:100-150 k2:100-190", "k1 k2", 1, "[[50] [90]]", "[-50]", ""},
		{"kinds", "memset:1-3 k1:4-5 memcpy:7-9", "memset k1 memcpy", 1, "[[2] [1] [2]]", "[3]", ""},
		{"same kernel twice", "k:1-3 k:4-5", "k k", 1, "[[2] [1]]", "[1]", ""},

		{"none", "flush:1-2", "k1", 2, "", "", "0 activities, want 2 samples of 1 launches"},
		{"too few", "k1:1-2 k2:3-4 k1:5-6", "k1 k2", 2, "", "", "3 activities, want 2 samples of 2 launches"},
		{"too many", "k1:1-2 k1:3-4", "k1", 1, "", "", "2 activities, want 1 samples of 1 launches"},
		{"another", "k1:1-2 k2:3-4 k1:5-6 k3:7-8", "k1 k2", 2, "", "",
			"launch 2 of sample 2 was k3, want k2"},
		{"swapped", "k2:1-2 k1:3-4", "k1 k2", 1, "", "", "launch 1 of sample 1 was k2, want k1"},
		{"streams", "k1:1-2 k1:3-4@8", "k1", 2, "", "", "k1 ran in stream 8, others in stream 7"},
		{"no launches", "k1:1-2", "", 1, "", "", "1 samples of 0 launches"},
		{"no samples", "k1:1-2", "k1", 0, "", "", "0 samples of 1 launches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stages, gaps, err := Stages(acts(t, tt.acts), strings.Fields(tt.launches), tt.samples,
				"flush", "spin")
			if tt.err != "" {
				assert.That(t, stages == nil && gaps == nil && err != nil && err.Error() == tt.err,
					"got %v, want %s", err, tt.err)
				return
			}
			var rows [][]int
			for _, s := range stages {
				rows = append(rows, ns(s))
			}
			assert.NoError(t, err)
			assert.Equal(t, fmt.Sprint(rows, ns(gaps)), tt.stages+" "+tt.gaps)
		})
	}
}

func ns(seconds []float64) (out []int) {
	for _, s := range seconds {
		out = append(out, int(s*1e9+1e6+0.5)-1e6)
	}
	return out
}
