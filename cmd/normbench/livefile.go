package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/tune/ref"
)

// A liveRun is a live compare with what its files have of it beside.
type liveRun struct {
	ab.Match
	Stream []report.StreamScore `json:"stream,omitempty"`
}

// readLive reads what a live compare has left.
func readLive(path string) (*liveRun, error) {
	const help = "`normbench compare BASE CANDIDATE --live --out DIR` writes compare-RUN.json; write tuned:FILE for a tuned table; `normbench lint FILE` reads rules"
	data, err := textfile.Read(path, textfile.Large)
	if errors.Is(err, os.ErrNotExist) {
		return nil, hint.Errorf(ref.SideHelp, "no records at %s", path)
	} else if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "live compare %s: %w", path, durable.Cause(err))
	}
	if err := durable.Verify(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	run, err := ab.Parse(data)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "%s is no live compare: %w", path, err)
	}
	r := &liveRun{Match: *run}
	r.score()
	return r, nil
}

// readArms reads its two arms.
func readArms(path string) ([2]report.Side, error) {
	run, err := readLive(path)
	if err != nil {
		return [2]report.Side{}, err
	}
	arms := run.sides()
	arms[0].Label, arms[1].Label = run.A, run.B
	if run.A == run.B {
		arms[1].Label += ", again"
	}
	return arms, nil
}
