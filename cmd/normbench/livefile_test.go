package main

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// What is no live compare, or a damaged one, is refused in one line with its reason.
func TestReadLive(t *testing.T) {
	damaged := func(change func(*report.Live)) string { return string(smallLive(t, change)) }
	flipped := durable.SealText(smallLive(t, func(*report.Live) {}))
	flipped[bytes.LastIndexAny(flipped[:bytes.LastIndex(flipped, []byte(`"crc"`))],
		"0123456789")] ^= 1
	for name, c := range map[string]struct{ text, want string }{
		"no JSON": {"{", "is no live compare: unexpected end of JSON input"},
		"a table": {`{"schema":1,"entries":[]}`, "is no live compare: it has no run with duels"},
		"newer":   {`{"schema":2,"duels":[null]}`, "schema 2 is newer than 1"},
		"a digit": {string(flipped), "checksum does not match"},
		"null":    {damaged(func(r *report.Live) { r.Duels[1] = nil }), "duel 2 is null"},
		"unjudged": {damaged(func(r *report.Live) { r.Judged = nil }),
			"2 duels are ok, and 0 are judged"},
		"no rounds": {damaged(func(r *report.Live) { r.Duels[0].Rounds = nil }),
			"layernorm/bwd/32768x1024/bf16+bias has no rounds"},
		"no worst": {damaged(func(r *report.Live) { r.Summary.Worst = nil }),
			"its summary of 2 cells has no worst"},
		"lawless": {damaged(func(r *report.Live) { r.Rule.Plan.Looks = nil }),
			"a plan without looks"},
		"no op": {strings.Replace(damaged(func(*report.Live) {}), "layernorm/bwd", "norm/bwd", 1),
			"is no live compare: "},
	} {
		file := filepath.Join(t.TempDir(), "x.json")
		assert.NoError(t, os.WriteFile(file, []byte(c.text), 0o644))
		code, stdout, stderr := normbench([]string{"report", file})
		assert.That(t, code == 2 && stdout == "" && strings.Contains(stderr, c.want) &&
			strings.Count(stderr, "\n") == 2 && strings.Contains(stderr, "hint: "),
			"%s: exit code %d\n%s%s", name, code, stdout, stderr)
	}
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
	for format, want := range map[string]string{
		"text": "\ngate: layernorm/bwd/16384x2048/bf16+bias slower, not confirmed by a fresh " +
			"worker: 0.800x (0.769-0.833), INCONCLUSIVE: two modes, 6.0% apart\n",
		"markdown": "\n- gate: layernorm/bwd/16384x2048/bf16+bias slower, not confirmed by a fresh " +
			"worker: 0.800x (0.769-0.833), INCONCLUSIVE: two modes, 6.0% apart\n",
		"json": `"reason": "two modes, 6.0% apart"`,
	} {
		code, stdout, stderr := normbench([]string{"report", file, "--wide", "--format", format})
		assert.That(t, code == 0 && strings.Contains(stdout, want),
			"%s: exit code %d, %s\n%s", format, code, stderr, stdout)
	}
	code, stdout, stderr := normbench([]string{"report", file, "--format", "csv"})
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	assert.Must(t, code == 0 && err == nil && len(rows) == 3,
		"csv: exit code %d, %v, %s\n%s", code, err, stderr, stdout)
	const recorded = "problem,kind,dtype,m,n,bytes,a,b,a_variant,b_variant,a_status,b_status," +
		"a_us,a_lo_us,a_hi_us,b_us,b_lo_us,b_hi_us,a_gbps,b_gbps,a_stream_percent,b_stream_percent," +
		"speedup,mark,p,reason,"
	assert.That(t, strings.HasPrefix(stdout, recorded),
		"not the columns of recorded operands:\n%s", stdout)
	row := map[string]string{}
	for i, h := range rows[0] {
		row[h] = rows[2][i]
	}
	for h, want := range map[string]string{"problem": "layernorm/bwd/16384x2048/bf16+bias",
		"m":    "16384",
		"mark": "?", "verdict": "INCONCLUSIVE", "rounds": "12",
		"speedup": "0.8", "gate_confirmed": "false", "again_speedup": "0.8",
		"again_verdict": "INCONCLUSIVE", "again_reason": "two modes, 6.0% apart"} {
		assert.Equal(t, row[h], want, h)
	}
	for _, h := range []string{"a_us", "a_lo_us", "b_us", "b_hi_us", "a_gbps", "b_stream_percent",
		"speedup_lo", "speedup_hi", "q", "floor_percent"} {
		_, err := strconv.ParseFloat(row[h], 64)
		assert.That(t, err == nil && len(row[h]) >= 5, "%s is %q", h, row[h])
	}
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
			[][]string{{"report", "%"}, {"report", "%#A", "%#B"}, {"compare", "%#A", "%#B"},
				{"compare", "%#B", "tuned:" + filepath.Join(results, "tuned.json")}}},
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
