package main

import (
	"strings"
	"testing"

	"normbench/kernels"
	"normbench/kernels/peers"
)

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
