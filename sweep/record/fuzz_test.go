package record

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// FuzzRead reads any bytes as a records file: never a panic, one-line errors,
// Read and Load of one opinion, and what is read can be written and read again.
func FuzzRead(f *testing.F) {
	run := testRun("r1")
	whole := lines(f, run, testRecord(run, 0), wrongRecord(run, 1))
	f.Add(whole)
	f.Add(whole[:len(whole)-200])
	f.Add(whole + "\n[[[[\n" + whole)
	f.Add(strings.ReplaceAll(whole, `"schema":2`, `"schema":3`))
	f.Add(strings.ReplaceAll(whole, `"schema":2`, `"schema":1`))
	f.Add(whole[:len(whole)/2] + "\n" + whole[:100])
	f.Add(whole + "\x00\x00\n" + whole[:50] + "\x00")
	f.Add(strings.Replace(whole, "64.5", "46.5", 1))
	f.Add("\xef\xbb\xbf" + whole)
	f.Add(whole + "total garbage\n")
	f.Add(whole + whole[:40] + "\n" + whole[:80])
	for _, to := range [][2]string{{`"device":{"id":"`, `"device":{"id":"../../`}, {`"status":"ok"`,
		`"status":"ok","status":"crash"`}, {`"status":"ok"`, `"status":""`},
		{`"samples_us":[`, `"samples_us":[NaN,`}, {`"samples_us":[`, `"samples_us":[],"x":[`},
		{`"family":"`, `"family":"\u001b[2J<script>`}, {`"check":{`, `"check":{},"x":{`},
		{`"check":{`, `"check":` + strings.Repeat(`{"a":`, 2000) + `{`}} {
		assert.That(f, strings.Contains(whole, to[0]), "no %s to change", to[0])
		changed := ""
		for line := range strings.Lines(whole) {
			changed += altered(line, to[0], to[1])
		}
		f.Add(changed)
	}
	group := finals(run, 3)
	text := appended(f, sinkLines(group)...)
	half := text[:strings.IndexByte(text, '\n')+1]
	for _, s := range []string{text, half, half + lines(f, run) + text, text[len(half):]} {
		f.Add(lines(f, run) + s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "f.jsonl")
		assert.Write(t, path, text)
		recs, runs, notes, err := readAll(path)
		file, loadErr := Load(path)
		assert.Must(t, (err == nil) == (loadErr == nil), "Read says %v, Load says %v", err, loadErr)
		if err != nil {
			assert.Must(t, !strings.ContainsAny(err.Error(), "\n\r") &&
				err.Error() == loadErr.Error(), "Read says %q, Load says %q", err, loadErr)
			return
		}
		assert.Must(t, slices.Equal(notes, file.Notes) && len(file.at) <= len(recs),
			"notes %q and %q, %d entries of %d records", notes, file.Notes, len(file.at), len(recs))
		var vs []Line
		for i, r := range recs {
			if i == 0 || runs[i] != runs[i-1] {
				vs = append(vs, runs[i])
			}
			vs = append(vs, r)
		}
		if len(vs) == 0 {
			return
		}
		assert.Write(t, path, lines(t, vs...))
		again, _, notes, err := readAll(path)
		assert.Must(t, err == nil && notes == nil && len(again) == len(recs),
			"again: %d of %d records, %v, %v", len(again), len(recs), notes, err)
	})
}
