package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/kernels"
)

// finals are n records of one problem under the run of its finals.
func finals(run *Run, n int) (rs []*Record) {
	for i := range n {
		r := testRecord(run, 25*i)
		r.Finals = n
		rs = append(rs, r)
	}
	return rs
}

func sinkLines(rs []*Record) (vs []Line) {
	for _, r := range rs {
		vs = append(vs, r)
	}
	return vs
}

// Whatever of the last append is missing, its end after a kill or zeros where pages or sectors are,
// the next writer has all before it and drops the rest, and readers believe none of it: neither
// half of a problem's finals nor what its search saw before them. A hole before it stops both.
func TestHoleInTheLastAppendIsDropped(t *testing.T) {
	dir := t.TempDir()
	run, final := testRun("s"), testRun("f")
	final.Protocol.Phase = PhaseFinal
	w, _ := openWriter(t, dir)
	sizes := []int64{0}
	for _, vs := range [][]Line{{run}, {final}, {testRecord(run, 9)},
		sinkLines(append([]*Record{testRecord(run, 1), testRecord(run, 2)}, finals(final, 3)...))} {
		assert.NoError(t, w.AppendAll(vs...))
		sizes = append(sizes, w.size)
	}
	w.Close()
	whole := assert.File(t, w.Path())
	check := func(text []byte, n int, what string) { // with the first n-1 appends in it
		t.Helper()
		assert.Write(t, w.Path(), string(text))
		f, loadErr := Load(dir)
		w, notes, err := OpenWriter(dir, ".")
		assert.Must(t, err == nil && loadErr == nil && w.size == sizes[n-1] &&
			(len(notes) != 0 || int64(len(text)) <= sizes[n-1]), "append %d, %s: %v, %v, %q", n,
			what, loadErr, err, notes)
		defer w.Close()
		assert.Same(t, copies(w.Records().outcomes), copies(f.outcomes), "append", n, what,
			"a reader and the next writer see another file", cmpOpts, ignored,
			cmpopts.EquateEmpty())
		st, err := os.Stat(w.Path())
		assert.Must(t, err == nil && st.Size() == sizes[n-1],
			"append %d, %s: %d bytes stay, want %d", n, what, st.Size(), sizes[n-1])
	}
	const page, sector = 4096, 512
	for n := 1; n < len(sizes); n++ { // appends
		text, before := whole[:sizes[n]], sizes[n-1]
		for _, unit := range []int64{page, sector} {
			for at := before / unit * unit; at < sizes[n]; at += unit {
				for _, holes := range []int64{1, 3} {
					b := slices.Clone(text)
					clear(b[max(at, before):min(at+holes*unit, sizes[n])])
					if bytes.Equal(b, text) {
						continue
					}
					check(b, n, fmt.Sprintf("hole of %d at %d", unit, at))
				}
			}
		}
		step := max((sizes[n]-before)/100, 1)
		for end := before + 1; end < sizes[n]-1; end++ {
			if line := whole[end-1] == '\n' || whole[end] == '\n'; line || end%step == 0 {
				check(whole[:end], n, fmt.Sprintf("cut at %d", end))
			}
		}
		check(whole[:sizes[n]-1], n+1, "without the newline")
	}
	for _, at := range []int64{0, sizes[1], sizes[2] + 100, sizes[3] - 50} { // not in the last one
		b := slices.Clone(whole)
		clear(b[at : at+20])
		assert.Write(t, w.Path(), string(b))
		if w, _, err := OpenWriter(dir, "."); err == nil {
			t.Errorf("a hole at %d goes unnoticed", at)
			w.Close()
		}
	}
}

// What others do to the file under a writer stops it, with a line that says what is kept where:
// testdata/others.txt, by what a shell does in its folder.
func TestWriterStopsWhereOthersChangeItsFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("where a file went is known on Linux only")
	}
	run := testRun("r1")
	assert.Lines(t, "testdata/others.txt", func(commands string) string {
		dir := filepath.Join(t.TempDir(), "results")
		w, _ := openWriter(t, dir)
		assert.NoError(t, errors.Join(w.AppendAll(run), w.AppendAll(testRecord(run, 0))))
		cmd := exec.Command("sh", "-ec", commands)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, string(out))
		return strings.ReplaceAll(assert.Refusal(t, w.AppendAll(testRecord(run, 1))), dir, "DIR")
	})
}

// A record of a search on a GPU stays lean.
func TestRecordOfASearchStaysShort(t *testing.T) {
	run := testRun("r1")
	r := testRecord(run, 0)
	r.SamplesUS = r.SamplesUS[:16]
	r.SearchUS, r.GapUS, r.WallMS = 50.272000000000006, 1.0/3, 102.9155761589404
	r.Check.Busy, r.Check.Compile, r.StreamUS = 0.000944322, 0.2137191, 123456.789
	text := lines(t, r)
	assert.That(t, len(text) <= 1200, "%d bytes: %s", len(text), text)
	for _, want := range []string{`"search_us":50.272,`, `"gap_us":0.33333,`, `"wall_ms":102.92,`,
		`"busy":0.00094432,"compile":0.21372}`, `"stream_us":123460,`} {
		assert.That(t, strings.Contains(text, want), "no %s in %s", want, text)
	}
	for _, gone := range []string{`"bytes"`, `"bad"`, `"spill"`, `"refused"`} {
		assert.That(t, !strings.Contains(text, gone), "%s in %s", gone, text)
	}
	r.StreamUS = r.StreamUS/3 + 1e-9
	w, _ := openWriter(t, t.TempDir())
	assert.NoError(t, errors.Join(w.AppendAll(run), w.AppendAll(r)))
	f, err := Load(w.Path())
	assert.NoError(t, err)
	assert.Same(t, copies(w.Records().outcomes), copies(f.outcomes),
		"what was written is summarized as something else than what is read", cmpOpts, ignored,
		cmpopts.EquateEmpty())
	recs, _, _, err := readAll(writeFile(t, lines(t, run)+text))
	assert.That(t, err == nil && recs[0].Bytes == r.Problem.Bytes() &&
		recs[0].Status == kernels.StatusOK, "%+v, %v", recs, err)
}

// The last append is dropped whatever the disk has in its place: bytes of anything, and pieces of an
// older block of the file with whole lines in it.
func TestLastAppendTornByAnythingIsDropped(t *testing.T) {
	run := testRun("r1")
	whole := lines(t, run) + lines(t, testRecord(run, 0)) + lines(t, wrongRecord(run, 1))
	last := lines(t, testRecord(run, 2))
	path := filepath.Join(t.TempDir(), FileName)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		block := make([]byte, 1+r.IntN(3000))
		for i := range block {
			block[i] = byte(r.IntN(256))
		}
		if seed%2 == 0 { // the file's own text from some byte on
			at := 1 + r.IntN(len(whole)/2)
			block = []byte(strings.Repeat(whole[at:]+whole[:at], 3))[:len(whole)+r.IntN(len(whole))]
			if strings.HasSuffix(string(block), "\n") {
				block = block[:len(block)-1]
			}
		}
		assert.Write(t, path, whole+last[:r.IntN(len(last)-1)]+string(block))
		records, _, notes, err := readAll(path)
		if err != nil || len(records) != 2 || len(notes) != 1 {
			t.Errorf("seed %d: %d records, %v, %v: %q", seed, len(records), notes, err, block)
		}
	}
}
