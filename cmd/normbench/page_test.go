package main

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"normbench/kernels/families"
)

// browser is a headless browser, or skips the test. Where $NORMBENCH_REQUIRE_BROWSER says that there
// is one, as in CI, it fails.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("NORMBENCH_REQUIRE_BROWSER") != "" {
		t.Fatal("no chromium, and $NORMBENCH_REQUIRE_BROWSER is set")
	}
	t.Skip("no chromium: the pages are not opened")
	return ""
}

// open opens a page and returns what the browser logs and prints.
func open(t *testing.T, browser, page string, args ...string) (log, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
		"--enable-logging=stderr", "--user-data-dir=" + t.TempDir()}, append(args, "file://"+page)...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	return stderr.String(), stdout.String()
}

// Pages of recordings say their verdict first, and a browser shows them without an error. Their
// policy forbids every request, so a request would be such an error.
func TestPagesInBrowser(t *testing.T) {
	dir := t.TempDir()
	for name, page := range map[string]struct {
		args    []string
		chart   string // what stands between the verdict and the tables
		wants   []string
		numbers string // heading of a column that sorts as numbers
	}{
		"live.html":  {[]string{"report", "../../results/nvidia-h200/peers/qk-norm-rmsnorm-bwd.json.gz"}, "<svg", []string{"<dt>clocks</dt>", "<dt>date</dt><dd>2026-11-23"}, "B us"},
		"rules.html": {[]string{"tune", "../../results/nvidia-h200/learn", "--prior", "../../results/nvidia-h200/zones.json"}, `<svg class="map"`, []string{"regret on 288 problems drawn at random", "rules in 4 classes", "<dt>date</dt><dd>2026-11-24"}, "geomean"},
	} {
		var out, errs bytes.Buffer
		file := filepath.Join(dir, name)
		if code := run(append(append([]string{"normbench"}, page.args...), "--html", file), strings.NewReader(""), &out, &errs, families.New()); code != 0 {
			t.Fatalf("%v: %d, %s", page.args, code, errs.String())
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		verdict, chart, table := strings.Index(text, `class="tally"`), strings.Index(text, page.chart), strings.Index(text, "<table")
		if !(0 < verdict && verdict < chart && chart < table) {
			t.Errorf("%s: verdict at %d, chart at %d, table at %d", name, verdict, chart, table)
		}
		for _, want := range append(page.wants, "Content-Security-Policy", "prefers-color-scheme: dark", "@media print", "<dt>device</dt><dd>NVIDIA H200", "<dt>driver</dt>", "<dt>protocol</dt>", "<dt>normbench</dt>") {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s", name, want)
			}
		}
		chromium := browser(t)
		for _, width := range []string{"400", "1400"} {
			shot := filepath.Join(dir, "shot"+width+".png")
			log, _ := open(t, chromium, file, "--window-size="+width+",1200", "--screenshot="+shot)
			if found := regexp.MustCompile(`.*CONSOLE.*`).FindString(log); found != "" {
				t.Errorf("%s at %s px: %s", name, width, found)
			}
			colours(t, shot)
		}
		// What a click on a heading and a word in the filter do, and how wide the page is on a phone.
		probe := filepath.Join(dir, "probe.html")
		script := `<script>const h = [...document.querySelectorAll("th")].find(h => h.textContent === "COLUMN"); h.click();
const rows = () => [...h.closest("tbody, table").tBodies[0].rows], us = rows().map(r => parseFloat(r.cells[h.cellIndex].textContent));
const before = h.closest("table").parentElement.previousElementSibling, f = before.matches("input.filter") ? before : null; if (f) { f.value = "no such row"; f.dispatchEvent(new Event("input")) }
document.title = JSON.stringify({sorted: us.every((x, i) => i === 0 || us[i-1] <= x), filtered: !f || rows().every(r => r.hidden), wide: document.documentElement.scrollWidth - innerWidth});</script>`
		if err := os.WriteFile(probe, []byte(strings.Replace(text, "</html>", strings.Replace(script, "COLUMN", page.numbers, 1)+"</html>", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		_, dom := open(t, chromium, probe, "--window-size=500,1200", "--dump-dom")
		if title := regexp.MustCompile(`<title>[^<]*`).FindString(dom); !strings.Contains(title, `"sorted":true,"filtered":true,"wide":0`) {
			t.Errorf("%s: %s", name, title)
		}
	}
}

// colours fails a blank picture.
func colours(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			seen[img.At(x, y)] = true
		}
	}
	if len(seen) < 10 {
		t.Errorf("%s has %d colours", file, len(seen))
	}
}
