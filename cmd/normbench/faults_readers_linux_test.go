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
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/tune"
)

// A reader is a file that the program reads, with commands whose output is a function of it.
type reader struct {
	name     string
	share    int
	path     string
	data     []byte
	sealed   bool       // it has a checksum: no other content may pass for its own
	lines    bool       // its end may be torn off
	commands [][]string // FILE is the file, FOLDER its folder
	beside   []string   // files that lie there too
	want     []outcome
}

type outcome struct {
	code           int
	stdout, stderr string
}

// command is the i-th, of a file.
func (f reader) command(i int, path string) []string {
	args := slices.Clone(f.commands[i])
	for k := range args {
		args[k] = strings.NewReplacer("FILE", path, "FOLDER", filepath.Dir(path)).Replace(args[k])
	}
	return args
}

// write writes the file as a text has it, with those beside it.
func (f reader) write(t testing.TB, path string, text []byte) {
	for _, name := range f.beside {
		data := assert.File(t, name)
		name = filepath.Join(filepath.Dir(path), filepath.Base(name))
		assert.NoError(t, os.WriteFile(name, data, 0o644))
	}
	assert.NoError(t, os.WriteFile(path, text, 0o644))
}

// inside runs a command in this process.
func (h *harness) inside(args []string) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.code, o.stderr = -2, fmt.Sprint("panic: ", p)
		}
	}()
	var stdout, stderr bytes.Buffer
	o.code = run(append([]string{"normbench"}, args...), strings.NewReader(""), &stdout, &stderr,
		families.New())
	o.stdout, o.stderr = stdout.String(), stderr.String()
	for _, a := range args {
		if path, _, _ := strings.Cut(strings.TrimPrefix(a, "tuned:"), "#"); strings.HasPrefix(path,
			h.dir) {
			o.stdout = strings.ReplaceAll(o.stdout, path, "FILE")
		}
	}
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

func (h *harness) damaged(f reader, r *rand.Rand) (v toll) {
	dir := h.folder()
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, filepath.Base(f.path))
	b := f.data
	for k := 1; bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(f.data)); k++ {
		b = damage(f.data, r)
		if k += r.IntN(3); k < 3 {
			b = damage(append(b, ' '), r)
		}
	}
	f.write(h.t, path, b)
	i := r.IntN(len(f.commands))
	args := f.command(i, path)
	at := 0 // of the first byte that differs
	for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
		at++
	}
	start := time.Now()
	got := h.inside(args)
	said := strings.Count(got.stderr, "normbench: error: ") == 1 &&
		strings.Count(got.stderr, "normbench: hint: ") == 1
	switch d := time.Since(start); {
	case got.code < 0:
		v.wrongf("%s: %s", args, got.stderr)
	case d > 20*time.Second:
		v.wrongf("%s: it took %s", args, d)
	case got.code == exitTrouble && !said:
		v.wrongf("%s: not one error and one hint: %s", args, got.stderr)
	case got.code == exitTrouble || !f.sealed:
	case got.code == f.want[i].code && got.stdout == f.want[i].stdout:
	case f.lines && strings.Contains(got.stderr, "dropped the last") ||
		strings.Contains(got.stderr, "left out"):
		// As it is without all from the first damaged line on.
		assert.NoError(h.t,
			os.WriteFile(path, f.data[:bytes.LastIndexByte(f.data[:at], '\n')+1], 0o644))
		if want := h.inside(args); got.code != want.code || got.stdout != want.stdout {
			v.wrongf("%s: %s%s, want %s", args, got.stdout, got.stderr, want.stdout)
		}
	default:
		v.wrongf("%s: %s%s, want %s; %q became %q", args, got.stdout, got.stderr,
			f.want[i].stdout, around(f.data, at), around(b, at))
	}
	return v
}

func around(b []byte, at int) []byte { return b[max(at-20, 0):min(at+30, len(b))] }

// prepareReaders makes one of each file that is read, and what the commands say of it.
func (h *harness) prepareReaders() {
	must := func(o outcome) {
		assert.Must(h.t, o.code == 0, "%s", o.stderr)
	}
	made := h.folder()
	in := func(name string) string { return filepath.Join(made, name) }
	read := func(path string) []byte {
		return assert.File(h.t, path)
	}
	records, search := filepath.Join(h.done[0], record.FileName), filepath.Join(h.done[1],
		record.FileName)
	pack := func(text []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(text)
		z.Close()
		return b.Bytes()
	}
	must(h.inside([]string{"compare", "base", "rms_fwd/cta_reg@br4.w2", "--shapes",
		"4096x1024,2048x1024",
		"--op", "rmsnorm", "--pass", "fwd", "--seed", "1", "--worker", "normbench-fake ab", "--out",
		in("live")}))
	live, _ := filepath.Glob(in("live/*/compare-*.json"))
	ofRecords := [][]string{{"report", "FILE"}, {"compare", "FILE#base", "FILE"}, {"tune", "FILE"},
		{"export", "FILE", "--format", "benchfmt"}}
	ofTable := [][]string{{"explain", "4096x1024", "--tuned", "FILE"}, {"lint", "FILE"},
		{"explain", "700x1024", "--tuned", "FILE"}}
	// A map of a GPU, as `explain` takes none of another cpu. lint has findings, so it prints what
	// the file says.
	ofMap := [][]string{{"explain", "2000x5000", "--tuned", "FILE"}, {"lint", "FILE"}}
	ofLive := [][]string{{"report", "FILE"}, {"report", "FILE", "FILE"}}
	ofKernels := [][]string{
		{"list", "configs", "--kernels", "FOLDER", "--family", "rms_warp", "--problem",
			"rmsnorm/fwd/4096x4096/bf16", "--device", "h200", "--plans"},
		{"verify", "--host-only", "--kernels", "FOLDER", "--device", "cpu", "--shapes", "8x64",
			"--op", "rmsnorm", "--pass", "fwd"},
	}
	mapped := func() []byte {
		_, text, _ := strings.Cut(string(read(filepath.Join("testdata", "script", "rule.txtar"))),
			"-- map.json --\n")
		text, _, ok := strings.Cut(text, "\n-- ")
		assert.Must(h.t, ok, "rule.txtar has no map.json")
		return durable.SealText([]byte(text))
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples", "kernels"))
	assert.NoError(h.t, err)
	manifest, source := filepath.Join(examples, "rms_warp.yaml"),
		filepath.Join(examples, "rms_warp.cu")
	shapes, err := filepath.Abs(filepath.Join("..", "..", "shapes.yaml"))
	assert.NoError(h.t, err)
	rounds := []byte("round,a,b,twin\n")
	for i := range 12 {
		rounds = fmt.Appendf(rounds, "%d,%g,%g,%g\n", i, 10+0.01*float64(i%3), 9.5+
			0.01*float64(i%4), 10+0.01*float64(i%5))
	}
	h.readers = []reader{
		{name: "records, a grid", share: 120, path: "records.jsonl", data: read(records),
			sealed: true, lines: true, commands: ofRecords},
		{name: "records, a search", share: 120, path: "records.jsonl", data: read(search),
			sealed: true, lines: true, commands: ofRecords},
		{name: "records, packed", share: 40, path: "records.jsonl.gz", data: pack(read(search)),
			sealed: true, commands: ofRecords},
		{name: "tuned.json", share: 60, path: "tuned.json",
			data: read(filepath.Join(h.done[1], tune.FileName)), sealed: true, commands: ofTable},
		{name: "map", share: 60, path: "tuned.json", data: mapped(), sealed: true, commands: ofMap},
		{name: "live compare, packed", share: 30, path: "live.json.gz", data: pack(read(live[0])),
			sealed: true, commands: ofLive},
		{name: "live compare", share: 60, path: "live.json", data: read(live[0]), sealed: true,
			commands: ofLive},
		{name: "shapes", share: 30, path: "shapes.yaml", data: read(shapes),
			commands: [][]string{{"list", "shapes", "--shapes", "FILE"}}},
		{name: "manifest", share: 30, path: filepath.Base(manifest), data: read(manifest),
			commands: ofKernels, beside: []string{source}},
		{name: "user's kernel", share: 10, path: filepath.Base(source), data: read(source),
			commands: ofKernels, beside: []string{manifest}},
		{name: "user's kernel with a BOM", share: 10, path: filepath.Base(source),
			data:     append([]byte("\xef\xbb\xbf"), read(source)...),
			commands: ofKernels, beside: []string{manifest}},
		{name: "rounds to judge", share: 20, path: "rounds.csv", data: rounds,
			commands: [][]string{{"judge", "FILE"}}},
	}
	for i := range h.readers {
		f := &h.readers[i]
		path := filepath.Join(h.folder(), f.path)
		f.write(h.t, path, f.data)
		for i := range f.commands {
			args := f.command(i, path)
			start := time.Now()
			o := h.inside(args)
			if d := time.Since(start); d > time.Second/2 {
				h.t.Logf("%s takes %s", args[0], d)
			}
			assert.Must(h.t, o.code != exitTrouble, "%s: %s", args, o.stderr)
			f.want = append(f.want, o)
		}
	}
}
