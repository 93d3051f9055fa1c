package learn

import (
	"strings"
	"testing"
)

// An axis says where what is drawn begins and ends, however few powers lie between.
func TestPowers(t *testing.T) {
	for want, p := range map[string]powers{"88 160": {4, 88, 160}, "88 256 1000": {4, 88, 1000}, "1 4 16 50": {4, 1, 50}, "64 256 1024 4096": {4, 64, 4096}, "88": {4, 88, 88}} {
		var labels []string
		for _, tick := range p.Ticks(p.Lo/1.3, p.Hi*1.3) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("%v: %s, want %s", p, got, want)
		}
	}
}
