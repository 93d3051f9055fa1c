package rules

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/sweep/record"
)

// lines are records in short: problem variant source us, "base" behind the
// variant of the default; a line "run ID SMS" begins a run on another device.
func recordsFile(t *testing.T, lines ...string) string {
	t.Helper()
	var b strings.Builder
	run := 0
	for i, l := range lines {
		w := strings.Fields(l)
		if w[0] == "run" {
			run++
			fmt.Fprintf(&b, `{"schema":1,"kind":"run","run":"r%d","time":"2026-03-04T05:06:07Z","tool":"v0","device":{"id":%q,"kind":"cuda","arch":"sm_90","units":%s,"driver":"13.0","compiler":"nvrtc 13.0"},"protocol":{"name":"cold","samples":1}}`+"\n", run, w[1], w[2])
			continue
		}
		family, config, _ := strings.Cut(w[1], "@")
		status := `"status":"ok","samples_us":[` + w[3] + `]`
		if w[3] == "fail" {
			status = `"status":"wrong","reason":"dx is wrong"`
		}
		fmt.Fprintf(&b, `{"schema":1,"kind":"record","run":"r%d","key":"%032x","time":"2026-03-04T05:06:08Z","problem":%q,"family":%q,"config":%q,"base":%v,"source":%q,"bytes":8,%s}`+"\n",
			run, i, w[0], family, config, len(w) > 4, w[2], status)
	}
	path := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	h200Run = "run nvidia-h200 132"
	p1      = "rmsnorm/bwd/4096x8192/bf16"
	p2      = "rmsnorm/bwd/256x65536/bf16"
)

func TestCollect(t *testing.T) {
	d, err := Collect([]string{
		recordsFile(t, h200Run, p2+" f@w8 abc 7 base", p1+" f@w8 abc 9 base", p1+" f@w4 abc fail", p1+" stream@ xyz 3"),
		recordsFile(t, h200Run, p1+" f@w8 abc 10 base", p1+" f@w2 abc 8", "rmsnorm/fwd/1x8/bf16 g@w2 def 8"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Shapes) != 2 || d.Shapes[0].Problem.String() != p1 || d.Shapes[0].BaseUS != 10 || d.Shapes[0].BestUS != 8 || len(d.Shapes[0].US) != 2 {
		t.Errorf("got %+v", d.Shapes)
	}
	if n := strings.Join(d.Notes, "; "); n != "left out, as the default was not measured or failed: rmsnorm/fwd/1x8/bf16" {
		t.Errorf("notes %q", n)
	}
	if d.Sources["f"] != "abc" || d.Tool != "v0" || d.Date.IsZero() {
		t.Errorf("got %+v", d)
	}
}

func TestCollectErrors(t *testing.T) {
	for want, lines := range map[string][]string{
		"records of nvidia-h200 (sm_90, 132 SMs) and of nvidia-h100 (sm_90, 114 SMs), which do not compare": {h200Run, p1 + " f@w8 abc 9 base", "run nvidia-h100 114", p2 + " f@w8 abc 9 base"},
		"f was measured with the sources abc and def, which do not compare":                                 {h200Run, p1 + " f@w8 def 9 base", p2 + " f@w8 abc 9 base"},
		"no problem with a time of its default":                                                             {h200Run, p1 + " f@w8 abc 9"},
		"unknown knob \"zz\"":                                                                               {h200Run, p1 + " f@zz8 abc 9 base"},
	} {
		_, err := Collect([]string{recordsFile(t, lines...)})
		if (want == ErrNoDefault.Error()) != errors.Is(err, ErrNoDefault) {
			t.Errorf("%v is taken for another", err)
		}
		if err == nil || !strings.Contains(err.Error(), want) || hint.Of(err) == "" {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	// Measured again after a change of the source, the later counts alone.
	if _, err := Collect([]string{recordsFile(t, h200Run, p1+" f@w8 abc 9 base", p1+" f@w8 def 9 base")}); err != nil {
		t.Error(err)
	}
}

// Peers are measured beside ours, and no rule can launch them; what failed is
// known from what nobody tried.
func TestCollectOthers(t *testing.T) {
	d, err := Collect([]string{recordsFile(t, h200Run, p1+" f@w8 abc 9 base", p1+" f@w4 abc fail", p1+" peer/liger@ abc 1")})
	if err != nil {
		t.Fatal(err)
	}
	s := d.Shapes[0]
	if s.BestUS != 9 || len(s.US) != 1 || len(s.Failed) != 1 || len(d.Sources) != 1 {
		t.Errorf("%+v, sources %v", s, d.Sources)
	}
}

// TestCollectIf has records of one kernel at two times, of which one is wanted.
func TestCollectIf(t *testing.T) {
	path := recordsFile(t, h200Run, p1+" f@w8 old 9 base", p1+" f@w4 old 3", p1+" f@w8 new 10 base", p1+" f@w2 new 8")
	if _, err := Collect([]string{path}); err == nil {
		t.Error("two sources of a family were taken together")
	}
	d, err := CollectIf([]string{path}, func(r *record.Record) bool { return r.Source == "new" })
	if err != nil {
		t.Fatal(err)
	}
	if s := d.Shapes[0]; s.BaseUS != 10 || s.BestUS != 8 || len(s.US) != 2 {
		t.Errorf("got %+v", s)
	}
}
