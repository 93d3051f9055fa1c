package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/verdict"
)

// smallLive is a recorded live compare with two of its duels, after change.
func smallLive(t testing.TB, change func(*report.Live)) []byte {
	t.Helper()
	run, err := report.ReadLive(filepath.Join("..", "..", "results", "nvidia-h200", "peers",
		"layernorm-bwd.json.gz"))
	assert.NoError(t, err)
	run.Duels = run.Duels[:2]
	run.Judge()
	change(run)
	data, err := json.Marshal(run)
	assert.NoError(t, err)
	return data
}

// What is no live compare, or a damaged one, is refused in one line with its reason:
// testdata/live_errors.txt.
func TestReadLive(t *testing.T) {
	damaged := func(change func(*report.Live)) string { return string(smallLive(t, change)) }
	whole := func(*report.Live) {}
	flipped := durable.SealText(smallLive(t, whole))
	flipped[bytes.LastIndexAny(flipped[:bytes.LastIndex(flipped, []byte(`"crc"`))],
		"0123456789")] ^= 1
	texts := map[string]string{
		"no JSON":   "{",
		"a table":   `{"schema":1,"entries":[]}`,
		"newer":     `{"schema":2,"duels":[null]}`,
		"a digit":   string(flipped),
		"null":      damaged(func(r *report.Live) { r.Duels[1] = nil }),
		"unjudged":  damaged(func(r *report.Live) { r.Judged = nil }),
		"no rounds": damaged(func(r *report.Live) { r.Duels[0].Rounds = nil }),
		"no worst":  damaged(func(r *report.Live) { r.Summary.Worst = nil }),
		"lawless":   damaged(func(r *report.Live) { r.Rule.Plan.Looks = nil }),
		"no op":     strings.Replace(damaged(whole), "layernorm/bwd", "norm/bwd", 1),
	}
	assert.Cases(t, "testdata/live_errors.txt", func(name string) string {
		file := filepath.Join(t.TempDir(), "x.json")
		assert.NoError(t, os.WriteFile(file, []byte(texts[name]), 0o644))
		code, stdout, stderr := normbench([]string{"report", file})
		assert.That(t, code == exitTrouble && stdout == "", "%s: exit code %d, %s", name, code, stdout)
		return strings.ReplaceAll(stderr, file, "FILE")
	})
}

// What the fresh worker of a gate found stands in every format, and why.
func TestGateShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	assert.NoError(t, os.WriteFile(file, smallLive(t, func(r *report.Live) {
		j := r.Judged[1]
		j.Effect, j.Lo, j.Hi, j.Verdict, j.Gate, j.Reason = 1.25, 1.2, 1.3, verdict.Inconclusive,
			verdict.Inconclusive, "two modes, 6.0% apart"
		r.Gate = []ab.Second{{Problem: j.Problem, Again: j}}
		r.Judged[1] = j
	}), 0o644))
	for _, format := range []string{report.FormatText, report.FormatMarkdown, report.FormatCSV} {
		code, stdout, stderr := normbench([]string{"report", file, "--wide", "--format", format})
		assert.Must(t, code == 0, "%s: exit code %d, %s", format, code, stderr)
		assert.Golden(t, "testdata/gate."+format, stdout)
	}
	_, stdout, _ := normbench([]string{"report", file, "--format", report.FormatJSON})
	assert.That(t, strings.Contains(stdout, `"reason": "two modes, 6.0% apart"`), "%s", stdout)
}

// A packed file is read as the file in it, by every command, and one that was cut short is named
// with the way out.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join("..", "..", "results", "nvidia-h200")
	rounds := "a,b,a2\n"
	for i := range 12 {
		rounds += fmt.Sprintf("%d,%d,%d\n", 100+i%3, 90+i%2, 101+i%3)
	}
	read := func(file string) string {
		data, err := textfile.Read(filepath.Join(results, file), textfile.Large)
		assert.NoError(t, err)
		return string(data)
	}
	for _, x := range []struct {
		name, text string
		commands   [][]string // % is the file
	}{
		{"live.json", string(smallLive(t, func(*report.Live) {})),
			[][]string{{"report", "%"}, {"report", "%", results + "#base"}}},
		{"tuned.json", read("tuned.json"), [][]string{{"explain", "1024x8192", "--tuned", "%"},
			{"compare", "tuned:%", "tuned:%"}, {"rule", "tuned:%", "--columns", "4096"}}},
		{"shapes.yaml", "a: [[1, 2]]\n", [][]string{{"list", "shapes", "--shapes", "%#a"}}},
		{"rounds.csv", rounds, [][]string{{"judge", "%"}}},
	} {
		// as long, for the width of columns
		plain, packed := filepath.Join(dir, "gz."+x.name), filepath.Join(dir, x.name+".gz")
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		io.WriteString(w, x.text)
		w.Close()
		for file, text := range map[string]string{plain: x.text, packed: z.String()} {
			assert.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		}
		run := func(args []string, file string) (int, string, string) {
			args = slices.Clone(args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "%", file)
			}
			code, stdout, stderr := normbench(args)
			return code, strings.ReplaceAll(stdout, file, x.name), stderr
		}
		for _, args := range x.commands {
			code, want, stderr := run(args, plain)
			got, text, e := run(args, packed)
			assert.That(t, code != exitTrouble && code == got && text == want,
				"%s of %s: exit code %d and packed %d\n%s%s", args, x.name, code, got, stderr, e)
		}
		assert.NoError(t, os.Truncate(packed, int64(z.Len()*2/3)))
		for _, args := range x.commands {
			code, _, stderr := run(args, packed)
			assert.That(t, code == exitTrouble && strings.Contains(stderr, packed) &&
				strings.Contains(stderr, textfile.PackedHelp), "%s of a torn %s: exit code %d, %s",
				args, x.name, code, stderr)
		}
	}
}

// Whatever is accepted can be printed, and judged again.
func FuzzParseLive(f *testing.F) {
	good := smallLive(f, func(*report.Live) {})
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"status":"ok"`), []byte(`"status":"wrong"`), 1))
	f.Add([]byte(`{"schema":1,"duels":[null]}`))
	f.Add(smallLive(f, func(r *report.Live) { r.Summary.Worst = nil }))
	f.Add(bytes.Replace(good, []byte(`"id":"`), []byte(`"id":"../../`), 1))
	f.Add(bytes.Replace(good, []byte(`"a":`), []byte(`"a":NaN,"a":`), 1))
	f.Add(bytes.Replace(good, []byte(`"rounds":[`), []byte(`"rounds":null,"x":[`), 1))
	f.Add(append([]byte("\xef\xbb\xbf"), good...))
	f.Add([]byte(`{"schema":1,"duels":` + strings.Repeat("[", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ab.Parse(data)
		if err != nil {
			return
		}
		run := &report.Live{Match: *m}
		run.Score()
		assert.NoError(t, run.Render(io.Discard, report.FormatText))
		if len(run.Duels) > 20 || run.Duels[0].Status == kernels.StatusOK &&
			len(run.Duels[0].Rounds) > 100 {
			return // judging takes the square of the rounds
		}
		run.Judge()
	})
}
