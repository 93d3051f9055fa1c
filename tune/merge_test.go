package tune

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels/devices/devicetest"
	"normbench/sweep/record"
	"normbench/sweep/stats"
)

// The finals of a problem: what the search chose stands, with their numbers. Of two searches the later
// in the file counts, also where the clock was set back between them.
func TestLaterSearchOfAProblemStands(t *testing.T) {
	run := &record.Run{ID: "f", Time: time.Unix(1e9, 0),
		Protocol: record.Protocol{Phase: record.PhaseFinal}}
	older := &record.Run{ID: "g", Time: time.Unix(9e8, 0)}
	final := func(variant string, us, searched float64) record.Outcome {
		e := entry(t, p1, variant, us)
		e.Run, e.Final = run, &record.Final{SearchUS: searched}
		for i := range 8 {
			e.Final.Rounds = append(e.Final.Rounds, us+[]float64{0, 0.01, 0.02}[i%3])
		}
		e.Summary = stats.Summarize(e.Final.Rounds)
		return e
	}
	chosen := final("f@w4", 80.4, 79)
	chosen.Final.Chosen, chosen.Final.Place = "takes least of the device, of 2 within 1.0%", 1
	base, held := final("f@w8 base", 100, 99), final("h@w2", 85, 84)
	base.Final.BaseAgain = final("f@w8", 100.3, 0).Final.Rounds
	held.Final.Entry = true
	grid := entry(t, p1, "g@w1", 10) // of an older run
	grid.Run = older
	before := final("f@w2", 10, 10) // of a search whose clock was ahead
	before.Run = &record.Run{ID: "h", Time: time.Unix(2e9, 0), Protocol: run.Protocol}
	before.Final.Chosen = "fastest"
	es := []record.Outcome{grid, before, chosen, base, held, final("g@w4", 80, 79.5)}
	table := &TunedTable{Entries: Pick(es)}
	es[1], es[2] = es[2], es[1]
	assert.Equal(t, Pick(es)[0].Variant(), chosen.Variant, "in another order")
	text, err := json.MarshalIndent(table.Entries, "", "  ")
	assert.NoError(t, err)
	assert.Golden(t, "testdata/finals.json", string(text)+"\n")
	// Rounds that prove it faster and samples that have it slower prove nothing.
	odd := chosen
	odd.Median = 101
	e := Pick([]record.Outcome{odd, base})[0]
	assert.That(t, e.Variant() == base.Variant && e.IsProven(), "picked %+v", e)
	failed, stream := entry(t, p1, "g@w8", 0), entry(t, p1, "stream@", 50)
	table.countSearched(record.Outcomes{&chosen, &base, &failed, &stream})
	assert.Equal(t, table.Entries[0].Variants, (Counts{Measured: 3, OK: 2, Failed: 1}))
}

// An entry is its base, or proven faster; a bound does not help one that is slower:
// testdata/proven.txt.
func TestEntryIsTheBaseOrProvenFaster(t *testing.T) {
	assert.Lines(t, "testdata/proven.txt", func(input string) string {
		e := assert.Value[Entry](t, input)
		return strconv.FormatBool(e.IsProven())
	})
}

// An entry of 100 us is replaced only where the lower bound of the gain is 2%, or where it
// says nothing any more: testdata/replaces.txt.
func TestEntryIsReplacedForTwoPercent(t *testing.T) {
	assert.Lines(t, "testdata/replaces.txt", func(input string) string {
		o, e := table(t), table(t)
		o.Entries = []Entry{{Problem: devicetest.Problem(t, p1), Family: "old",
			Config: devicetest.Config(t, "w8"), Source: "s", MedianUS: 100, CIUS: []float64{99.5, 100.5},
			Samples: 20}}
		e.Entries = slices.Clone(o.Entries)
		e.Entries[0].Family, e.Entries[0].Config = "new", devicetest.Config(t, "w4")
		x, now := assert.Value[struct {
			Us, Half       float64 // its time, and half of its interval
			Held           string
			HeldUS, Gain   float64
			OldWarm, Stale bool
		}](t, input), &e.Entries[0]
		if now.MedianUS, now.CIUS = x.Us, nil; x.Half > 0 {
			now.CIUS = []float64{x.Us - x.Half, x.Us + x.Half}
		}
		if x.Held != "" {
			v := devicetest.Variant(t, x.Held)
			now.Held = &Rival{Family: v.Family, Config: v.Config, MedianUS: x.HeldUS, GainLo: x.Gain}
		}
		if o.Protocol.Cold = !x.OldWarm; x.Stale {
			now.Family, now.Source = "old", "new"
		}
		m, n := merge(o, e, asOf(o))
		return fmt.Sprint(m.Entries[0].Variant(), ", ", n, " replaced")
	})
	// The same variant again brings its numbers up to date; fewer samples do not.
	o, e := table(t), table(t)
	e.Entries[0].MedianUS, e.Entries[0].CIUS = 200, []float64{199, 201}
	m, _ := merge(o, e, asOf(o))
	assert.Equal(t, m.Entries[0].MedianUS, 200,
		"a newer measurement of the same variant was left out")
	e.Entries[0].Samples = 1
	m, _ = merge(o, e, asOf(o))
	assert.That(t, m.Entries[0].MedianUS != 200, "one sample replaced thirty")
	// Of stale entries nothing stays that was measured anew.
	e = table(t)
	e.Entries = []Entry{{Problem: devicetest.Problem(t, p1), Family: "h", Source: "s",
		MedianUS: 500, Samples: 20}}
	m, n := merge(o, e, func(string) string { return "other" })
	assert.That(t, n == 1 && len(m.Entries) == 3 && m.Entries[1].Family == "h", "%d replaced: %+v", n, m.Entries)
	// Nothing of a warm table stays beside a cold one.
	e = table(t)
	e.Protocol.Cold = false
	o.Entries, e.Entries = e.Entries, e.Entries[:1]
	m, _ = merge(e, o, asOf(e))
	assert.That(t, m.Protocol.Cold && len(m.Entries) == len(o.Entries),
		"a cold table over a warm one has %d entries, cold: %v", len(m.Entries), m.Protocol.Cold)
}

// asOf says that the code is as it was when a table was measured.
func asOf(t *TunedTable) func(string) string {
	return func(family string) string {
		for _, e := range t.Entries {
			if e.Family == family {
				return e.Source
			}
		}
		return ""
	}
}

// What has one config for a width replaces all that the table had of the width; what is measured again alone leaves
// the others as one of several.
func TestOneConfigForAWidthReplacesAllOfIt(t *testing.T) {
	old, next := table(t), table(t)
	entry := func(problem string, batch float64) Entry {
		return Entry{Problem: devicetest.Problem(t, problem), Family: "f", Config: devicetest.Config(t, "w8"), Source: "s",
			MedianUS: 100, CIUS: []float64{99, 101}, Samples: 20, BatchInvariant: batch}
	}
	const few, many, other = "rmsnorm/fwd/16x4096/bf16", "rmsnorm/fwd/4096x4096/bf16", "rmsnorm/fwd/4096x8192/bf16"
	old.Entries, next.Entries = []Entry{entry(few, 0), entry(many, 0), entry(other, 0)}, []Entry{entry(few, 1.02)}
	old.Entries[0].Family = "g" // faster by nothing
	m, n := merge(old, next, asOf(old))
	assert.That(t, n == 2 && len(m.Entries) == 2 && m.Entries[0].Family == "f" && m.Entries[0].BatchInvariant == 1.02 &&
		m.Entries[1].Problem == old.Entries[2].Problem, "%d replaced: %+v", n, m.Entries)
	old.Entries, next.Entries = []Entry{entry(few, 1.02), entry(many, 1.01)}, []Entry{entry(few, 0)}
	m, _ = merge(old, next, asOf(old))
	assert.That(t, len(m.Entries) == 2 && m.Entries[0].BatchInvariant == 0 && m.Entries[1].BatchInvariant == 0, "%+v", m.Entries)
}
