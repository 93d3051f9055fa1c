package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A browser is a headless browser that is told what to do through a pipe, by its DevTools protocol.
type browser struct {
	t       *testing.T
	in      *os.File
	out     *bufio.Reader
	session string
	id      int
	events  []event // since the page was opened
}

// An event is what a browser says: an answer has an ID, anything else a method.
type event struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// newBrowser starts one, or skips the test, as runs but those of make test-all do. Where
// $NORMBENCH_REQUIRE_BROWSER says that there is one, as make nightly does, it fails.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	if !testAll {
		t.Skip("make test-all runs it")
	}
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" && os.Getenv("NORMBENCH_REQUIRE_BROWSER") != "" {
		t.Fatal("no chromium, and $NORMBENCH_REQUIRE_BROWSER is set")
	} else if path == "" {
		t.Skip("no chromium: the pages are not opened")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "browser") // not t.TempDir: a browser still writes when it is killed
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+dir)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	stop := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		stop.Stop()
		cmd.Process.Kill()
		cmd.Wait()
		in.Close()
		out.Close()
		os.RemoveAll(dir)
	})
	var target struct{ TargetID, SessionID string }
	b.call(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	b.call(&target, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = target.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(nil, domain+".enable", nil)
	}
	return b
}

// next reads one message.
func (b *browser) next() event {
	b.t.Helper()
	data, err := b.out.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser is gone: %v", err)
	}
	var e event
	if err := json.Unmarshal(data[:len(data)-1], &e); err != nil {
		b.t.Fatal(err)
	}
	b.events = append(b.events, e)
	return e
}

// call has the browser do something, and reads what comes of it.
func (b *browser) call(result any, method string, params map[string]any) {
	b.t.Helper()
	b.id++
	message := map[string]any{"id": b.id, "method": method, "params": params}
	if params == nil {
		message["params"] = map[string]any{}
	}
	if b.session != "" {
		message["sessionId"] = b.session
	}
	data, err := json.Marshal(message)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(data, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		switch e := b.next(); {
		case e.ID != b.id:
		case e.Error != nil:
			b.t.Fatalf("%s: %s", method, e.Error)
		case result != nil:
			if err := json.Unmarshal(e.Result, result); err != nil {
				b.t.Fatal(err)
			}
			return
		default:
			return
		}
	}
}

// open opens a file and returns what the browser complains of, and what it asks for beside the
// file.
func (b *browser) open(file string) (wrong []string) {
	b.t.Helper()
	b.events = nil
	b.call(nil, "Page.navigate", map[string]any{"url": "file://" + file})
	for !hasEvent(b.events, "Page.loadEventFired") {
		b.next()
	}
	b.eval("1") // what the load had to say comes before its answer
	for _, e := range b.events {
		switch e.Method {
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			json.Unmarshal(e.Params, &r)
			if r.Request.URL != "file://"+file && !strings.HasPrefix(r.Request.URL, "data:") {
				wrong = append(wrong, "asks for "+r.Request.URL)
			}
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			wrong = append(wrong, fmt.Sprintf("%s: %s", e.Method, e.Params))
		}
	}
	return wrong
}

func hasEvent(events []event, method string) bool {
	for _, e := range events {
		if e.Method == method {
			return true
		}
	}
	return false
}

// eval is a value of the page's, as JSON.
func (b *browser) eval(script string) string {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call(&r, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true})
	if r.ExceptionDetails != nil {
		b.t.Errorf("%s: %s", script, r.ExceptionDetails)
	}
	return string(r.Result.Value)
}

// look sets the size of the window and its scheme.
func (b *browser) look(width int, scheme string) {
	b.t.Helper()
	b.call(nil, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 1200,
		"deviceScaleFactor": 1, "mobile": false})
	b.call(nil, "Emulation.setEmulatedMedia",
		map[string]any{"media": "screen",
			"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// seen is how light the page is, of 1. Its picture goes to $NORMBENCH_SHOTS, to look at.
func (b *browser) seen(keep string) (light float64) {
	b.t.Helper()
	if dir := os.Getenv("NORMBENCH_SHOTS"); dir != "" {
		var shot struct{ Data []byte }
		b.call(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
		if err := os.WriteFile(filepath.Join(dir, keep+".png"), shot.Data, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	var red, green, blue float64
	background := b.eval("getComputedStyle(document.body).backgroundColor")
	if _, err := fmt.Sscanf(background, `"rgb(%g, %g, %g)"`, &red, &green, &blue); err != nil {
		b.t.Errorf("%s: %v", background, err)
	}
	return (red + green + blue) / (3 * 255)
}

// Pages say their verdict first, and a browser shows them without an error or a request, light and
// dark, on a phone and on a screen.
func TestPagesInBrowser(t *testing.T) {
	dir := t.TempDir()
	made := func(args ...string) (int, string) {
		code, _, errs := normbench(args)
		return code, errs
	}
	out := filepath.Join(dir, "out")
	learn := func(html string) (code int, errs string) {
		// the same command goes on, so a busy machine takes longer
		for budget := 4; budget <= 64; budget *= 2 {
			if code, errs = made("learn", "--device", "cpu", "--budget", fmt.Sprintf("%ds", budget),
				"--domain", "M=1:8,N=64:128", "--op", "rmsnorm", "--pass", "fwd", "--out", out, "--html",
				html); code == 0 {
				break
			}
		}
		return code, errs
	}
	folders := func() string {
		found, _ := filepath.Glob(filepath.Join(out, "*"))
		return strings.Join(found, " ")
	}
	chromium := newBrowser(t)
	for _, page := range []struct {
		name    string
		make    func(html string) (int, string)
		chart   string // what stands between the verdict and the tables
		wants   []string
		numbers string // heading of a column that sorts as numbers
		filter  string // that leaves some rows of its table, and not all
	}{
		{"live", func(html string) (int, string) {
			return made("report", "../../results/nvidia-h100-80gb-hbm3/peers/qk-norm-bwd.json.gz", "--html",
				html)
		}, "<svg", []string{"<dt>clocks</dt>", "<dt>date</dt><dd>2026-11-26", "<dt>device</dt><dd>NVIDIA H100", "<dt>driver</dt>", ">2026-11-26<", "</b>slower<", `<i class="t0"></i>k1<`}, "B us", "262144x64"},
		{"recorded", func(html string) (int, string) {
			return made("compare", "../../results/nvidia-h200#base", "../../results/nvidia-h200",
				"--shapes", "fast-llm", "--op", "rmsnorm", "--pass", "bwd", "--html", html)
		}, "<svg", []string{">NVIDIA H200, 2026-11-", "</b>inconclusive<"}, "A us", "8192x2048"},
		{"sweep", func(html string) (int, string) {
			return made("sweep", "--device", "cpu", "--shapes", "8x64,32x128,64x64", "--op", "rmsnorm",
				"--pass", "fwd", "--budget", "12", "--out", filepath.Join(dir, "sweep"), "--html", html)
		}, "<svg", []string{"</b>slower<"}, "A us", ""},
		{"learn", learn, `<svg viewBox`, []string{`</b>cells with an answer`, "<dt>budget</dt>"},
			"problems", ""},
		{"tune", func(html string) (int, string) { return made("tune", folders(), "--html", html) },
			`<svg viewBox`, []string{`</b>cells with an answer`}, "problems", ""},
	} {
		file := filepath.Join(dir, page.name+".html")
		if code, errs := page.make(file); code != 0 {
			t.Fatalf("%s: %d, %s", page.name, code, errs)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		verdict, chart, table := strings.Index(text, `class="tally"`), strings.Index(text, page.chart),
			strings.Index(text, "<table")
		if !(0 < verdict && verdict < chart && chart <= table) {
			t.Errorf("%s: verdict at %d, chart at %d, table at %d", page.name, verdict, chart, table)
		}
		for _, want := range append(page.wants, "Content-Security-Policy", "@media print",
			"<dt>device</dt>", "<dt>protocol</dt>", "<dt>normbench</dt>", "<dt>date</dt>") {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %s", page.name, want)
			}
		}
		for _, look := range []struct {
			width  int
			scheme string
		}{{400, "light"}, {1400, "light"}, {1400, "dark"}} {
			chromium.look(look.width, look.scheme)
			if wrong := chromium.open(file); len(wrong) > 0 {
				t.Errorf("%s at %d px: %s", page.name, look.width, strings.Join(wrong, "\n"))
			}
			if wide := chromium.eval("document.documentElement.scrollWidth - innerWidth"); wide != "0" {
				t.Errorf("%s at %d px is wider by %s", page.name, look.width, wide)
			}
			if light := chromium.seen(fmt.Sprint(page.name, "-", look.width, "-",
				look.scheme)); (light > 0.5) != (look.scheme == "light") {
				t.Errorf("%s at %d px, %s: light %.2f", page.name, look.width, look.scheme, light)
			}
		}
		// What a click on a heading and words in the filter do.
		script := strings.NewReplacer("COLUMN", page.numbers, "FILTER", page.filter).Replace(`(() => { const h = [...document.querySelectorAll("th")].find(h => h.textContent === "COLUMN"); h.click();
const rows = [...h.closest("table").tBodies[0].rows], us = rows.map(r => parseFloat(r.cells[h.cellIndex].textContent));
const f = h.closest("table").parentElement.previousElementSibling, type = word => { f.value = word; f.dispatchEvent(new Event("input")); return rows.filter(r => !r.hidden).length };
return us.every((x, i) => i === 0 || us[i-1] <= x) + " " + (!"FILTER" || f.matches("input.filter") && type("no such row") === 0 && type("FILTER") > 0 && type("FILTER") < rows.length) })()`)
		if got := chromium.eval(script); got != `"true true"` {
			t.Errorf("%s: sorted and filtered: %s", page.name, got)
		}
	}
}
