package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/peers"
	"normbench/kernels/worker"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/stats"
	"normbench/tune/ref"
)

var pythonFlag = &cli.StringFlag{Name: "python", Category: catWhat, Usage: "`PROGRAM` that runs the peers, a Python 3 with PyTorch for CUDA, and compiles kernels of Triton", Value: "python3"}

// peerFlags are those of the commands that measure peers.
var peerFlags = []cli.Flag{
	pythonFlag,
	&cli.StringFlag{Name: "peers", Category: catWhat, Usage: "`NAMES` of the peers that peer:best is chosen from, with commas", DefaultText: "all that are installed but " + onlyNamed},
	&cli.IntFlag{Name: "peer-jobs", Category: catWhere, Usage: "processes that compile for the peers before anything is measured; 0 compiles between measurements", Value: -1, DefaultText: "the CPUs but two"},
}

// onlyNamed is a peer that --peers must name for peer:best: it tunes for minutes.
const onlyNamed = "compile-max"

// among says whether peer:best may be the peer of a name.
func (e *env) among(name string) bool { return slices.Contains(e.only, name) }

// devicesFor are devices, with the peers beside each where a REF names one.
func (e *env) devicesFor(m *machine, refs ...*ref.Ref) ([]kernels.Device, error) {
	var wanted []string
	for _, r := range refs {
		if name := r.Peer(); name != "" {
			wanted = append(wanted, name)
		}
	}
	if m.peers != "" {
		if !slices.Contains(wanted, ref.Best) {
			return nil, hint.Errorf("write peer:best as a REF, or leave out --peers", "--peers says what peer:best is among, and no REF is peer:best")
		}
		var err error
		if e.only, err = splitList("peer", m.peers, peers.Names...); err != nil {
			return nil, err
		}
	} else if slices.Contains(wanted, ref.Best) {
		e.only = slices.DeleteFunc(slices.Clone(peers.Names), func(name string) bool { return name == onlyNamed })
	}
	for _, name := range []string{"python", "peer-jobs"} {
		if m.given[name] && len(wanted) == 0 && !(name == "python" && e.usesPython()) {
			return nil, hint.Errorf("write peer:NAME as a REF, or leave out --"+name, "--%s is for peers, and no REF is one", name)
		}
	}
	devices, err := e.devices(m)
	if err != nil || len(wanted) == 0 {
		return devices, err
	}
	for i, d := range devices {
		both, err := e.beside(m, d, wanted)
		if err != nil {
			closeAll(devices)
			return nil, err
		}
		devices[i] = both
	}
	return devices, nil
}

func (e *env) beside(m *machine, ours kernels.Device, wanted []string) (*peers.Device, error) {
	o := peers.Options{Python: m.python, UUID: ours.Info().UUID, Timeout: m.limit(peers.DefaultTimeout)}
	waiting := e.Wait("starting the peers: %s imports the libraries", o.Python)
	theirs, err := peers.Start(e.ctx, o)
	waiting.End()
	if err != nil {
		return nil, err
	}
	both, err := peers.Beside(ours, theirs)
	if err == nil {
		err = e.found(theirs.Peers(), wanted)
	}
	if err != nil {
		theirs.Close()
		return nil, err
	}
	return both, nil
}

// found takes note of the peers that are there, and says which are not.
func (e *env) found(all []kernels.Peer, wanted []string) error {
	const help = "install it for the Python of --python; `normbench list peers` shows what is there"
	first := e.peers == nil
	e.peers = all
	e.registry, e.refs.Peers = peers.Register(e.registry, all), nil
	for _, p := range all {
		if p.Missing == "" && e.among(p.Name) {
			e.refs.Peers = append(e.refs.Peers, p.Name)
		}
	}
	for _, name := range wanted {
		if name == ref.Best {
			for _, p := range all {
				if p.Missing != "" && first && e.among(p.Name) {
					e.Notef("left out peer %s: %s", p.Name, console.OneLine(p.Missing))
				}
			}
			if len(e.refs.Peers) == 0 {
				return hint.Errorf(help, "no peer is there")
			}
			continue
		}
		if p, ok := peers.Find(all, name); !ok || p.Missing != "" {
			return hint.Errorf(help, "peer %s is not there: %s", name, console.OneLine(p.Missing))
		}
	}
	return nil
}

// prepare has the peers compile for cells before anything is measured. It is an
// error only where the user has had enough: what is not compiled ahead is later.
func (e *env) prepare(m *machine, dev kernels.Device, cells []peers.Cell) error {
	both, ok := dev.(*peers.Device)
	if !ok {
		return nil
	}
	o := peers.PrepareOptions{Jobs: m.jobs, Limit: m.limit(peers.DefaultLimit)}
	if o.Jobs < 0 {
		o.Jobs = max(runtime.GOMAXPROCS(0)-2, 1)
	}
	if o.Jobs == 0 {
		return nil
	}
	start := time.Now()
	waiting := e.Wait("%s", preparing(0, len(cells), peers.Cell{}))
	o.Progress = func(done, total int, oldest peers.Cell) { waiting.Set("%s", preparing(done, total, oldest)) }
	sum, err := both.Prepare(e.ctx, cells, o)
	waiting.End()
	switch {
	case err != nil:
		return err
	case sum.Failed > 0:
		e.Notef("peers: %s compiled ahead in %.1f s; %d more when they are measured, first reason: %s", console.Count(sum.Cells-sum.Failed, "cell"), time.Since(start).Seconds(), sum.Failed, console.OneLine(sum.First.Error()))
	case sum.Cells > 0:
		e.Notef("peers: %s compiled ahead in %.1f s", console.Count(sum.Cells, "cell"), time.Since(start).Seconds())
	}
	return nil
}

// preparing says what the peers compile for while nothing is measured.
func preparing(done, total int, oldest peers.Cell) string {
	name, ok := kernels.PeerName(oldest.Variant.Family)
	if !ok {
		return fmt.Sprintf("peers: starting the processes that compile (%d of %d cells done)", done, total)
	}
	return fmt.Sprintf("peer %s: compiling %s (%d of %d cells done)", name, oldest.Problem, done, total)
}

// preparePeers is prepare for the REFs over problems.
func (e *env) preparePeers(m *machine, dev kernels.Device, refs []*ref.Ref, ps []kernels.Problem) error {
	var cells []peers.Cell
	for _, p := range ps {
		for _, r := range refs {
			if r.Peer() == "" {
				continue
			}
			vs, _ := e.variants(r, p, dev.Info()) // what is wrong shows where they are laid out
			for _, v := range vs {
				if cell := (peers.Cell{Problem: p, Variant: v}); !slices.Contains(cells, cell) {
					cells = append(cells, cell)
				}
			}
		}
	}
	return e.prepare(m, dev, cells)
}

// maxDeaths is how often a peer may take its process down or hang, each of which may have cost its
// whole time limit.
const maxDeaths = 2

// chooser settles on a variant as ab.Chooser does, and says what it saw of peers.
func (e *env) chooser(dev kernels.Device, pr record.Protocol) chooser {
	return func(p kernels.Problem, vs []kernels.Variant) (kernels.Variant, error) {
		alive := slices.DeleteFunc(slices.Clone(vs), func(v kernels.Variant) bool {
			name, _ := kernels.PeerName(v.Family)
			return e.deaths[name] >= maxDeaths
		})
		if len(alive) == 0 {
			return vs[0], nil // measuring it will say why
		}
		c := &ab.Chooser{Registry: e.registry, Device: dev, Protocol: pr, Seed: 1}
		_, peer := kernels.PeerName(vs[0].Family)
		if peer && len(alive) > 1 {
			waiting := e.Wait("peer:best: opening %s", p)
			defer waiting.End()
			c.Visiting = func(a *sweep.Arm) {
				name, _ := kernels.PeerName(a.Variant.Family)
				waiting.Set("peer:best: timing %s on %s", name, p)
			}
		}
		v, arms, err := c.Choose(e.ctx, p, alive)
		if peer && arms != nil {
			e.saw(p, arms)
		}
		return v, err
	}
}

// saw says how fast the peers of a problem are, and counts those that died.
func (e *env) saw(p kernels.Problem, arms []*sweep.Arm) {
	var text []string
	for _, a := range arms {
		name, _ := kernels.PeerName(a.Variant.Family)
		f := a.Failure
		switch {
		case f == nil:
			text = append(text, fmt.Sprintf("%s %s us", name, report.Micros(stats.Median(a.Samples))))
		case f.Status != kernels.StatusRefused:
			text = append(text, name+" "+console.OneLine(f.Error()))
		}
		if f != nil && (f.Status == kernels.StatusTimeout || f.Status == kernels.StatusCrash) {
			if e.deaths[name]++; e.deaths[name] == maxDeaths {
				e.Notef("no more of peer %s: %s", name, console.OneLine(f.Error()))
			}
		}
	}
	e.Notef("%s: %s", p, strings.Join(text, ", "))
}

// peerVersions are those of the peers that take part, for the run's line.
func (e *env) peerVersions(env map[string]string) {
	for _, p := range e.peers {
		if p.Missing == "" {
			env[kernels.PeerVariant(p.Name).Family] = p.Version
		}
	}
}

// tableNotes are what a table should say of its operands: tables of another device, and the
// versions of the peers among the families, each once.
func (e *env) tableNotes(refs []*ref.Ref, d kernels.DeviceInfo, families []string) (notes []string) {
	for _, r := range refs {
		if r.Kind == ref.Tuned {
			if t, err := e.tuned(r.Name, d); err == nil && t.Other(r.Text) != "" {
				notes = append(notes, t.Other(r.Text))
			}
		}
	}
	for _, p := range e.peers {
		for _, f := range families {
			if name, ok := kernels.PeerName(f); ok && name == p.Name {
				notes = append(notes, f+" is "+p.System+": "+p.Version)
				break
			}
		}
	}
	return notes
}

func (e *env) listPeers(c *cli.Context) (*report.Table, error) {
	e.measuring() // the peers' worker and its folder must not be left behind
	theirs, err := peers.Start(e.ctx, peers.Options{Python: c.String("python"), Timeout: peers.DefaultTimeout})
	t := newTable("", "peer", "system", "version, or why it is not there")
	if said := new(worker.Said); errors.As(err, &said) { // no PyTorch, or no GPU that it sees: so there is none of them
		t.Data = &report.Table{Header: t.Header, Align: t.Align} // has no notes
		for _, name := range peers.Names {
			t.Rows = append(t.Rows, []string{"peer:" + name, "", "missing"})
			t.Data.Rows = append(t.Data.Rows, []string{"peer:" + name, "", "missing: " + said.Text})
		}
		t.Notes = append(t.Notes, console.OneLine(said.Text), hint.Of(err))
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	info := theirs.Info()
	t.Title = strings.TrimSpace("on " + info.Name + ", " + info.Compiler)
	for _, p := range theirs.Peers() {
		text := p.Version
		if p.Missing != "" {
			text = "missing: " + console.OneLine(p.Missing)
		}
		t.Rows = append(t.Rows, []string{"peer:" + p.Name, p.System, text})
	}
	return t, nil
}
