package lab

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/peers"
	"normbench/kernels/families/manifest"
	"normbench/sweep"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/shapes"
	"normbench/tune/ref"
)

// OnlyNamed are peers that --peers must name for peer:best: they tune for minutes.
var OnlyNamed = []string{"compile-max", "quack-tuned"}

// peerNames are the peers that REFs name. It says which peer:best is among.
func (l *Lab) peerNames(c *OpenOptions, refs []*ref.Ref) (names []string, err error) {
	for _, r := range refs {
		if name := r.Peer(); name != "" {
			names = append(names, name)
		}
	}
	switch best := slices.Contains(names, ref.Best); {
	case c.Peers != "" && !best:
		return nil, hint.Errorf("write peer:best as a REF, or leave out --peers",
			"--peers says what peer:best is among, and no REF is peer:best")
	case c.Peers != "":
		if l.Among, err = shapes.Split("peer", c.Peers, peers.Names...); err != nil {
			return nil, err
		}
	case best:
		l.Among = slices.DeleteFunc(slices.Clone(peers.Names),
			func(name string) bool { return slices.Contains(OnlyNamed, name) })
	}
	for flag, given := range map[string]bool{"python": c.Python != "" && !manifest.UsesPython(l.UserFamilies),
		"peer-jobs": c.Jobs >= 0} {
		if given && len(names) == 0 {
			return nil, hint.Errorf("write peer:NAME as a REF, or leave out --"+flag,
				"--%s is for peers, and no REF is one", flag)
		}
	}
	return names, nil
}

func (l *Lab) importPeers(o peers.LibraryOptions) (*peers.Worker, error) {
	defer l.Wait("starting the peers: %s imports the libraries", o.Program()).End()
	return peers.Start(l.Ctx, o)
}

func (l *Lab) startPeers(c *OpenOptions, ours kernels.Device, wanted []string) (*peers.Device, error) {
	onCPU := ours.Info().Kind == kernels.KindCPU
	if onCPU && !c.Untimed {
		return nil, hint.Errorf("use --device cuda; `normbench verify` checks them without a GPU",
			"other libraries and functions of Python are timed on a GPU alone, and this is a cpu")
	}
	o := peers.LibraryOptions{Python: c.Python, UUID: ours.Info().UUID, Timeout: c.limit(peers.DefaultTimeout), CPU: onCPU}
	o.Names = slices.DeleteFunc(append(slices.Clone(l.Among), wanted...),
		func(name string) bool { return name == ref.Best })
	theirs, err := l.importPeers(o)
	if err != nil {
		return nil, err
	}
	both, err := peers.Join(ours, theirs)
	if err == nil {
		err = l.notePeers(theirs.Peers(), wanted)
	}
	if err != nil {
		theirs.Close()
		return nil, err
	}
	l.timed = append(l.timed, both)
	return both, nil
}

// notePeers takes note of the peers that are there, and says which are not.
func (l *Lab) notePeers(all []kernels.Peer, wanted []string) error {
	const help = "install it for the Python of --python; `normbench list peers` shows what is there"
	first := l.peers == nil
	l.peers = all
	l.Registry, l.Peers = peers.Register(l.Registry, all), nil
	for _, p := range all {
		if p.Missing == "" && slices.Contains(l.Among, p.Name) {
			l.Peers = append(l.Peers, p.Name)
		}
	}
	for _, name := range wanted {
		if name == ref.Best {
			for _, p := range all {
				if p.Missing != "" && first && slices.Contains(l.Among, p.Name) {
					l.Notef("left out peer %s: %s", p.Name, console.OneLine(p.Missing))
				}
			}
			if len(l.Peers) == 0 {
				return hint.Errorf(help, "no peer is there")
			}
			continue
		}
		if p, ok := peers.Find(all, name); !ok || p.Missing != "" {
			if strings.HasPrefix(name, kernels.Callable) {
				return hint.Errorf("docs/python.md says what a function is called with", "%s: %s", name,
					console.OneLine(p.Missing))
			}
			return hint.Errorf(help, "peer %s is not there: %s", name, console.OneLine(p.Missing))
		}
	}
	return nil
}

// Prepare has the peers compile for tasks before anything is measured. It is an error only where
// the user has had enough: what is not compiled ahead is later.
func (l *Lab) Prepare(c *OpenOptions, dev kernels.Device, tasks []sweep.Task) error {
	both, ok := dev.(*peers.Device)
	if !ok {
		return nil
	}
	var cells []peers.ProblemVariant
	for _, t := range tasks {
		for _, v := range t.Variants {
			if cell := (peers.ProblemVariant{Problem: t.Problem, Variant: v}); !slices.Contains(cells, cell) {
				cells = append(cells, cell)
			}
		}
	}
	o := peers.PrepareOptions{Jobs: max(runtime.GOMAXPROCS(0)-2, 1),
		Limit: c.limit(peers.DefaultLimit)}
	if c.Jobs >= 0 {
		o.Jobs = c.Jobs
	}
	if o.Jobs == 0 {
		return nil
	}
	start := time.Now()
	waiting := l.Wait("%s", l.prepareText(peers.ProblemVariant{}))
	o.Progress = func(done, total int, oldest peers.ProblemVariant) {
		waiting.Set("%s", l.prepareText(oldest))
		waiting.Reach(console.Amount{Done: done, Total: total, Unit: "cells"})
	}
	sum, err := both.Prepare(l.Ctx, cells, o)
	waiting.End()
	switch {
	case err != nil:
		return err
	case sum.Failed > 0:
		l.Notef("peers: %s compiled ahead in %.1f s; %d more when they are measured, first reason: %s",
			console.Count(sum.Cells-sum.Failed,
				"cell"), time.Since(start).Seconds(), sum.Failed, console.OneLine(sum.First.Error()))
	case sum.Cells > 0:
		l.Notef("peers: %s compiled ahead in %.1f s", console.Count(sum.Cells, "cell"),
			time.Since(start).Seconds())
	}
	return nil
}

// prepareText says what the peers compile for while nothing is measured.
func (l *Lab) prepareText(oldest peers.ProblemVariant) string {
	name, ok := kernels.PeerName(oldest.Variant.Family)
	if !ok {
		return "peers: starting the processes that compile"
	}
	if p, _ := peers.Find(l.peers, name); p.Builds == "tunes" {
		return fmt.Sprintf("peer %s: compiling every config of its autotuner at %s", name, oldest.Problem)
	}
	return fmt.Sprintf("peer %s: compiling %s", name, oldest.Problem)
}

// PreparePeers is Prepare for the REFs over problems.
func (l *Lab) PreparePeers(c *OpenOptions, dev kernels.Device, refs []*ref.Ref,
	ps []kernels.Problem) error {
	var tasks []sweep.Task
	for _, p := range ps {
		for _, r := range refs {
			if r.Peer() != "" {
				vs, _ := l.Variants(r, p, dev.Info()) // what is wrong shows where they are laid out
				tasks = append(tasks, sweep.Task{Problem: p, Variants: vs})
			}
		}
	}
	return l.Prepare(c, dev, tasks)
}

// TableNotes are what a table should say of its operands: tables of another device, and the
// versions of the peers among the families, each once.
func (l *Lab) TableNotes(refs []*ref.Ref, d kernels.DeviceInfo,
	families []string) (notes []string) {
	for _, r := range refs {
		if r.Form == ref.Tuned {
			if t, err := l.ReadTuned(r.Name, "", d); err == nil && t.TellOtherDevice(r.Text) != "" {
				notes = append(notes, t.TellOtherDevice(r.Text))
			}
		}
	}
	return append(append(notes, ab.PeerNotes(l.peers, families, l.timed...)...), l.best.Failures()...)
}

// chooser settles on variants with a protocol, as ab.FastestChooser does.
func (l *Lab) chooser(dev kernels.Device, pr record.Protocol) sweep.VariantChooser {
	return func(p kernels.Problem, vs []kernels.Variant) (kernels.Variant, error) {
		return l.best.Choose(l.Ctx, &sweep.Session{Device: dev, Registry: l.Registry, Problem: p, Protocol: pr,
			Seed: ab.ChooseSeed}, vs)
	}
}
