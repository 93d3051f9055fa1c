package record

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"normbench/internal/assert"
)

// An append that the disk takes only a part of is taken back, and the next one goes on.
func TestAppendThatFindsNoRoomIsTakenBack(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	run := testRun("r")
	w, _ := openWriter(t, t.TempDir())
	for _, v := range []Line{run, testRecord(run, 1)} {
		assert.NoError(t, w.AppendAll(v))
	}
	var old syscall.Rlimit
	assert.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old))
	limit := old
	limit.Cur = uint64(w.size + 100)
	assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	failed := w.AppendAll(testRecord(run, 2))
	assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old))
	st, err := os.Stat(w.Path())
	assert.That(t, failed != nil && err == nil && st.Size() == w.size,
		"%v, %v: %d bytes, want %d", failed, err, st.Size(), w.size)
	assert.NoError(t, w.AppendAll(testRecord(run, 3)))
	w.Close()
	f, err := Load(w.Path())
	assert.That(t, err == nil && len(f.last) == 2, "%v", err)
}
