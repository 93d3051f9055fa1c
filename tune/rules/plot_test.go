package rules

import (
	"strings"
	"testing"
)

// No line of a legend is wider than its room, and none of its text is lost.
func TestWrap(t *testing.T) {
	text := "2  smem_pipe@br4.w8.v0.st3.k1.p0.u1.ro0.pt0.cp1.rl4.sa1.cl1.fd0.rc0.rr0.rw0.er1.lb0.ch0 at 2.0 KiB rows (rows at 16 bytes)"
	lines := wrap(text, 180)
	if len(lines) < 2 {
		t.Errorf("%q", lines)
	}
	style := Sans(legendSize)
	whole := ""
	for _, l := range lines {
		if style.Width(l) > 180+style.Width("    ") {
			t.Errorf("%q takes %g points", l, style.Width(l))
		}
		whole += strings.TrimPrefix(l, "    ")
	}
	if whole != text {
		t.Errorf("%q", whole)
	}
}

// An axis says where what is drawn begins and ends, however few powers lie between.
func TestPowers(t *testing.T) {
	for want, p := range map[string]Powers{"88 160": {4, 88, 160}, "88 256 1000": {4, 88, 1000}, "1 4 16 50": {4, 1, 50}, "64 256 1024 4096": {4, 64, 4096}, "88": {4, 88, 88}} {
		var labels []string
		for _, tick := range p.Ticks(p.Lo/1.3, p.Hi*1.3) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != want {
			t.Errorf("%v: %s, want %s", p, got, want)
		}
	}
}
