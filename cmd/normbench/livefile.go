package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
	"normbench/tune/ref"
)

// liveSchema is the version of the files that a live compare leaves.
const liveSchema = 1

// liveRun is one live compare: what it was asked, and what it found.
type liveRun struct {
	Schema  int                  `json:"schema"`
	Run     record.Run           `json:"run"`
	A       string               `json:"a"`
	B       string               `json:"b"`
	Rule    verdict.Rule         `json:"rule"`
	Duels   []*ab.Result         `json:"duels"`
	Judged  []verdict.Judged     `json:"judged"` // of the duels that are ok, in their order
	Summary verdict.Summary      `json:"summary"`
	Gate    []gated              `json:"gate,omitempty"`
	Stream  []report.StreamScore `json:"stream,omitempty"`
	Kernels string               `json:"kernels,omitempty"` // families.Hash
	Among   []string             `json:"among,omitempty"`   // the peers that peer:best was among, where not all
	Peers   []string             `json:"peers,omitempty"`   // a line for each peer in it, with its versions
	Resumed []record.Run         `json:"resumed,omitempty"` // that went on with it
}

// runs are the run itself and those that went on with it.
func (r *liveRun) runs() []*record.Run {
	runs := []*record.Run{&r.Run}
	for i := range r.Resumed {
		runs = append(runs, &r.Resumed[i])
	}
	return runs
}

// gated is what a second run said of a cell that looked slower.
type gated struct {
	Problem   kernels.Problem `json:"problem"`
	Confirmed bool            `json:"confirmed"`
	Status    kernels.Status  `json:"status,omitempty"`
	Again     verdict.Judged  `json:"again"`
}

// found says what the second run found, and why it is no confirmation.
func (g *gated) found() string {
	s := "confirmed by a fresh worker: "
	if !g.Confirmed {
		s = "not " + s
	}
	if x := effect(&g.Again); x != "" {
		s += x + ", "
	}
	s += string(g.Again.Verdict)
	if g.Again.Reason != "" {
		s += ": " + g.Again.Reason
	}
	return s
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
	run, err := parseLive(data)
	switch {
	case run != nil && len(run.Duels) > 0 && run.Schema > liveSchema:
		return nil, hint.Errorf("update normbench", "%s: schema %d is newer than %d, the newest that this normbench reads", path, run.Schema, liveSchema)
	case err != nil:
		return nil, hint.Errorf(help, "%s is no live compare: %w", path, err)
	}
	return run, nil
}

// parseLive reads such a file. Of one that it does not accept it returns as much as says
// what schema it has.
func parseLive(data []byte) (*liveRun, error) {
	var run liveRun
	if err := json.Unmarshal(data, &run); err != nil {
		return nil, err
	}
	ok := 0
	for i, d := range run.Duels {
		switch {
		case d == nil:
			return &run, fmt.Errorf("duel %d is null", i+1)
		case d.Status != kernels.StatusOK:
			continue
		case len(d.Rounds) == 0:
			return &run, fmt.Errorf("%s has no rounds", d.Problem)
		}
		ok++
	}
	switch {
	case len(run.Duels) == 0 || run.Run.ID == "":
		return &run, fmt.Errorf("it has no run with duels")
	case kernels.CheckID(run.Run.Device.ID) != nil:
		return &run, kernels.CheckID(run.Run.Device.ID)
	case ok != len(run.Judged):
		return &run, fmt.Errorf("%d duels are ok, and %d are judged", ok, len(run.Judged))
	case run.Summary.Cells > 0 && run.Summary.Worst == nil:
		return &run, fmt.Errorf("its summary of %d cells has no worst", run.Summary.Cells)
	case slices.ContainsFunc(run.Stream, func(s report.StreamScore) bool { return s.N > 0 && s.At == nil }):
		return &run, fmt.Errorf("a score of the stream has no worst")
	}
	return &run, run.Rule.CheckValid()
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
