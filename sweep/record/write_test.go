package record

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/durable"
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

// A writer refuses what is no record, keeps others out, and the next one knows what is there.
func TestWriterKeepsOthersOut(t *testing.T) {
	dir, run := filepath.Join(t.TempDir(), "new", "folder"), testRun("r1")
	w, _ := openWriter(t, dir)
	assert.Error(t, w.AppendAll(testRecord(run, 0)), `run "r1" has no line before this record`)
	assert.NoError(t, w.AppendAll(run))
	assert.NoError(t, w.AppendAll(testRecord(run, 0), wrongRecord(run, 1)))
	bad := testRecord(run, 2)
	bad.SamplesUS = nil
	assert.That(t, w.AppendAll(bad) != nil, "an invalid record was written")
	_, _, err := OpenWriter(dir, ".")
	assert.Refused(t, err, "another sweep is writing to "+dir)
	assert.NoError(t, w.Close())
	lock := filepath.Join(dir, LockName) // others who share the folder can open it; to be read will do
	st, err := os.Stat(lock)
	assert.That(t, err == nil && (runtime.GOOS == "windows" || st.Mode().Perm()&0o444 == 0o444),
		"the lock's mode is %v, %v", st.Mode(), err)
	assert.NoError(t, os.Chmod(lock, 0o444))
	w, notes := openWriter(t, dir)
	for i, want := range []kernels.Status{kernels.StatusOK, kernels.StatusWrong, ""} {
		got, ok := w.Status(testRecord(run, i).Key)
		assert.That(t, got == want && ok == (want != "") && notes == nil,
			"record %d is %q, %t; notes %q", i, got, ok, notes)
	}
	assert.NoError(t, w.AppendAll(testRecord(run, 2))) // its run is in the file
}

// An append that fails and cannot be taken back is the trouble that every later one names, not that
// somebody else has written there.
func TestHalfAppendStopsEveryLaterOne(t *testing.T) {
	dir := t.TempDir()
	w, _, err := OpenWriter(dir, ".")
	assert.NoError(t, err)
	defer w.Close()
	run := testRun("r1")
	assert.NoError(t, w.AppendAll(run))
	ours := w.file
	defer ours.Close()
	reading, err := os.Open(w.name)
	assert.NoError(t, err)
	w.file, err = durable.OpenFile(reading, w.name) // neither written nor cut
	assert.NoError(t, err)
	first := w.AppendAll(testRecord(run, 0))
	assert.That(t, first != nil, "a file that is only read was written")
	_, err = ours.Write([]byte("half"))
	assert.NoError(t, err)
	again := w.AppendAll(testRecord(run, 0))
	assert.Equal(t, fmt.Sprint(again), fmt.Sprint(first))
	assert.That(t, strings.Contains(hint.Of(again), "the records before this one are safe"), "%s", hint.Of(again))
}

// A lockless file has no locks: its file system has none.
type lockless struct{}

func (lockless) TryLock() (bool, error) {
	return false, &fs.PathError{Op: "flock", Err: syscall.ENOLCK}
}
func (lockless) Close() error { return nil }

// A folder that others share is refused where they cannot be kept out. A shard's is its own.
func TestShardsNeedNoLocks(t *testing.T) {
	none := func(string) locker { return lockless{} }
	_, _, err := openFolder(t.TempDir(), ".", true, none)
	assert.Refused(t, err, "no locks available")
	dir := t.TempDir()
	w, notes, err := openFolder(dir, ".", false, none)
	assert.NoError(t, err)
	assert.Same(t, notes, Notes{dir + ": its file system has no locks, so start no second command there"})
	assert.NoError(t, w.AppendAll(testRun("r1")))
	assert.NoError(t, w.Close())
}
