package main

import (
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/peers"
	"normbench/report"
)

var pythonFlag = &cli.StringFlag{Name: "python", Usage: "the `PROGRAM` that runs the peers: a Python 3 with PyTorch for CUDA", Value: "python3"}

// peerRef reads peer:NAME or peer:best.
func (e *env) peerRef(text, name string) (ref, error) {
	r := ref{text: text, peer: name}
	if _, err := e.registry.Lookup(kernels.PeerVariant(name).Family); err != nil && name != peerBest {
		return r, hint.Errorf("`normbench list peers` names them; peer:best is the fastest of those that are there", "unknown peer %q", name)
	}
	r.variants = func(kernels.Problem, kernels.DeviceInfo) ([]kernels.Variant, error) {
		if name != peerBest {
			return []kernels.Variant{kernels.PeerVariant(name)}, nil
		}
		var vs []kernels.Variant
		for _, p := range e.peers {
			if p.Missing == "" {
				vs = append(vs, kernels.PeerVariant(p.Name))
			}
		}
		return vs, nil
	}
	return r, nil
}

// peerBest is the REF of the fastest peer.
const peerBest = "best"

// devicesFor are devices, with the peers beside each where a REF names one.
func (e *env) devicesFor(c *cli.Context, refs ...ref) ([]kernels.Device, error) {
	var wanted []string
	for _, r := range refs {
		if r.peer != "" {
			wanted = append(wanted, r.peer)
		}
	}
	devices, err := e.devices(c)
	if err != nil || len(wanted) == 0 {
		return devices, err
	}
	for i, d := range devices {
		both, err := e.beside(c, d, wanted)
		if err != nil {
			closeAll(devices)
			return nil, err
		}
		devices[i] = both
	}
	return devices, nil
}

func (e *env) beside(c *cli.Context, ours kernels.Device, wanted []string) (*peers.Device, error) {
	o := peers.Options{Python: c.String("python"), UUID: ours.Info().UUID, Timeout: peers.DefaultTimeout}
	if c.IsSet("timeout") {
		o.Timeout = c.Duration("timeout")
	}
	theirs, err := peers.Start(e.ctx, o)
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
	there := 0
	for _, p := range all {
		if f, err := e.registry.Lookup(kernels.PeerVariant(p.Name).Family); err == nil {
			f.Version = p.Version
		}
		if p.Missing == "" {
			there++
		}
	}
	for _, name := range wanted {
		if name == peerBest {
			for _, p := range all {
				if p.Missing != "" && first {
					e.notef("left out peer %s: %s", p.Name, oneLine(p.Missing))
				}
			}
			if there == 0 {
				return hint.Errorf(help, "no peer is there")
			}
			continue
		}
		if p, ok := peers.Find(all, name); !ok || p.Missing != "" {
			return hint.Errorf(help, "peer %s is not there: %s", name, oneLine(p.Missing))
		}
	}
	return nil
}

// peerVersions are those of the peers that take part, for the run's line.
func (e *env) peerVersions(env map[string]string) {
	for _, p := range e.peers {
		if p.Missing == "" {
			env[kernels.PeerVariant(p.Name).Family] = p.Version
		}
	}
}

// peerNotes names the versions of the peers among the families, each once.
func (e *env) peerNotes(families []string) (notes []string) {
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
	if err := report.CheckFormat(c.String("format")); err != nil {
		return nil, err
	}
	theirs, err := peers.Start(e.ctx, peers.Options{Python: c.String("python"), Timeout: peers.DefaultTimeout})
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	info := theirs.Info()
	t := newTable(strings.TrimSpace("on "+info.Name+", "+info.Compiler), "peer", "system", "version, or why it is not there")
	for _, p := range theirs.Peers() {
		text := p.Version
		if p.Missing != "" {
			text = "missing: " + oneLine(p.Missing)
		}
		t.Rows = append(t.Rows, []string{"peer:" + p.Name, p.System, text})
	}
	return t, nil
}
