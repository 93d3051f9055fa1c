package record

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"normbench/internal/assert"
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
	assert.Refused(t, err, "another sweep is writing to "+dir)
	assert.NoError(t, w.Close())
	lock := filepath.Join(dir, LockName) // others who share the folder can open it; to be read will do
	st, err := os.Stat(lock)
	assert.That(t, err == nil && (runtime.GOOS == "windows" || st.Mode().Perm()&0o444 == 0o444),
		"the lock's mode is %v, %v", st.Mode(), err)
	assert.NoError(t, os.Chmod(lock, 0o444))
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
