package record

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// An append that the disk takes only a part of is taken back, and the next one goes on.
func TestAppendLimited(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	run := testRun("r")
	w, _ := openWriter(t, t.TempDir())
	for _, v := range []Line{run, testRecord(run, 1)} {
		if err := w.AppendAll(v); err != nil {
			t.Fatal(err)
		}
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = uint64(w.size + 100)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	failed := w.AppendAll(testRecord(run, 2))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(w.Path()); failed == nil || err != nil || st.Size() != w.size {
		t.Errorf("%v, %v: %d bytes, want %d", failed, err, st.Size(), w.size)
	}
	if err := w.AppendAll(testRecord(run, 3)); err != nil {
		t.Error(err)
	}
	w.Close()
	if f, err := Load(w.Path()); err != nil || len(f.at) != 2 {
		t.Errorf("%v", err)
	}
}
