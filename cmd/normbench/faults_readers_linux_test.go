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
	"normbench/sweep/record"
	"normbench/tune"
)

// A readCase is a file that the program reads, with commands whose output is a function of it.
type readCase struct {
	name     string
	share    int
	file     string
	data     []byte
	sealed   bool   // it has a checksum: no other content may pass for its own
	lines    bool   // its end may be torn off
	commands string // in lines; FILE is the file, FOLDER its folder
	want     []commandOutcome
}

type commandOutcome struct {
	code           int
	stdout, stderr string
}

// userKernel is a kernel of a user, which lies beside every reader's file.
var userKernel = []string{"../../examples/kernels/rms_warp.yaml", "../../examples/kernels/rms_warp.cu"}

// run writes the file with some text, and runs the i-th command on it in this process.
func (f *readCase) run(h *harness, dir string, text []byte, i int) (o commandOutcome) {
	path := filepath.Join(dir, f.file)
	for _, name := range userKernel {
		assert.NoError(h.t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), assert.File(h.t, name), 0o644))
	}
	assert.NoError(h.t, os.WriteFile(path, text, 0o644))
	defer func() {
		if p := recover(); p != nil {
			o.code, o.stderr = -2, fmt.Sprint("panic: ", p)
		}
	}()
	o.code, o.stdout, o.stderr = normbench(strings.Fields(strings.NewReplacer("FILE", path, "FOLDER",
		dir).Replace(strings.Split(f.commands, "\n")[i])))
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
func (x *faultTrial) damage(f *readCase) {
	b := f.data
	for k := 1; bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(f.data)); k++ {
		b = damage(f.data, x.r)
		if k += x.r.IntN(3); k < 3 {
			b = damage(append(b, ' '), x.r)
		}
	}
	i := x.r.IntN(len(f.want))
	at := 0 // of the first byte that differs
	for at < min(len(b), len(f.data)) && b[at] == f.data[at] {
		at++
	}
	around := func(b []byte) []byte { return b[max(at-20, 0):min(at+30, len(b))] }
	x.what = fmt.Sprintf("command %d of %s: %q became %q", i, f.name, around(f.data), around(b))
	start := time.Now()
	got := f.run(x.harness, x.dir, b, i)
	switch d := time.Since(start); {
	case got.code < 0:
		x.wrongf("%s", got.stderr)
	case d > 20*time.Second:
		x.wrongf("it took %s", d)
	case got.code == exitTrouble && !refusal.MatchString(got.stderr):
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
func (h *harness) prepareReaders() (readers []*readCase) {
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
	_, text, _ := strings.Cut(string(read("testdata", "script", "map_show.txtar")), "-- map.json --\n")
	text, _, ok := strings.Cut(text, "\n-- ")
	assert.Must(t, ok, "map_show.txtar has no map.json")
	rounds := []byte("round,a,b,twin\n")
	for i := range 12 {
		rounds = fmt.Appendf(rounds, "%d,%g,%g,%g\n", i, 10+0.01*float64(i%3), 9.5+
			0.01*float64(i%4), 10+0.01*float64(i%5))
	}
	grid, search := read(h.jobs[0].done, record.FileName), read(h.jobs[1].done, record.FileName)
	const ofRecords = "report FILE\ncompare FILE#base FILE\nmap fill FILE\nexport FILE --format benchfmt"
	const ofTable = "explain 4096x1024 --tuned FILE\nlint FILE\nexplain 700x1024 --tuned FILE"
	// A map of a GPU, as `explain` takes none of another cpu. lint has findings, so it prints what
	// the file says.
	const ofMap = "explain 2000x5000 --tuned FILE\nlint FILE"
	const ofKernels = "list configs --kernels FOLDER --family rms_warp --problem " +
		"rmsnorm/fwd/4096x4096/bf16 --device h200 --plans\n" +
		"verify --host-only --kernels FOLDER --device cpu --shapes 8x64 --op rmsnorm --pass fwd"
	marked := append([]byte("\xef\xbb\xbf"), read(userKernel[1])...)
	readers = []*readCase{
		{"records, a grid", 120, "records.jsonl", grid, true, true, ofRecords, nil},
		{"records, a search", 120, "records.jsonl", search, true, true, ofRecords, nil},
		{"records, packed", 40, "records.jsonl.gz", pack(search), true, false, ofRecords, nil},
		{"tuned.json", 60, "tuned.json", read(h.jobs[1].done, tune.FileName), false, false, ofTable, nil},
		{"map", 60, "tuned.json", []byte(text), false, false, ofMap, nil},
		{"live compare, packed", 30, "live.json.gz", pack(live), true, false, "report FILE", nil},
		{"live compare", 60, "live.json", live, true, false, "report FILE", nil},
		{"shapes", 30, "shapes.yaml", read("../../shapes.yaml"), false, false,
			"list shapes --shapes FILE", nil},
		{"manifest", 30, "rms_warp.yaml", read(userKernel[0]), false, false, ofKernels, nil},
		{"user's kernel", 10, "rms_warp.cu", read(userKernel[1]), false, false, ofKernels, nil},
		{"user's kernel with a BOM", 10, "rms_warp.cu", marked, false, false, ofKernels, nil},
		{"rounds to judge", 20, "rounds.csv", rounds, false, false, "judge FILE", nil},
	}
	for _, f := range readers {
		for i, command := range strings.Split(f.commands, "\n") {
			o := f.run(h, t.TempDir(), f.data, i)
			assert.Must(t, o.code != exitTrouble, "%s: %s", command, o.stderr)
			f.want = append(f.want, o)
		}
	}
	return readers
}
