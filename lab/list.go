package lab

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/devices/peers"
	"normbench/kernels/devices/worker"
	"normbench/kernels/families"
	"normbench/kernels/launchmap"
	"normbench/report"
)

// DeviceTable has this machine's devices, and cards known by public figures.
func (l *Lab) DeviceTable() (*report.Table, error) {
	t := report.New("", "device", "name", "arch", ">SMs/cores=sms", ">cache=cache_bytes", ">memory=memory_bytes", "compiler",
		"launches by=launches_by", "results in=results_in")
	t.Data = report.New("", "device", "name", "arch", ">sms", ">cache_bytes", ">memory_bytes", "compiler",
		"launches_by", "results_in")
	t.Drop = []string{"compiler", "memory", "launches by"}
	row := func(name string, d kernels.DeviceInfo) {
		folder := "" // none yet, or not here
		for _, root := range []string{"results/", "out/"} {
			if _, err := os.Stat(root + d.ID); err == nil {
				folder = root + d.ID
			}
		}
		step := families.Rung(d).String()
		t.Rows = append(t.Rows, []string{name, d.Name, d.Arch, strconv.Itoa(d.SMs),
			kernels.FormatBytes(d.CacheBytes), kernels.FormatBytes(d.MemoryBytes), d.Compiler, step, folder})
		t.Data.Rows = append(t.Data.Rows, []string{name, d.Name, d.Arch, strconv.Itoa(d.SMs),
			strconv.FormatInt(d.CacheBytes, 10), strconv.FormatInt(d.MemoryBytes, 10), d.Compiler, step, folder})
	}
	host, err := local.OpenCPU(l.Registry)
	if err != nil {
		return nil, err
	}
	row("cpu", host.Info())
	if err := local.EachGPU(l.Registry, func(name string, d kernels.DeviceInfo, err error) {
		if err != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s", name, console.OneLine(err.Error())))
			return
		}
		row(name, d)
	}); err != nil {
		t.Notes = append(t.Notes, "no cuda device: "+console.OneLine(err.Error()))
	}
	var keys []string
	for _, k := range launchmap.KnownDevices() {
		row(k.Key, k.DeviceInfo)
		keys = append(keys, k.Key)
	}
	t.Notes = append(t.Notes, strings.Join(keys, ", ")+": by public figures, for explain, map, lint "+
		"and list configs without the card")
	return t, nil
}

// PeerTable has the other libraries that a Python has.
func (l *Lab) PeerTable(python string) (*report.Table, error) {
	l.Started() // the peers' worker and its folder must not be left behind
	theirs, err := l.importPeers(peers.LibraryOptions{Python: python,
		Timeout: peers.DefaultTimeout})
	t := report.New("", "peer", "system", "at a new shape=builds", "version, or why it is not there=version",
		"in a backward's time=interval")
	t.Drop = []string{"in a backward's time"}
	// no PyTorch, or no GPU that it sees: so there is none of them
	if said := new(worker.Trouble); errors.As(err, &said) {
		t.Data = report.New("", "peer", "system", "builds", "version", "interval") // csv has no notes
		for _, name := range peers.Names {
			t.Rows = append(t.Rows, []string{"peer:" + name, "", "", "missing", ""})
			t.Data.Rows = append(t.Data.Rows, []string{"peer:" + name, "", "", "missing: " + said.Text, ""})
		}
		t.Notes = append(t.Notes, console.OneLine(said.Text), hint.Of(err))
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	info := theirs.Info()
	t.Device = info.ID
	t.Title = strings.TrimSpace("on " + info.Name + ", " + info.Compiler)
	for _, p := range theirs.Peers() {
		text := p.Version
		if p.Missing != "" {
			text = "missing: " + console.OneLine(p.Missing)
		}
		_, interval := peers.About(p.Name)
		t.Rows = append(t.Rows, []string{"peer:" + p.Name, p.System, p.Builds, text, interval})
	}
	return t, nil
}
