package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/sweep/record"
)

// loadWith loads testdata/records.jsonl with a text in place of another: one problem of a grid, with
// failures, and a search of another with finals.
func loadWith(t *testing.T, old, now string) ([]*record.ProblemRecords, error) {
	t.Helper()
	text := string(assert.File(t, "testdata/records.jsonl"))
	assert.Must(t, strings.Contains(text, old), "no %s", old)
	dir := t.TempDir()
	assert.NoError(t, os.WriteFile(filepath.Join(dir, record.FileName),
		[]byte(strings.Replace(text, old, now, 1)), 0o644))
	ps, _, err := record.ReadProblems(dir)
	return ps, err
}

func load(t *testing.T) []*record.ProblemRecords {
	t.Helper()
	ps, err := loadWith(t, "", "")
	assert.NoError(t, err)
	assert.Must(t, len(ps) == 2 && len(ps[0].Records) == 5 && len(ps[1].Records) == 2 &&
		len(ps[1].Records[0].SamplesUS) == 4, "%+v", ps)
	return ps
}

// What kernel_tuner's reader looks at, and what it has beside that: a file for each problem.
func TestKernelTunerReadsAFileOfEachProblem(t *testing.T) {
	out := t.TempDir()
	n, err := WriteFiles(out, load(t))
	files, _ := filepath.Glob(filepath.Join(out, "*", "gpu.json"))
	assert.Must(t, err == nil && n == 2 && len(files) == 2, "%v %v, %q", n, err, files)
	for _, file := range files {
		golden := filepath.Join("testdata", filepath.Base(filepath.Dir(file))+".json")
		assert.Golden(t, golden, string(assert.File(t, file)))
	}
}

func TestBenchfmtStays(t *testing.T) {
	var b strings.Builder
	assert.NoError(t, WriteBenchfmt(&b, load(t)))
	assert.Golden(t, "testdata/benchfmt.txt", b.String())
}

func TestMixedRecordsAreRefused(t *testing.T) {
	for want, edit := range map[string][2]string{
		"records of other among those of gpu": {
			`"run":"s","time":"2001-09-09T01:46:40Z","tool":"v1","command":null,"device":{"id":"gpu"`,
			`"run":"s","time":"2001-09-09T01:46:40Z","tool":"v1","command":null,"device":{"id":"other"`},
		"records of two versions of rms_fwd/two_pass, abc and new": {
			`"w16.k2","status":"wrong","reason":"as asked","source":"abc"`,
			`"w16.k2","status":"wrong","reason":"as asked","source":"new"`},
	} {
		_, err := loadWith(t, edit[0], edit[1])
		assert.That(t, err != nil && strings.HasSuffix(err.Error(), want) && hint.Of(err) != "",
			"got %v, want %s", err, want)
	}
}
