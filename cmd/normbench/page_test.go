package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// chromium is a headless browser. Without one the test is skipped, as in all runs but `make
// test-all`; where $NORMBENCH_REQUIRE_BROWSER says that there is one, as in make nightly, it fails.
func chromium(t *testing.T) string {
	t.Helper()
	if !assert.All {
		t.Skip("make test-all runs it")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	assert.Needs(t, "BROWSER", errors.New("no chromium: the pages are not opened"))
	return ""
}

var (
	// watching stands before all else that a page runs. What the page asks for beside itself its
	// own policy forbids, and says so.
	//go:embed testdata/watching.html
	watching string
	// telling stands at the end of a page. It clicks a heading, and types words into the filter.
	//go:embed testdata/telling.html
	telling string
	// frames shows a page as a phone and as a screen do, and keeps what it tells.
	//go:embed testdata/frames.html
	frames string
)

// A showing is what a page tells of itself at a width.
type showing struct {
	Wrong                 []string
	Wide, Width           int // pixels beyond the window, and the window's
	Light, Filters, Sorts bool
}

// show opens a page in a browser at two widths.
func show(t *testing.T, browser, page, scheme string) (all []showing) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"frames.html": frames, "watched.html": page} {
		assert.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run",
		"--disable-background-networking", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--virtual-time-budget=5000", "--dump-dom", "file://" + filepath.Join(dir, "frames.html")}
	if scheme == "dark" {
		args = append([]string{"--force-dark-mode"}, args...)
	}
	out, err := exec.CommandContext(t.Context(), browser, args...).Output()
	assert.NoError(t, err)
	_, rest, _ := strings.Cut(string(out), "<output>")
	text, _, _ := strings.Cut(rest, "</output>")
	err = json.Unmarshal([]byte(html.UnescapeString(text)), &all)
	assert.Must(t, err == nil && len(all) == 2, "%d showings, %v: %s", len(all), err, out)
	// the order is the browser's
	slices.SortFunc(all, func(a, b showing) int { return a.Width - b.Width })
	return all
}

// Pages say their verdict first, and a browser shows them without an error or a request, light and
// dark, on a phone and on a screen.
func TestBrowserShowsPagesWithoutErrors(t *testing.T) {
	browser, dir := chromium(t), t.TempDir()
	for _, page := range []struct {
		args    string
		wants   []string
		numbers string // heading of a column that sorts as numbers
		filter  string // that leaves some rows of its table, and not all
	}{
		{"report ../../results/nvidia-h100-80gb-hbm3/peers/qk-norm-bwd.json.gz",
			[]string{"<dt>date</dt><dd>2026-11-26", "<dt>device</dt><dd>NVIDIA H100", "<dt>driver</dt>",
				"</b>slower<"}, "B us", "262144x64"},
		{"compare ../../results/nvidia-h200#base ../../results/nvidia-h200 --shapes fast-llm " +
			"--op rmsnorm --pass bwd",
			[]string{"<dt>device</dt><dd>NVIDIA H200", "</b>inconclusive<"}, "A us", "8192x2048"},
		{"sweep --device cpu --shapes 8x64,32x128,64x64 --op rmsnorm --pass fwd --budget 12configs --out " +
			filepath.Join(dir, "sweep"), []string{"</b>slower<"}, "A us", ""},
		{"map fill ../../results/nvidia-h200/learn", []string{"</b>cells with an answer"}, "problems", ""},
	} {
		file := filepath.Join(dir, "page.html")
		code, _, errs := normbench(append(strings.Fields(page.args), "--html", file))
		assert.Must(t, code == 0, "%s: %d, %s", page.args, code, errs)
		text := string(assert.File(t, file))
		verdict, chart, table := strings.Index(text, `class="tally"`), strings.Index(text, "<svg"),
			strings.Index(text, "<table")
		assert.That(t, 0 < verdict && verdict < chart && chart <= table,
			"%s: verdict at %d, chart at %d, table at %d", page.args, verdict, chart, table)
		policy := `content="default-src 'none'; style-src 'unsafe-inline'; ` +
			`script-src 'unsafe-inline'; img-src data:">`
		for _, want := range append(page.wants, policy, "@media print", "<dt>device</dt>",
			"<dt>protocol</dt>", "<dt>normbench</dt>", "<dt>date</dt>") {
			assert.That(t, strings.Contains(text, want), "%s has no %s", page.args, want)
		}
		tells := strings.NewReplacer("COLUMN", page.numbers, "FILTER", page.filter).Replace(telling)
		watched := strings.Replace(text, policy, policy+watching, 1) + tells
		for _, scheme := range []string{"light", "dark"} {
			for i, got := range show(t, browser, watched, scheme) {
				assert.Same(t, got, showing{Wrong: []string{}, Width: []int{400, 1400}[i],
					Light: scheme == "light", Filters: true, Sorts: true}, page.args, scheme)
			}
		}
	}
}
