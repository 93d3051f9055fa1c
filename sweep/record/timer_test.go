package record

import (
	"testing"

	"normbench/internal/assert"
)

// Runs of before the number have their floor in the text of a trial, and finals that of their
// search.
func TestFloor(t *testing.T) {
	trials := []Trial{{Name: droppedTrial, Found: "11.2 MiB"}, {Name: "timer step",
		Found: "0.032 us", OK: true}, {Name: floorTrial, Found: "2.62 us", OK: true}}
	search := &Run{ID: "a", SelfTest: trials}
	search.takeTimer(nil)
	finals := &Run{ID: "a" + FinalsSuffix}
	finals.takeTimer(&keyer{run: search})
	assert.That(t, search.FloorUS == 2.62 && finals.FloorUS == 2.62 && len(finals.SelfTest) == 2 &&
		finals.Failures() == "", "floors %g and %g, %+v", search.FloorUS, finals.FloorUS,
		finals.SelfTest)
	known := &Run{SelfTest: trials, FloorUS: 4.5}
	known.takeTimer(nil)
	assert.Equal(t, known.FloorUS, 4.5, "the number became")
	none := &Run{SelfTest: []Trial{{Name: floorTrial, Found: "none", Wanted: "below 100 us"}}}
	none.takeTimer(nil)
	got, want := none.Failures(), "selftest: 1 of 1 checks failed: floor: an empty launch is none, "+
		"wanted below 100 us"
	assert.That(t, none.FloorUS == 0 && got == want,
		"a floor of %g from no number; %q", none.FloorUS, got)
}
