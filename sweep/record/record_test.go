package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"normbench/internal/assert"
	"normbench/internal/durable"
	"normbench/kernels"
	"normbench/sweep/stats"
)

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func testRun(id string) *Run {
	return &Run{
		ID: id, Time: testTime, Tool: "v1.0.0", Command: []string{"normbench", "sweep", "--shapes",
			"te"},
		Device: kernels.DeviceInfo{ID: "nvidia-h200", Kind: kernels.KindCUDA, Name: "NVIDIA H200",
			UUID: "GPU-1", Arch: "sm_90",
			SMs: 132, Driver: "580.1", Compiler: "nvrtc 13.0", CacheBytes: 60 << 20,
			MemoryBytes: 141 << 30},
		Env:     map[string]string{"os": "linux/amd64", "host": "gpu1", "commit": "abc"},
		FloorUS: 2.62,
		Protocol: Protocol{Name: "cold", Samples: 30, Discard: 5, StageSamples: 10,
			Flush: 120 << 20, Cold: true},
	}
}

var testProblem = kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Bwd, M: 4096, N: 8192,
	DType: kernels.BF16, Weight: kernels.BF16}

// testRecord is a record like those of a sweep, different for every i.
func testRecord(run *Run, i int) *Record {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	p := testProblem
	p.M, p.N = int64(1024<<(i%5)), int64(1024<<(i/5%5))
	v := kernels.Variant{Family: "rms_bwd/smem_pipe", Config: kernels.NewConfig(
		kernels.Setting{Knob: kernels.BlockRows, Value: 1 << (i / 25 % 4)}, kernels.Setting{
			Knob: kernels.Warps, Value: 1 + i/100})}
	samples := func(n int, s float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = s * (1 + 0.01*r.ExpFloat64())
		}
		return Micros(x)
	}
	return &Record{
		Run: run.ID, Key: Key(p, v, run.Device, "0123456789abcdef", run.Protocol, ""),
		Time:    testTime.Add(time.Duration(i) * time.Millisecond),
		Problem: p, Family: v.Family, Config: v.Config, Base: i == 0, Status: kernels.StatusOK,
		Source: "0123456789abcdef",
		Seed:   42, Bytes: p.Bytes(), ScratchBytes: 4 * p.N * 264,
		Check: &kernels.Check{
			Outputs: []kernels.OutputCheck{
				{Name: "dx", Elems: p.M * p.N, MaxErr: digits(0.4375+r.Float64()/8, 3),
					RelL2: digits(0.0017+r.Float64()/1e4, 3)},
				{Name: "dw", Elems: p.N, MaxErr: digits(0.25+r.Float64()/8, 3),
					RelL2: digits(0.0016+r.Float64()/1e4, 3)},
			},
			Resources: []kernels.Resource{
				{Stage: "k1", Registers: 64, Shared: 32768, Occupancy: 6, Threads: 256, CTAs: 264},
				{Stage: "k2", Registers: 40, Shared: 4096, Occupancy: 8, Threads: 256, CTAs: 128},
			},
			Repeats: 3, Busy: 0.0123,
		},
		SamplesUS: samples(30, 64e-6),
		Stages:    []Stage{{"k1", samples(10, 58e-6)}, {"k2", samples(10, 5e-6)}},
		StreamUS:  52.25, WallMS: 81.5,
	}
}

func wrongRecord(run *Run, i int) *Record {
	r := testRecord(run, i)
	r.Status, r.Reason, r.SamplesUS, r.Stages = kernels.StatusWrong,
		`dx is wrong in 3 of 5 elements & "more"`, nil, nil
	r.Check.Outputs[0].Bad, r.Check.Outputs[0].Got, r.Check.Outputs[0].Want = 3, kernels.Number(
		math.NaN()), 1.5
	return r
}

// lines is the text of appends of one line each.
func lines(t testing.TB, vs ...Line) (text string) {
	t.Helper()
	for _, v := range vs {
		text += appended(t, v)
	}
	return text
}

// appended is the text of one append.
func appended(t testing.TB, vs ...Line) string {
	t.Helper()
	var b strings.Builder
	for i, v := range vs {
		line, err := encode(v, len(vs)-i-1, len(vs))
		assert.NoError(t, err)
		b.Write(line)
	}
	return b.String()
}

// altered is a line with old replaced and the checksum of what comes of it.
func altered(line, old, new string) string {
	body := line[:strings.LastIndex(line, `,"crc":"`)] + "}"
	return string(durable.Seal([]byte(strings.Replace(body, old, new, 1)))) + "\n"
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	assert.Write(t, path, text)
	return path
}

func readAll(path string) (recs []*Record, runs []*Run, notes Notes, err error) {
	notes, err = Read(path, func(r *Record, run *Run) error {
		recs, runs = append(recs, r), append(runs, run)
		return nil
	})
	return
}

// cmpOpts takes the config's label as its value, and one NaN as another.
var cmpOpts = cmp.Options{
	cmp.Comparer(func(a, b kernels.Config) bool { return a == b }),
	cmp.Comparer(func(a, b kernels.Number) bool { return a == b || a != a && b != b }),
}

// The golden is the file format: a change that is not an addition needs a new
// Schema.
func TestFormatStays(t *testing.T) {
	run := testRun("r1")
	got := lines(t, run, testRecord(run, 0), wrongRecord(run, 1))
	golden := filepath.Join("testdata", "v2.jsonl")
	assert.Golden(t, golden, got)
	recs, runs, notes, err := readAll(golden)
	assert.Must(t, err == nil && notes == nil, "%v %v", err, notes)
	assert.Same(t, recs, []*Record{testRecord(run, 0), wrongRecord(run, 1)}, cmpOpts)
	assert.Same(t, runs, []*Run{run, run})

	keyless := lines(t, run)
	for _, r := range recs {
		keyless += altered(lines(t, r), fmt.Sprintf(`"key":%q,`, r.Key), "")
	}
	made, _, _, err := readAll(writeFile(t, keyless))
	assert.NoError(t, err)
	assert.Same(t, made, recs, cmpOpts)
}

// What makes the key of a measurement another, and what does not: testdata/keys.txt, by what differs.
func TestKeyChangesWithTheMeasurement(t *testing.T) {
	seen := map[string]string{}
	assert.Lines(t, "testdata/keys.txt", func(changes string) string {
		run := testRun("r")
		x := struct {
			Problem  *kernels.Problem
			Variant  kernels.Variant
			Device   *kernels.DeviceInfo
			Source   string
			Protocol *Protocol
			BaseOf   string
		}{&kernels.Problem{}, kernels.Variant{Family: "f"}, &run.Device, "s", &run.Protocol, ""}
		*x.Problem = testProblem
		assert.NoError(t, json.Unmarshal([]byte(changes), &x), changes)
		key := Key(*x.Problem, x.Variant, *x.Device, x.Source, *x.Protocol, x.BaseOf)
		assert.That(t, isKey(key), "%q is no key", key)
		if of, ok := seen[key]; ok {
			return "that of " + of
		}
		seen[key] = changes
		return "another"
	})
}

// What is no record or no run is refused: testdata/invalid.txt, by what differs from a good one. Numbers
// that JSON has not are never written.
func TestWhatIsNoRecordIsRefused(t *testing.T) {
	assert.Lines(t, "testdata/invalid.txt", func(input string) string {
		what, changes, _ := strings.Cut(input, " ")
		line := map[string]Line{"run": testRun("r1"), "record": testRecord(testRun("r1"), 0)}[what]
		assert.NoError(t, line.CheckValid())
		assert.NoError(t, json.Unmarshal([]byte(changes), line))
		return assert.Refusal(t, line.CheckValid())
	})
	for want, edit := range map[string]func(*Record){
		"a stream time of NaN us":         func(r *Record) { r.StreamUS = math.NaN() },
		"a sample of NaN us":              func(r *Record) { r.SamplesUS[3] = math.NaN() },
		"a sample of +Inf us in stage k2": func(r *Record) { r.Stages[1].SamplesUS[0] = math.Inf(1) },
		"an error that is not finite in":  func(r *Record) { r.Check.Outputs[0].MaxErr = math.Inf(1) },
		"shape 0x1024 is out of range":    func(r *Record) { r.Problem.M = 0 },
	} {
		r := testRecord(testRun("r1"), 0)
		edit(r)
		assert.Refused(t, r.CheckValid(), want)
	}
}

// readTexts reads the texts of testdata/read.txt: what a shell writes in dir, which has the lines of a
// run, of two records and of three finals as run, rec, last and finals. A line that went through sealed
// has the checksum of what comes of it. A torn end is left out with a note, all else that is wrong is an
// error with its line.
func readTexts(t testing.TB, dir string) (texts []string) {
	run := testRun("r1")
	for name, text := range map[string]string{"run": lines(t, run), "rec": lines(t, testRecord(run, 0)),
		"last": lines(t, wrongRecord(run, 1)), "finals": appended(t, sinkLines(finals(run, 3))...)} {
		assert.Write(t, filepath.Join(dir, name), text)
	}
	assert.Lines(t, "testdata/read.txt", func(commands string) string {
		cmd := exec.Command("sh", "-ec", `sealed() { sed 's/"}$/?"}/'; }`+"\n"+commands)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		assert.NoError(t, err, commands)
		text := regexp.MustCompile(`.*\?"}\n`).ReplaceAllStringFunc(string(out),
			func(line string) string { return altered(line, "", "") })
		texts = append(texts, text)
		path := filepath.Join(dir, "F")
		assert.Write(t, path, text)
		recs, _, notes, err := readAll(path)
		_, loadErr := Load(path)
		assert.Equal(t, fmt.Sprint(loadErr), fmt.Sprint(err), commands)
		said := append(notes, fmt.Sprint(len(recs), " records"))
		if err != nil {
			said[len(notes)] = assert.Refusal(t, err)
		}
		return strings.ReplaceAll(strings.Join(said, "\n"), path, "F")
	})
	return texts
}

func TestReadDropsATornEndAndRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	readTexts(t, dir)
	run, rec := assert.File(t, filepath.Join(dir, "run")), assert.File(t, filepath.Join(dir, "rec"))

	for path, want := range map[string]string{
		filepath.Join(dir, "gone"): "records " + filepath.Join(dir, "gone") +
			": no such file or directory",
		dir: "folder " + dir + " has no records.jsonl",
	} {
		_, err := Load(path)
		assert.Equal(t, strings.Split(assert.Refusal(t, err), "\n")[0], want)
	}
	long := writeFile(t, string(run)+`{"schema":2,"kind":"`+strings.Repeat("x", maxLine)+"\n")
	_, err := Load(long)
	assert.Error(t, err, "line 2 is longer than 16 MiB")
	stop := errors.New("stop")
	path := writeFile(t, string(slices.Concat(run, rec, rec)))
	_, err = Read(path, func(*Record, *Run) error { return stop })
	assert.That(t, errors.Is(err, stop) && strings.HasPrefix(err.Error(), path+":2: "),
		"got %v", err)
}

func TestReadTakesGzipAndFolders(t *testing.T) {
	run := testRun("r1")
	var z bytes.Buffer
	zw := gzip.NewWriter(&z) // whose checksum is enough: thinned lines have none
	sum := regexp.MustCompile(`,"crc":"[0-9a-f]{8}"`)
	for i := range 2000 { // more than one chunk
		if i == 0 {
			fmt.Fprint(zw, sum.ReplaceAllString(lines(t, run), ""))
		}
		fmt.Fprint(zw, sum.ReplaceAllString(lines(t, testRecord(run, i)), ""))
	}
	zw.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName+".gz")
	assert.Write(t, path, z.String())
	for _, p := range []string{path, dir} {
		i := 0
		notes, err := Read(p, func(r *Record, rr *Run) error {
			want := testRecord(run, i)
			if r.Key != want.Key || !slices.Equal(r.SamplesUS, want.SamplesUS) || rr.ID != "r1" {
				return fmt.Errorf("record %d differs", i)
			}
			i++
			return nil
		})
		assert.That(t, err == nil && notes == nil && i == 2000, "%d records, %v, %v", i, notes, err)
	}
	for at := 10; at < z.Len(); at += z.Len() / 9 {
		flipped := bytes.Clone(z.Bytes())
		flipped[at] ^= 1
		for _, damaged := range [][]byte{flipped, flipped[:at]} {
			assert.Write(t, path, string(damaged))
			_, err := Load(path)
			assert.Error(t, err, path+":", at)
			_, _, err = OpenWriter(dir, ".")
			assert.Error(t, err, FileName+".gz: ", at)
		}
	}
	_, err := os.Stat(filepath.Join(dir, FileName))
	assert.That(t, err != nil, "a damaged gzip was unpacked in part")
	// A whole one is unpacked, to be appended to.
	assert.Write(t, path, z.String())
	w, notes, err := OpenWriter(dir, ".")
	assert.Must(t, err == nil && len(notes) == 1 && strings.HasPrefix(notes[0], "unpacked "),
		"writer on gzip: %v, %q", err, notes)
	defer w.Close()
	assert.Equal(t, len(w.records.last), 2000, "keys after unpacking")
	// A folder of results with one device in it stands for that device's.
	f, err := Load(filepath.Dir(dir))
	assert.That(t, err == nil && f.Path == filepath.Join(dir, FileName),
		"folder above: %v, %v", f, err)
}

// ignored is where an entry stands in its file.
var ignored = cmpopts.IgnoreUnexported(Outcome{})

// copies are what a file holds now.
func copies(es Outcomes) (all []Outcome) {
	for _, e := range es {
		if e != nil {
			all = append(all, *e)
		}
	}
	return all
}

// Of two records with one key the later counts, in its own place; testdata/load.txt has all that is
// kept, then the latest of each variant.
func TestLaterRecordOfAKeyCounts(t *testing.T) {
	r1, r2 := testRun("r1"), testRun("r2")
	again := testRecord(r2, 0)
	again.Run, again.SamplesUS = "r2", []float64{3, 1, 2}
	again.Check.Differing, again.SearchUS = 4, 1
	stale := testRecord(r1, 2)
	stale.Source, stale.Reason = "fedcba9876543210", ""
	stale.Key = Key(stale.Problem, stale.Variant(), r1.Device, stale.Source, r1.Protocol, "")
	vs := []Line{r1, testRecord(r1, 0), wrongRecord(r1, 1), stale, testRecord(r1, 2), r2}
	again.Key = testRecord(r1, 0).Key
	path := writeFile(t, lines(t, append(vs, again)...))
	f, err := Load(path)
	assert.NoError(t, err)
	assert.Same(t, f.Runs, []*Run{r1, r2})
	assert.Equal(t, f.Path, path)
	var got strings.Builder
	for _, list := range [][]Outcome{copies(f.outcomes), copies(f.LatestOutcomes())} {
		for _, e := range list {
			fmt.Fprintf(&got, "%s: %s of %s, %s %q, base %t, source %s, %d bytes, %.4g us of %d, stream %g, "+
				"%d differ, place %d\n", e.Run.ID, e.Variant, e.Problem, e.Status, e.Reason, e.Base, e.Source,
				e.Bytes, e.Median, len(e.SamplesUS), e.StreamUS, e.Differing, e.Finals().Place)
		}
		got.WriteString("\n")
	}
	assert.Golden(t, "testdata/load.txt", got.String())
}

// The last of a variant is what stands last, also under a key that was there before, and whatever
// the clock said; warm
// times do not take the place of cold ones, but of warm ones; and of a problem's bases the last is
// one.
func TestLatestIsWhatStandsLast(t *testing.T) {
	cold := testRun("cold")
	short, warm := *cold, *cold
	short.Protocol.Samples--
	warm.Protocol.Cold = false
	short.Time, warm.Time = cold.Time.Add(time.Hour), cold.Time.Add(2*time.Hour)
	p := testRecord(cold, 0).Problem
	entry := func(run *Run, family string, us float64, base bool) *Outcome {
		return &Outcome{Run: run, Problem: p, Variant: kernels.Variant{Family: family}, Base: base,
			Summary: stats.Summary{Median: us}}
	}
	f := &File{outcomes: []*Outcome{
		entry(&warm, "a", 1, true), entry(&short, "a", 20, true), entry(cold, "a", 30,
			true), entry(&warm, "a", 2, true),
		entry(&warm, "b", 3, false), entry(cold, "c", 40, true), entry(&warm, "b", 4, false),
	}}
	var got []string
	for _, e := range f.LatestOutcomes() {
		got = append(got, fmt.Sprint(e.Variant.Family, " ", e.Median, " ", e.Base))
	}
	assert.Same(t, got, []string{"a 30 false", "b 4 false", "c 40 true"})
	for _, e := range f.LatestOutcomes(func(e *Outcome) bool { return !e.Run.Protocol.Cold }) {
		assert.That(t, !e.Run.Protocol.Cold, "%s is cold", e.Variant)
	}
}

// What a device, a host or a peer says of itself is one line that can be printed, whoever reads it.
func TestReadTextsCanBePrinted(t *testing.T) {
	run := testRun("r1")
	const evil = "H200\nBenchmarkX 1 1 ns/op\x1b[2J\a\u202e"
	run.Device.Name, run.Tool, run.Env = evil, evil, map[string]string{"host": evil, evil: "v"}
	rec := testRecord(run, 0)
	rec.Status, rec.Reason, rec.SamplesUS, rec.Stages = kernels.StatusLaunch, evil, nil, nil
	rec.Family = "my/" + evil
	rec.Key = Key(rec.Problem, rec.Variant(), run.Device, rec.Source, run.Protocol, "")
	recs, runs, _, err := readAll(writeFile(t, lines(t, run, rec)))
	assert.Must(t, err == nil && len(recs) == 1, "%v %v", len(recs), err)
	texts := []string{recs[0].Reason, recs[0].Family}
	for _, r := range runs {
		texts = append(texts, r.Device.Name, r.Tool)
		for k, v := range r.Env {
			texts = append(texts, k, v)
		}
	}
	assert.Equal(t, len(texts), 8, texts)
	for _, text := range texts {
		assert.That(t, !strings.ContainsAny(text, "\n\x1b\a\u202e") && text != "", "%q", text)
	}
}

// A crash or a timeout without evidence, as records of before have it, is measured again.
func TestCrashWithoutEvidenceIsMeasuredAgain(t *testing.T) {
	run := testRun("r1")
	for reason, counts := range map[string]bool{"the worker ended": false, "the worker ended" +
		Evidence + "4 of 4 times)": true} {
		for _, status := range []kernels.Status{kernels.StatusCrash, kernels.StatusTimeout} {
			rec := testRecord(run, 0)
			rec.Status, rec.Reason, rec.SamplesUS, rec.Stages = status, reason, nil, nil
			f, err := Load(writeFile(t, lines(t, run, rec)))
			assert.NoError(t, err)
			_, ok := f.Status(rec.Key)
			assert.Equal(t, ok, counts, status, reason)
		}
	}
}
