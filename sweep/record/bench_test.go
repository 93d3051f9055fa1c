package record

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"normbench/internal/assert"
)

const benchRecords = 50_000

// benchFile writes a file of the size of a large sweep: 30 samples and two
// stages of 10 in every record.
func benchFile(b *testing.B) (path string, size int64) {
	path = filepath.Join(b.TempDir(), FileName)
	f, err := os.Create(path)
	assert.NoError(b, err)
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	run := testRun("r1")
	w.WriteString(lines(b, run))
	for i := range benchRecords {
		w.WriteString(lines(b, testRecord(run, i)))
	}
	w.Flush()
	st, err := f.Stat()
	assert.NoError(b, err)
	return path, st.Size()
}

// BenchmarkLoad is one operand of compare. The demand: two of them in 3 s and
// 300 MB.
func BenchmarkLoad(b *testing.B) {
	path, size := benchFile(b)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		f, err := Load(path)
		assert.NoError(b, err)
		assert.Must(b, len(f.at) == benchRecords, "%d entries", len(f.at))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/1e6, "sys-MB")
}
