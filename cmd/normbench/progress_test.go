package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"normbench/kernels"
	"normbench/sweep"
	"normbench/sweep/record"
)

func TestFitted(t *testing.T) {
	const line = "fwd 8x64  50% |██████      | (3/6)"
	for columns, want := range map[int]string{
		40: line,
		34: line,
		33: "fwd 8x64  50% |█████      | (3/6)",
		26: "fwd 8x64  50% |██  | (3/6)",
		22: "fwd 8x64  50% || (3/6)",
		20: "fwd 8x64  50% || (3/",
		0:  "",
	} {
		if got := fitted(line, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}

// TestBarFits holds what the bar writes to the terminal's width, also when that changes.
func TestBarFits(t *testing.T) {
	for _, width := range []int{10, 40, 60, 80, 200} {
		var b bytes.Buffer
		now := width
		bar := row{&b, func() int { return now }}.bar(31415)
		for i, text := range []string{"fwd 1x1000", "bwd 1048576x65536 best 123456.7 us", "bwd 64x256 best 1.2 us"} {
			bar.Describe(text)
			bar.Set(10_000 * i)
			bar.RenderBlank()
			bar.Clear()
			for _, line := range strings.Split(b.String(), "\r") {
				if n := utf8.RuneCountInString(line); n >= now {
					t.Errorf("%d columns: a line of %d: %q", now, n, line)
				}
			}
			if b.Reset(); i == 1 {
				now -= 5
			}
		}
	}
}

// Once the finals have chosen, the line says what, and how it stands to the base in them: not what a
// noisy search saw.
func TestProgressChosen(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	pr := kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, M: 8, N: 64, DType: kernels.BF16, Weight: kernels.BF16}
	at := func(family string, us float64, left int, chosen string) {
		p.observe(sweep.Event{Record: &record.Record{Problem: pr, Family: family, Status: kernels.StatusOK, Base: family == "base", Chosen: chosen, StreamUS: 5}, Median: us, Left: left, Done: 6 - left, Total: 6})
	}
	at("base", 100, 5, "")
	at("lucky", 0.5, 4, "")
	if line := p.line(pr); !strings.Contains(line, ": best 0.5 us (1000% of stream, 200.00x base) lucky") {
		t.Error(line)
	}
	at("chosen", 9, 3, "fastest")
	at("lucky", 8.9, 1, "")
	at("base", 10, 0, "")
	if line := out.String(); !strings.Contains(line, ": chosen 9.0 us (56% of stream, 1.11x base) chosen@\n") {
		t.Error(line)
	}
}

// On a terminal, notes are wrapped at its width and lose nothing; a line of progress is cut. Elsewhere
// both are one line.
func TestNotesFit(t *testing.T) {
	text := "hint: " + strings.Repeat("give --samples 6 or more, ", 12) + "and end"
	problem := kernels.Problem{Op: kernels.LayerNorm, Pass: kernels.Bwd, M: 1048576, N: 65536, Bias: true}
	long := sweep.Event{Record: &record.Record{Problem: problem, Family: "ln_bwd/reg_persist", Base: true, Status: kernels.StatusOK}, Median: 12345.6, Done: 1, Total: 100}
	for _, width := range []int{40, 80, 120} {
		var b bytes.Buffer
		screen := row{&b, func() int { return width }}
		(&env{stderr: screen}).notef("%s", text)
		if got := strings.Join(strings.Fields(b.String()), " "); got != "normbench: "+text {
			t.Errorf("%d columns: %q", width, got)
		}
		newProgress(screen).observe(long)
		for line := range strings.SplitSeq(strings.ReplaceAll(b.String(), "\r", "\n"), "\n") {
			if n := utf8.RuneCountInString(line); n >= width {
				t.Errorf("%d columns: a line of %d: %q", width, n, line)
			}
		}
		if !strings.Contains(b.String(), "[1/100] layernorm/bwd/1048576x65536") {
			t.Errorf("%d columns: no progress: %q", width, b.String())
		}
	}
	var b bytes.Buffer
	(&env{stderr: &b}).notef("%s", text)
	newProgress(&b).observe(long)
	if lines := strings.Split(b.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "ln_bwd/reg_persist") {
		t.Errorf("in a pipe: %q", b.String())
	}
}
