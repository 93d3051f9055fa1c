package cupti

import (
	"fmt"
	"strconv"
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

// The times of stages and the gaps between them, in ns, by activities, the launches of a sample and
// how many samples there are: testdata/stages.txt.
func TestStages(t *testing.T) {
	assert.Lines(t, "testdata/stages.txt", func(input string) string {
		parts := strings.Split(input+" ", "|")
		samples, err := strconv.Atoi(strings.TrimSpace(parts[2]))
		assert.NoError(t, err)
		stages, gaps, err := Stages(acts(t, parts[0]), strings.Fields(parts[1]), samples, "flush",
			"spin")
		if err != nil {
			assert.That(t, stages == nil && gaps == nil, "%s: %v with %v", input, stages, err)
			return err.Error()
		}
		var rows [][]int
		for _, s := range stages {
			rows = append(rows, ns(s))
		}
		return fmt.Sprint(rows, ns(gaps))
	})
}

func ns(seconds []float64) (out []int) {
	for _, s := range seconds {
		out = append(out, int(s*1e9+1e6+0.5)-1e6)
	}
	return out
}
