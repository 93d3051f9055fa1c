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
	dir := f.TempDir()
	for _, text := range readTexts(f, dir) {
		f.Add(text)
	}
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
		assert.Must(t, slices.Equal(notes, file.Notes) && len(file.last) <= len(recs),
			"notes %q and %q, %d entries of %d records", notes, file.Notes, len(file.last), len(recs))
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
