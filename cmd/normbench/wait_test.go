package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"normbench/kernels"
	"normbench/kernels/peers"
)

// While a command waits, a line every five seconds says what for: the innermost step, as long
// as it lasts. Steps that end sooner say nothing.
func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := &env{ctx: t.Context(), stderr: &out, waits: &waits{}}
		s := e.waitFor("quick")
		time.Sleep(4 * time.Second)
		s.end()
		time.Sleep(time.Minute)

		s = e.waitFor("checking %s", "a")
		time.Sleep(6 * time.Second)
		s.set("checking b")
		time.Sleep(5 * time.Second)
		inner := e.waitFor("opening")
		time.Sleep(11 * time.Second)
		inner.end()
		time.Sleep(4 * time.Second)
		s.end()
		time.Sleep(time.Minute)
		want := []string{"checking a, for 5 s", "checking b", "opening", "opening, for 9 s", "checking b, for 19 s"}
		got := strings.Split(strings.ReplaceAll(strings.TrimSpace(out.String()), "normbench: ", ""), "\n")
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// What the peers compile for has a name.
func TestPreparing(t *testing.T) {
	p, err := kernels.ParseProblem("rmsnorm/bwd/4096x4096/bf16")
	if err != nil {
		t.Fatal(err)
	}
	cell := peers.Cell{Problem: p, Variant: kernels.PeerVariant("compile")}
	if got, want := preparing(11, 60, cell), "peer compile: compiling rmsnorm/bwd/4096x4096/bf16 (11 of 60 cells done)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := preparing(0, 60, peers.Cell{}); !strings.Contains(got, "starting the processes") {
		t.Errorf("%q", got)
	}
}
