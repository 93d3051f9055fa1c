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
	sealed   bool // it has a checksum: no other content may pass for its own
	lines    bool // its end may be torn off
	commands func(path string) [][]string
	want     []outcome
}

type outcome struct {
	code           int
	stdout, stderr string
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
	for k := 1; ; k++ {
		b := damage(f.data, r)
		if k += r.IntN(3); k < 3 {
			b = damage(append(b, ' '), r)
		}
		if bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(f.data)) {
			continue
		}
		assert.NoError(h.t, os.WriteFile(path, b, 0o644))
		break
	}
	b, _ := os.ReadFile(path)
	commands := f.commands(path)
	i := r.IntN(len(commands))
	start := time.Now()
	got := h.inside(commands[i])
	said := strings.Count(got.stderr, "normbench: error: ") == 1 &&
		strings.Count(got.stderr, "normbench: hint: ") == 1
	switch d := time.Since(start); {
	case got.code < 0:
		v.wrongf("%s: %s", commands[i], got.stderr)
	case d > 20*time.Second:
		v.wrongf("%s: it took %s", commands[i], d)
	case got.code == exitTrouble && !said:
		v.wrongf("%s: not one error and one hint: %s", commands[i], got.stderr)
	case got.code == exitTrouble || !f.sealed:
	case got.code == f.want[i].code && got.stdout == f.want[i].stdout:
	case f.lines && strings.Contains(got.stderr, "dropped the last") ||
		strings.Contains(got.stderr, "left out"):
		// As it is without all from the first damaged line on.
		at := 0
		for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
			at++
		}
		assert.NoError(h.t,
			os.WriteFile(path, f.data[:bytes.LastIndexByte(f.data[:at], '\n')+1], 0o644))
		if want := h.inside(commands[i]); got.code != want.code || got.stdout != want.stdout {
			v.wrongf("%s: %s%s, want %s", commands[i], got.stdout, got.stderr, want.stdout)
		}
	default:
		at := 0
		for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
			at++
		}
		v.wrongf("%s: %s%s, want %s; %q became %q", commands[i], got.stdout, got.stderr,
			f.want[i].stdout,
			around(f.data, at), around(b, at))
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
		b, err := os.ReadFile(path)
		assert.NoError(h.t, err)
		return b
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
	ofRecords := func(path string) [][]string {
		return [][]string{{"report", path}, {"compare", path + "#base", path}, {"tune", path},
			{"export", path, "--format", "benchfmt"}}
	}
	ofTable := func(path string) [][]string {
		return [][]string{{"explain", "4096x1024", "--tuned", path}, {"lint", path},
			{"explain", "700x1024", "--tuned", path}}
	}
	// A map of a GPU, as `explain` takes none of another cpu. lint has findings, so it prints what
	// the file says.
	ofMap := func(path string) [][]string {
		return [][]string{{"explain", "2000x5000", "--tuned", path}, {"lint", path}}
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
	manifest, source := filepath.Join(examples, "rms_warp.yaml"), filepath.Join(examples,
		"rms_warp.cu")
	ofKernels := func(path string) [][]string {
		for _, name := range []string{manifest, source} {
			if filepath.Base(name) != filepath.Base(path) {
				err := os.WriteFile(filepath.Join(filepath.Dir(path), filepath.Base(name)),
					read(name), 0o644)
				assert.That(h.t, err == nil, "%v", err)
			}
		}
		return [][]string{
			{"list", "configs", "--kernels", filepath.Dir(path), "--family", "rms_warp",
				"--problem",
				"rmsnorm/fwd/4096x4096/bf16", "--device", "h200", "--plans"},
			{"verify", "--host-only", "--kernels", filepath.Dir(path), "--device", "cpu",
				"--shapes",
				"8x64", "--op", "rmsnorm", "--pass", "fwd"},
		}
	}
	shapes, err := filepath.Abs(filepath.Join("..", "..", "shapes.yaml"))
	assert.NoError(h.t, err)
	rounds := []byte("round,a,b,twin\n")
	for i := range 12 {
		rounds = fmt.Appendf(rounds, "%d,%g,%g,%g\n", i, 10+0.01*float64(i%3), 9.5+
			0.01*float64(i%4),
			10+0.01*float64(i%5))
	}
	h.readers = []reader{
		{name: "records, a grid", share: 120, path: "records.jsonl", data: read(records),
			sealed: true,
			lines:  true, commands: ofRecords},
		{name: "records, a search", share: 120, path: "records.jsonl", data: read(search),
			sealed: true,
			lines:  true, commands: ofRecords},
		{name: "records, packed", share: 40, path: "records.jsonl.gz", data: pack(read(search)),
			sealed: true, commands: ofRecords},
		{name: "tuned.json", share: 60, path: "tuned.json",
			data: read(filepath.Join(h.done[1], tune.FileName)), sealed: true, commands: ofTable},
		{name: "map", share: 60, path: "tuned.json", data: mapped(), sealed: true, commands: ofMap},
		{name: "live compare, packed", share: 30, path: "live.json.gz", data: pack(read(live[0])),
			sealed: true, commands: func(path string) [][]string {
				return [][]string{{"report", path}, {"compare", path + "#A", path + "#B"}}
			}},
		{name: "live compare", share: 60, path: "live.json", data: read(live[0]), sealed: true,
			commands: func(path string) [][]string {
				return [][]string{{"report", path}, {"compare", path + "#A", path + "#B"}}
			}},
		{name: "shapes", share: 30, path: "shapes.yaml", data: read(shapes),
			commands: func(path string) [][]string {
				return [][]string{{"list", "shapes", "--shapes",
					path}}
			}},
		{name: "manifest", share: 30, path: filepath.Base(manifest), data: read(manifest),
			commands: ofKernels},
		{name: "user's kernel", share: 10, path: filepath.Base(source), data: read(source),
			commands: ofKernels},
		{name: "user's kernel with a BOM", share: 10, path: filepath.Base(source),
			data: append([]byte("\xef\xbb\xbf"), read(source)...), commands: ofKernels},
		{name: "rounds to judge", share: 20, path: "rounds.csv", data: rounds,
			commands: func(path string) [][]string { return [][]string{{"judge", path}} }},
	}
	for i := range h.readers {
		f := &h.readers[i]
		path := filepath.Join(h.folder(), f.path)
		assert.NoError(h.t, os.WriteFile(path, f.data, 0o644))
		for _, args := range f.commands(path) {
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
