package tune

import (
	"fmt"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/sweep/record"
)

// Cards whose streams differ by more than the noise are named, and only those.
func TestCardsThatAreOffAreNamed(t *testing.T) {
	card := func(id string, rate, noise float64) *record.Run {
		return &record.Run{Device: kernels.DeviceInfo{UUID: id}, Env: map[string]string{"host": "n" + id}, SelfTest: []record.Trial{
			{Name: "stream, 1.0 GiB moved", Found: fmt.Sprintf("%.0f GB/s", rate)},
			{Name: "noise: spread of 20 samples of the stream", Found: fmt.Sprintf("%.1f%%", noise)}}}
	}
	for _, x := range []struct {
		runs []*record.Run
		want []string // cards
	}{
		{[]*record.Run{card("a", 4300, 0.5), card("b", 4310, 0.5), card("c", 4250, 0.5)}, nil},
		{[]*record.Run{card("a", 4300, 0.5), card("b", 4310, 0.5), card("c", 4000, 0.5)}, []string{"c"}},
		{[]*record.Run{card("a", 4300, 0.5), card("b", 4310, 9), card("c", 4000, 0.5)}, nil}, // noisier than that
		{[]*record.Run{card("a", 4300, 0.5), card("a", 4000, 0.5)}, nil},                     // one card
	} {
		cards, notes := CompareCards(x.runs)
		assert.That(t, cards >= 1 && len(notes) == len(x.want), "%d, %q", cards, notes)
		for i, name := range x.want {
			assert.That(t, strings.HasPrefix(notes[i], "the card "+name+" of host n"+name+" is off: its stream has 4000 GB/s, -7.0%"), "%s", notes[i])
		}
	}
}
