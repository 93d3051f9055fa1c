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
	style := legendStyle()
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
