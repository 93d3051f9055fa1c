package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// CardNoise is how much the streams of two cards of one kind differ at most where nothing is wrong, relatively: more than
// the selftest's own noise, 0.8% on an H200.
const CardNoise = 0.02

// Card names the card that a run measured on: by its UUID, or the host where it has none.
func Card(r *record.Run) string { return cmp.Or(r.Device.UUID, r.Env["host"]) }

// CompareCards counts the cards of runs, and names each whose stream in the selftest is off by more than
// the noise: its own noise there, that of the others, and CardNoise.
func CompareCards(runs []*record.Run) (cards int, notes []string) {
	rates, noise, hosts := map[string][]float64{}, map[string]float64{}, map[string]string{}
	for _, r := range runs {
		card := Card(r)
		hosts[card] = r.Env["host"]
		if rate := r.StreamRate(); rate > 0 {
			rates[card] = append(rates[card], rate)
		}
		noise[card] = max(noise[card], r.StreamNoise())
	}
	if len(rates) < 2 {
		return len(hosts), nil
	}
	var middles []float64
	for _, of := range rates {
		middles = append(middles, stats.Median(of))
	}
	middle := stats.Median(middles)
	for card, of := range rates {
		others := 0.0
		for c, n := range noise {
			if c != card {
				others = max(others, n)
			}
		}
		off := stats.Median(of)/middle - 1
		if math.Abs(off) > max(CardNoise, noise[card], others) {
			notes = append(notes, fmt.Sprintf("the card %s of host %s is off: its stream has %.0f GB/s, %+.1f%% from the middle of %d cards, "+
				"and its times are of that", card, hosts[card], stats.Median(of), 100*off, len(rates)))
		}
	}
	slices.Sort(notes)
	return len(hosts), notes
}
