package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/record"
)

// testRun is a run of a day of 2026, with a cell of each of some problems.
func testRun(t *testing.T, day int, problems ...string) Snapshot {
	r := Snapshot{Schema: Schema, ID: fmt.Sprint("run", day), Commit: fmt.Sprint("c", day), Device: "card", Card: "Card",
		Time: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), Protocol: record.Protocol{Name: "cold", Samples: 10, Cold: true}}
	for _, text := range problems {
		p, err := kernels.ParseProblem(text)
		assert.NoError(t, err)
		r.Cells = append(r.Cells, Cell{Problem: p, Rounds: 12, Again: 1.001,
			US: map[string]float64{Stream: 30, Ours: 31.5, PeerArm + "liger": 40}})
	}
	return r
}

const forward = "rmsnorm/fwd/8192x4096/bf16"

// A run that is added twice is one line, and one that has gone on since is read as it was last.
func TestARunAddedTwiceIsOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	first, second := testRun(t, 1, forward), testRun(t, 2, forward)
	for _, tc := range []struct {
		runs        []Snapshot
		added, have int
	}{{[]Snapshot{first}, 1, 1}, {[]Snapshot{first}, 0, 1}, {[]Snapshot{first, second}, 1, 2}, {[]Snapshot{second, first}, 0, 2}} {
		added, notes, err := Add(path, tc.runs)
		assert.NoError(t, err)
		assert.Equal(t, added, tc.added)
		assert.Equal(t, len(notes), 0)
		f, err := Read(path)
		assert.NoError(t, err)
		assert.Equal(t, len(f.Runs), tc.have)
		assert.Equal(t, bytes.Count(assert.File(t, path), []byte("\n")), tc.have)
	}
	longer := testRun(t, 1, forward, "rmsnorm/bwd/8192x4096/bf16")
	_, _, err := Add(path, []Snapshot{longer})
	assert.NoError(t, err)
	f, err := Read(path)
	assert.NoError(t, err)
	assert.Same(t, f.Runs, []Snapshot{longer, second}, "the run that has gone on")
}

// A torn last line is dropped, wherever it was torn, and the next run is added behind whole lines; what is
// damaged elsewhere, or of a newer version, is refused and left as it is.
func TestTornLineIsDroppedAndNewerRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	_, _, err := Add(path, []Snapshot{testRun(t, 1, forward), testRun(t, 2, forward)})
	assert.NoError(t, err)
	whole := assert.File(t, path)
	end := bytes.IndexByte(whole, '\n') + 1
	for cut := end + 1; cut < len(whole)-1; cut += 7 {
		assert.NoError(t, os.WriteFile(path, whole[:cut], 0o644))
		f, err := Read(path)
		assert.NoError(t, err)
		assert.Must(t, len(f.Runs) == 1 && len(f.Notes) == 1 &&
			strings.HasSuffix(f.Notes[0], ":2: dropped the last line, which is incomplete"), "at %d: %q", cut, f.Notes)
		added, notes, err := Add(path, []Snapshot{testRun(t, 2, forward)})
		assert.Must(t, err == nil && added == 1 && len(notes) == 1, "at %d: %d added, %q, %v", cut, added, notes, err)
		assert.Equal(t, string(assert.File(t, path)), string(whole), "at", fmt.Sprint(cut))
	}
	f, err := parseFile("h", whole[:len(whole)-1]) // without its newline the line is whole
	assert.Must(t, err == nil && len(f.Runs) == 2 && len(f.Notes) == 0, "%v, %v", f, err)
	for _, tc := range []struct{ text, wants, hints string }{
		{strings.Replace(string(whole), `{"schema":1`, `{"schema":2`, 1),
			":1: schema 2 is newer than 1, the newest that this normbench reads", "update normbench"},
		{string(whole[:end/2]) + "\n" + string(whole[:end]), "is not a history", "history add"},
		{string(whole[:end]) + "{\n" + string(whole[end:]), ":2: is no JSON", "delete the line"},
		{strings.Replace(string(whole), "31.5", "30.5", 1), ":1: the file's checksum does not match", "by hand"},
		{`{"schema":1,"run":"x"}` + "\n", "it has no run, device or time", "delete the line"},
		{"{}\n", "it is no run of a history", "history add"},
	} {
		assert.NoError(t, os.WriteFile(path, []byte(tc.text), 0o644))
		_, err := Read(path)
		assert.Must(t, err != nil && strings.Contains(err.Error(), tc.wants) && strings.Contains(hint.Of(err), tc.hints),
			"%v, hint %q, wants %q, %q", err, hint.Of(err), tc.wants, tc.hints)
		_, _, err = Add(path, []Snapshot{testRun(t, 3, forward)})
		assert.That(t, err != nil && string(assert.File(t, path)) == tc.text, "it was changed: %v", err)
	}
}

// Both servers get what they read: Bencher a latency in nanoseconds, github-action-benchmark a list in which
// smaller is better.
func TestServersGetWhatTheyRead(t *testing.T) {
	f := &Log{Runs: []Snapshot{testRun(t, 1, forward), testRun(t, 2, forward)}}
	f.Runs[1].Noise = 0.001
	for format, wants := range map[string]string{
		FormatBMF: `{
  "rmsnorm/fwd/8192x4096/bf16 ours": {
    "latency": {
      "value": 31500
    }
  },
`,
		FormatAction: `[
  {
    "name": "rmsnorm/fwd/8192x4096/bf16 ours",
    "unit": "us",
    "value": 31.5,
    "range": "± 0.0315",
    "extra": "Card, commit c2"
  },
`} {
		var b bytes.Buffer
		assert.NoError(t, Export(&b, f, format))
		assert.That(t, strings.HasPrefix(b.String(), wants), "%s: %s", format, b.String())
		assert.Equal(t, strings.Count(b.String(), forward), 3)
	}
}

// The arms of a live compare are those of its operands, and the runs of one commit are one point, unless they
// measured the same.
func TestRunsOfOneCommitAreOnePoint(t *testing.T) {
	var all []Snapshot
	for _, name := range []string{"rmsnorm-fwd", "rmsnorm-bwd", "rmsnorm-fwd"} {
		l, err := report.ReadLive(filepath.Join("..", "..", "results", "nvidia-h200", "peers", name+".json.gz"))
		assert.NoError(t, err)
		runs, err := LiveRuns(l, "")
		assert.NoError(t, err)
		r := runs[0]
		assert.Must(t, len(runs) == 1 && r.Commit == "40f67d6" && len(r.Cells) == 31 && r.Noise > 0, "%+v", r)
		for _, c := range r.Cells {
			peers := 0
			for arm := range c.US {
				if strings.HasPrefix(arm, PeerArm) {
					peers++
				}
			}
			assert.That(t, c.US[Ours] > 0 && c.US[Stream] > 0 && peers == 1 && c.Rounds >= 12 && c.Again > 0.9,
				"%+v", c)
		}
		all = append(all, r)
	}
	s := GroupRuns(all)
	assert.Must(t, len(s) == 1 && len(s[0].Points) == 2, "%d series", len(s))
	assert.Equal(t, len(s[0].Points[0].Cells), 62)
}
