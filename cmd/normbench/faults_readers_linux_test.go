package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/sweep/record"
	"normbench/tune"
)

// A reader is a file that the program reads, with commands whose output is a function of it.
type reader struct {
	name     string
	share    int
	file     string
	data     []byte
	sealed   bool       // it has a checksum: no other content may pass for its own
	lines    bool       // its end may be torn off
	commands [][]string // FILE is the file, FOLDER its folder
	beside   string     // a file that lies there too
	want     []outcome
}

type outcome struct {
	code           int
	stdout, stderr string
}

// run writes the file with some text, and runs the i-th command on it in this process.
func (f *reader) run(h *harness, dir string, text []byte, i int) (o outcome) {
	path := filepath.Join(dir, f.file)
	assert.NoError(h.t, os.WriteFile(path, text, 0o644))
	if f.beside != "" {
		name := filepath.Join(dir, filepath.Base(f.beside))
		assert.NoError(h.t, os.WriteFile(name, assert.File(h.t, f.beside), 0o644))
	}
	defer func() {
		if p := recover(); p != nil {
			o.code, o.stderr = -2, fmt.Sprint("panic: ", p)
		}
	}()
	var args []string
	for _, a := range f.commands[i] {
		args = append(args, strings.NewReplacer("FILE", path, "FOLDER", dir).Replace(a))
	}
	o.code, o.stdout, o.stderr = normbench(args)
	o.stdout = strings.ReplaceAll(o.stdout, path, "FILE")
	return o
}

// damage flips, changes, inserts, drops or repeats bytes of data, or tears off its end.
func damage(data []byte, r *rand.Rand) []byte {
	b := slices.Clone(data)
	i := r.IntN(len(b))
	n := min(1+r.IntN(40), len(b)-i)
	switch r.IntN(8) {
	case 0:
		b[i] ^= 1 << r.IntN(8)
	case 1, 2: // another digit
		for k := range b {
			if c := &b[(i+k)%len(b)]; *c >= '0' && *c <= '9' {
				*c = '0' + (*c-'0'+byte(1+r.IntN(9)))%10
				break
			}
		}
	case 3:
		b = b[:i]
	case 4:
		b = slices.Delete(b, i, i+n)
	case 5:
		b = slices.Insert(b, i, b[i:i+n]...)
	case 6: // as a file system leaves behind
		clear(b[i : i+n])
	case 7:
		for k := range b[i : i+n] {
			b[i+k] = byte(r.IntN(256))
		}
	}
	return b
}

// damage damages a reader's file in one or two places: a command refuses it, or prints what it did.
func (x *trial) damage(f *reader) {
	b := f.data
	for k := 1; bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(f.data)); k++ {
		b = damage(f.data, x.r)
		if k += x.r.IntN(3); k < 3 {
			b = damage(append(b, ' '), x.r)
		}
	}
	i := x.r.IntN(len(f.commands))
	at := 0 // of the first byte that differs
	for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(at-20, 0):min(at+30, len(b))] }
	x.what = fmt.Sprintf("%s: %q became %q", f.commands[i], around(f.data), around(b))
	start := time.Now()
	got := f.run(x.harness, x.dir, b, i)
	said := strings.Count(got.stderr, "normbench: error: ") == 1 &&
		strings.Count(got.stderr, "normbench: hint: ") == 1
	switch d := time.Since(start); {
	case got.code < 0:
		x.wrongf("%s", got.stderr)
	case d > 20*time.Second:
		x.wrongf("it took %s", d)
	case got.code == exitTrouble && !said:
		x.wrongf("not one error and one hint: %s", got.stderr)
	case got.code == exitTrouble || !f.sealed:
	case got.code == f.want[i].code && got.stdout == f.want[i].stdout:
	case f.lines && strings.Contains(got.stderr, "dropped the last") ||
		strings.Contains(got.stderr, "left out"):
		// As it is without all from the first damaged line on.
		want := f.run(x.harness, x.dir, f.data[:bytes.LastIndexByte(f.data[:at], '\n')+1], i)
		if got.code != want.code || got.stdout != want.stdout {
			x.wrongf("%s%s, want %s", got.stdout, got.stderr, want.stdout)
		}
	default:
		x.wrongf("%s%s, want %s", got.stdout, got.stderr, f.want[i].stdout)
	}
}

// prepareReaders makes one of each file that is read, and what the commands say of it.
func (h *harness) prepareReaders() (readers []*reader) {
	t, dir := h.t, h.t.TempDir()
	read := func(path ...string) []byte { return assert.File(t, filepath.Join(path...)) }
	pack := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	code, _, stderr := normbench([]string{"compare", "base", "rms_fwd/cta_reg@br4.w2", "--shapes",
		"4096x1024,2048x1024", "--op", "rmsnorm", "--pass", "fwd", "--seed", "1", "--worker",
		"normbench-fake ab", "--out", dir})
	found, err := filepath.Glob(filepath.Join(dir, "*", "compare-*.json"))
	assert.Must(t, code == 0 && err == nil && len(found) == 1, "%s, %v", stderr, err)
	live := read(found[0])
	_, text, _ := strings.Cut(string(read("testdata", "script", "rule.txtar")), "-- map.json --\n")
	text, _, ok := strings.Cut(text, "\n-- ")
	assert.Must(t, ok, "rule.txtar has no map.json")
	rounds := []byte("round,a,b,twin\n")
	for i := range 12 {
		rounds = fmt.Appendf(rounds, "%d,%g,%g,%g\n", i, 10+0.01*float64(i%3), 9.5+
			0.01*float64(i%4), 10+0.01*float64(i%5))
	}
	grid, search := read(h.jobs[0].done, record.FileName), read(h.jobs[1].done, record.FileName)
	manifest := filepath.Join("..", "..", "examples", "kernels", "rms_warp.yaml")
	source := strings.TrimSuffix(manifest, "yaml") + "cu"

	ofRecords := [][]string{{"report", "FILE"}, {"compare", "FILE#base", "FILE"}, {"tune", "FILE"},
		{"export", "FILE", "--format", "benchfmt"}}
	ofTable := [][]string{{"explain", "4096x1024", "--tuned", "FILE"}, {"lint", "FILE"},
		{"explain", "700x1024", "--tuned", "FILE"}}
	// A map of a GPU, as `explain` takes none of another cpu. lint has findings, so it prints what
	// the file says.
	ofMap := [][]string{{"explain", "2000x5000", "--tuned", "FILE"}, {"lint", "FILE"}}
	ofLive := [][]string{{"report", "FILE"}}
	ofKernels := [][]string{
		{"list", "configs", "--kernels", "FOLDER", "--family", "rms_warp", "--problem",
			"rmsnorm/fwd/4096x4096/bf16", "--device", "h200", "--plans"},
		{"verify", "--host-only", "--kernels", "FOLDER", "--device", "cpu", "--shapes", "8x64",
			"--op", "rmsnorm", "--pass", "fwd"},
	}
	readers = []*reader{
		{name: "records, a grid", share: 120, file: "records.jsonl", data: grid, sealed: true,
			lines: true, commands: ofRecords},
		{name: "records, a search", share: 120, file: "records.jsonl", data: search, sealed: true,
			lines: true, commands: ofRecords},
		{name: "records, packed", share: 40, file: "records.jsonl.gz", data: pack(search),
			sealed: true, commands: ofRecords},
		{name: "tuned.json", share: 60, file: "tuned.json", data: read(h.jobs[1].done, tune.FileName),
			sealed: true, commands: ofTable},
		{name: "map", share: 60, file: "tuned.json", data: durable.SealText([]byte(text)),
			sealed: true, commands: ofMap},
		{name: "live compare, packed", share: 30, file: "live.json.gz", data: pack(live),
			sealed: true, commands: ofLive},
		{name: "live compare", share: 60, file: "live.json", data: live, sealed: true,
			commands: ofLive},
		{name: "shapes", share: 30, file: "shapes.yaml", data: read("..", "..", "shapes.yaml"),
			commands: [][]string{{"list", "shapes", "--shapes", "FILE"}}},
		{name: "manifest", share: 30, file: "rms_warp.yaml", data: read(manifest),
			commands: ofKernels, beside: source},
		{name: "user's kernel", share: 10, file: "rms_warp.cu", data: read(source),
			commands: ofKernels, beside: manifest},
		{name: "user's kernel with a BOM", share: 10, file: "rms_warp.cu",
			data:     append([]byte("\xef\xbb\xbf"), read(source)...),
			commands: ofKernels, beside: manifest},
		{name: "rounds to judge", share: 20, file: "rounds.csv", data: rounds,
			commands: [][]string{{"judge", "FILE"}}},
	}
	for _, f := range readers {
		for i := range f.commands {
			o := f.run(h, t.TempDir(), f.data, i)
			assert.Must(t, o.code != exitTrouble, "%s: %s", f.commands[i], o.stderr)
			f.want = append(f.want, o)
		}
	}
	return readers
}
