package record

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
	"unsafe"

	"normbench/internal/assert"
	"normbench/kernels"
)

// union writes the union of files.
func union(t testing.TB, paths ...string) string {
	t.Helper()
	u, err := OpenUnion(paths)
	assert.NoError(t, err)
	defer u.Close()
	var b bytes.Buffer
	assert.NoError(t, u.Write(&b))
	return b.String()
}

// saved writes a records file, and returns its path.
func saved(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	assert.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// Whatever files hold the appends of some runs, one or several times, packed or merged before, and in whatever
// order they are read: the union has the same bytes.
func TestUnionsOfAnyOrderAreTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	var appends []string // a run each, with records in appends of several
	for r := range 6 {
		run := testRun(fmt.Sprintf("run%d", r))
		run.Time = testTime.Add(-1 * testTime.Sub(testTime.AddDate(0, 0, r%3)))
		run.Device.UUID = fmt.Sprint("GPU-", r%2)
		text := lines(t, run)
		for i := 0; i < 12; i += 3 {
			text += appended(t, testRecord(run, i), wrongRecord(run, i+1), testRecord(run, i+2))
		}
		appends = append(appends, text)
	}
	all := saved(t, dir, "all.jsonl", strings.Join(appends, ""))
	want := union(t, all)
	assert.Equal(t, strings.Count(want, "\n"), 6*13)
	f, err := Load(saved(t, dir, "want.jsonl", want))
	assert.That(t, err == nil && f.Notes == nil && len(f.Runs) == 6, "%v, %q", err, f.Notes)
	for round := range 60 {
		sub := t.TempDir()
		parts := make([]string, 1+rng.IntN(5))
		for i, text := range append(slices.Clone(appends), appends[:rng.IntN(4)]...) {
			to := &parts[rng.IntN(len(parts))]
			if i < len(parts) {
				to = &parts[i]
			}
			*to += text
		}
		var paths []string
		for i, text := range parts {
			if rng.IntN(3) == 0 {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				z.Write([]byte(text)) //nolint:errcheck // into memory
				z.Close()
				text = b.String()
			}
			paths = append(paths, saved(t, sub, fmt.Sprint(i, ".jsonl"), text))
		}
		rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		if k := rng.IntN(len(paths) + 1); k > 0 && rng.IntN(2) == 0 { // some of them first
			some := saved(t, sub, "some.jsonl", union(t, paths[:k]...))
			paths = append(paths[k:], some)
			if rng.IntN(2) == 0 {
				paths = append(paths, some)
			}
		}
		assert.Equal(t, union(t, paths...), want, "round", round)
	}
}

// Lines without a checksum, with blanks or fields of later versions, are the same records, and keep the fields.
func TestUnionKeepsWhatLinesSay(t *testing.T) {
	dir, run := t.TempDir(), testRun("r1")
	text := lines(t, run, testRecord(run, 0))
	plain := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, `,"crc":`)
		plain += strings.Replace(line, `,"run":`, `, "run": `, 1) + "}\n"
	}
	want := union(t, saved(t, dir, "a", text))
	assert.Equal(t, want, text, "one file alone")
	assert.Equal(t, union(t, saved(t, dir, "b", plain), saved(t, dir, "c", text)), want)
	later := lines(t, run) + altered(lines(t, testRecord(run, 0)), `"seed":42`, `"seed":42,"later":{"a": [1, "x y"]}`)
	got := union(t, saved(t, dir, "d", later))
	assert.That(t, strings.Contains(got, `"later":{"a":[1,"x y"]}`), "%s", got)
}

// What does not belong together is refused, with the reason.
func TestUnionRefusesWhatIsMixed(t *testing.T) {
	dir := t.TempDir()
	base := func(id string, change func(*Run)) string {
		run := testRun(id)
		change(run)
		rec := testRecord(run, 0)
		return saved(t, dir, id, lines(t, run, rec))
	}
	ours := base("ours", func(*Run) {})
	for name, x := range map[string]struct {
		path, want string
	}{
		"device": {base("device", func(r *Run) { r.Device.ID = "nvidia-h100" }),
			"device has records of nvidia-h100 (sm_90, 132 SMs), and .*ours of nvidia-h200 (sm_90, 132 SMs)"},
		"samples": {base("samples", func(r *Run) { r.Protocol.Samples = 9 }), "are of two protocols: samples 30, and samples 9"},
		"search":  {base("search", func(r *Run) { r.Protocol.Phase = PhaseSearch }), "has a grid, and .* a search"},
	} {
		_, err := OpenUnion([]string{ours, x.path})
		text := assert.Refusal(t, err)
		for _, part := range strings.Split(x.want, ".*") {
			assert.That(t, strings.Contains(text, part), "%s: %s", name, text)
		}
	}
	run := testRun("other")
	rec := testRecord(run, 3)
	rec.Source = "fedcba"
	rec.Key = Key(rec.Problem, rec.Variant(), run.Device, rec.Source, run.Protocol, "")
	_, err := OpenUnion([]string{ours, saved(t, dir, "other", lines(t, run, rec))})
	assert.That(t, strings.Contains(assert.Refusal(t, err), "the kernels of rms_bwd/smem_pipe differ: 0123456789abcdef in "), "%v", err)
	launch := testRecord(run, 0)
	launch.Launch = "aaaa"
	launch.Key = Key(launch.Problem, launch.Variant(), run.Device, "0123456789abcdef/aaaa", run.Protocol, "")
	_, err = OpenUnion([]string{ours, saved(t, dir, "launch", lines(t, run, launch))})
	assert.That(t, strings.Contains(assert.Refusal(t, err), "0123456789abcdef/aaaa"), "%v", err)
	twin := testRun("ours")
	twin.Tool = "v2"
	_, err = OpenUnion([]string{ours, saved(t, dir, "twin", lines(t, twin, testRecord(twin, 1)))})
	assert.That(t, strings.HasPrefix(assert.Refusal(t, err), "run ours of "), "%v", err)
}

// Shards that are not there, and shards that ended early, are gaps.
func TestGapsAreWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	shardOf := func(index, problems, records int) string {
		run := testRun(fmt.Sprint("shard", index))
		run.Protocol.Phase = PhaseSearch
		run.Shard = &Shard{Index: index, Count: 4, Problems: problems, Variants: 9, All: 5, Plan: "p"}
		all := []Line{run}
		for i := range records {
			all = append(all, testRecord(run, 5*(index-1)+i))
		}
		return saved(t, dir, run.ID, lines(t, all...))
	}
	gaps := func(paths ...string) (list []string) {
		u, err := OpenUnion(paths)
		assert.NoError(t, err)
		defer u.Close()
		for _, g := range u.Gaps() {
			list = append(list, fmt.Sprintf("%s %d of %d", &g.Shard, g.Done, g.Of))
		}
		return list
	}
	a, b, c := shardOf(1, 2, 2), shardOf(2, 2, 2), shardOf(3, 1, 1)
	assert.Same(t, gaps(a, b, c), nil) // and the fourth has none of five
	assert.Same(t, gaps(c, a), []string{"2/4 0 of 0", "4/4 0 of 0"})
	b = shardOf(2, 2, 1)
	assert.Same(t, gaps(a, b, c), []string{"2/4 1 of 2"})
}

// 640,000 records, of 64 shards, leave room in 500 MB.
func TestUnionHasRoomForManyRecords(t *testing.T) {
	assert.That(t, unsafe.Sizeof(unionLine{}) <= 128, "%d bytes for a record", unsafe.Sizeof(unionLine{}))
}

// Whatever two files say, their union is refused, or the same in any order and again.
func FuzzUnion(f *testing.F) {
	run := testRun("r1")
	text := lines(f, run) + appended(f, testRecord(run, 0), wrongRecord(run, 1))
	other := testRun("r2")
	other.Shard = &Shard{Index: 1, Count: 2, Problems: 1, All: 2, Plan: "p"}
	f.Add(text, lines(f, other, testRecord(other, 2)))
	f.Add(text, lines(f, run)+altered(lines(f, testRecord(run, 0)), `"seed":42`, `"seed":42,"more":0`))
	f.Add(text, strings.ReplaceAll(text, ",", ", "))
	f.Add(text[:len(text)-40], text+text)
	f.Fuzz(func(t *testing.T, a, b string) {
		dir := t.TempDir()
		x, y := saved(t, dir, "a", a), saved(t, dir, "b", b)
		u, err := OpenUnion([]string{x, y})
		again, other := OpenUnion([]string{y, x, y})
		assert.Must(t, (err == nil) == (other == nil), "%v, and %v", err, other)
		if err != nil {
			assert.Refusal(t, err)
			return
		}
		defer u.Close()
		defer again.Close()
		u.Gaps()
		var one, two bytes.Buffer
		assert.NoError(t, u.Write(&one))
		assert.NoError(t, again.Write(&two))
		assert.Equal(t, one.String(), two.String())
		if u.Records() == 0 && len(u.Runs) == 0 {
			return
		}
		assert.Equal(t, union(t, saved(t, dir, "c", one.String())), one.String())
		n := 0
		assert.NoError(t, u.EachProblem(func(f *File) error {
			f.Contests()
			return nil
		}))
		for _, p := range u.Problems() {
			assert.That(t, p != kernels.Problem{}, "no problem")
			n++
		}
		assert.That(t, n <= u.Records(), "%d problems of %d records", n, u.Records())
	})
}
