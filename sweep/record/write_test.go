package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
)

func openWriter(t *testing.T, dir string) (*Writer, Notes) {
	t.Helper()
	w, notes, err := OpenWriter(dir, ".")
	assert.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	return w, notes
}

func TestWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	run := testRun("r1")
	w, notes := openWriter(t, dir)
	assert.That(t, notes == nil && len(w.records.at) == 0,
		"a new folder has notes %q, keys %v", notes, w.records.at)
	err := w.AppendAll(testRecord(run, 0))
	assert.That(t, err != nil &&
		strings.HasSuffix(err.Error(), `run "r1" has no line before this record`),
		"record before its run: %v", err)
	bad := testRecord(run, 0)
	bad.SamplesUS = nil
	for _, v := range []Line{run, testRecord(run, 0), wrongRecord(run, 1)} {
		assert.NoError(t, w.AppendAll(v))
		assert.That(t, w.AppendAll(bad) != nil, "an invalid record was written")
	}
	_, _, err = OpenWriter(dir, ".")
	assert.That(t, err != nil && err.Error() == "another sweep is writing to "+dir &&
		hint.Of(err) != "", "second writer: %v", err)
	assert.NoError(t, w.Close())
	w, notes = openWriter(t, dir)
	for i, want := range []kernels.Status{kernels.StatusOK, kernels.StatusWrong, ""} {
		got, ok := w.Status(testRecord(run, i).Key)
		assert.That(t, got == want && ok == (want != "") && notes == nil,
			"record %d is %q, %t; notes %q", i, got, ok, notes)
	}
	if err := w.AppendAll(testRecord(run, 2)); err != nil {
		t.Fatal(err) // its run is in the file
	}
	recs, _, notes, err := readAll(w.Path())
	diff := cmp.Diff([]*Record{testRecord(run, 0), wrongRecord(run, 1), testRecord(run, 2)}, recs,
		cmpOpts)
	assert.That(t, diff == "" && err == nil && notes == nil, "%v %v %v", diff, err, notes)
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	run := testRun("r1")
	text := lines(t, run) + "junk\n" + lines(t, run)
	os.WriteFile(path, []byte(text), 0o644)
	_, _, err := OpenWriter(dir, ".")
	assert.Error(t, err, path+":2: not JSON")
	got, _ := os.ReadFile(path)
	assert.Equal(t, string(got), text, "the refused file")
	file := filepath.Join(dir, "file")
	os.WriteFile(file, nil, 0o644)
	_, _, err = OpenWriter(file, ".")
	assert.That(t, err != nil && err.Error() == "results folder "+file+": not a directory" &&
		hint.Of(err) != "", "a file as a folder: %v", err)
	if os.Geteuid() != 0 { // root writes everywhere
		locked := filepath.Join(dir, "locked")
		os.Mkdir(locked, 0o555)
		_, _, err := OpenWriter(locked, ".")
		assert.That(t, err != nil &&
			err.Error() == "results folder "+locked+": permission denied" && hint.Of(err) != "",
			"a read-only folder: %v", err)
	}
}
