// Package lab does what a command asks for once its flags are read: it opens the devices, with peers
// beside them and the kernels of a user, sweeps, learns, compares live and verifies.
package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/local"
	"normbench/kernels/devices/peers"
	"normbench/kernels/families"
	"normbench/kernels/families/manifest"
	"normbench/kernels/launchmap"
	"normbench/sweep/ab"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/tune/ref"
)

// HelperCommand is the name of the subcommand that compiles in processes of their own, one for each
// source at the same time.
const HelperCommand = "compile-helper"

// Helper returns the command line that runs the compile helper in this very program, also where its file has been
// replaced since it started.
func Helper() []string {
	self := "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return nil
		}
	}
	return []string{self, HelperCommand}
}

// OpenOptions say what to open. Zero values are defaults, but of Jobs.
type OpenOptions struct {
	Device  string        // auto (""), cpu, cuda, cuda:N, several with commas, or replay:RECORDS
	Workers []string      // commands that start workers, in place of a device; N:COMMAND is N of them
	Start   time.Duration // longest time until a worker has started; 0 for StartLimit
	Timeout time.Duration
	Cache   string // state in which a replay has been recorded: cold or warm
	Seed    uint64 // of a replay
	Python  string // that runs the peers
	Peers   string // names with commas, of which peer:best is one
	Untimed bool   // nothing is timed, so peers may run on a CPU
	Jobs    int    // processes that compile for peers before anything is measured; -1: the CPUs but two
}

// limit returns the time limit that was asked for, else another.
func (c *OpenOptions) limit(otherwise time.Duration) time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return otherwise
}

// A Lab has the registry of kernels, and what is known of the devices that were opened.
type Lab struct {
	*console.Console
	*ref.Resolver
	Ctx      context.Context
	Baseline string // folder of the baseline's kernels, which the registry then holds too
	Kernels  string // folder of the user's kernels, likewise
	// Unread has why manifests of the baseline cannot be loaded, by their files. Their families are not in the registry.
	Unread       map[string]error
	UserFamilies []*kernels.Family
	Loader       manifest.Loader // what these are compiled with
	Among        []string        // the peers that peer:best is among
	Tool         string          // this program's version, for records
	Command      []string        // the whole command line
	Saved        string          // the file with what this command has measured; "" for none
	// Started is called when there is something to end: devices are opened.
	Started func() bool
	quit    func() // ends the program, as a signal does before that

	peers []kernels.Peer          // once a device with peers is open
	timed []kernels.Device        // with peers
	best  *ab.FastestChooser      // of the variants of one operand
	files map[string]*record.File // by path: operands may choose from one file
}

// New makes a lab without devices. Every peer has a family in its registry. Until a device is opened
// the end of ctx calls quit: what only reads and computes has nothing to keep, and would otherwise go
// on to the end and write.
func New(ctx context.Context, c *console.Console, r *kernels.Registry, quit func()) *Lab {
	l := &Lab{Console: c, Resolver: &ref.Resolver{Registry: peers.Register(r, nil), Note: c.NoteOnce},
		Ctx: ctx, Started: context.AfterFunc(ctx, quit), quit: quit, best: ab.NewChooser(c),
		files: map[string]*record.File{}}
	l.Resolver.Recorded = l.recordedVariants
	return l
}

// Open opens devices, with the peers beside each where a REF names one.
func (l *Lab) Open(c *OpenOptions, refs ...*ref.Ref) ([]kernels.Device, error) {
	defer l.Wait("starting the device").End()
	wanted, err := l.peerNames(c, refs)
	if err != nil {
		return nil, err
	}
	devices, err := l.devices(c)
	if err != nil {
		return nil, err
	}
	if err := l.checkEffect(c, devices[0]); err != nil {
		Close(devices)
		return nil, err
	}
	l.noteRung(devices[0].Info())
	for i, d := range devices {
		if len(wanted) == 0 {
			break
		}
		both, err := l.startPeers(c, d, wanted)
		if err != nil {
			Close(devices)
			return nil, err
		}
		devices[i] = both
	}
	return devices, nil
}

// noteRung says whose map gives a GPU's defaults, where it has none of its own.
func (l *Lab) noteRung(d kernels.DeviceInfo) {
	if d.Kind != kernels.KindCUDA {
		return
	}
	common := launchmap.ClassOf(kernels.Problem{Op: kernels.RMSNorm, Pass: kernels.Fwd, DType: kernels.BF16})
	if step := families.Rung(d).ForClass(common); step.Near != launchmap.Own {
		l.Notef("no map of %s for plain bf16: its defaults are by %s; `normbench map learn` makes its own",
			d.ID, step)
	}
}

// Close closes devices.
func Close(devices []kernels.Device) {
	for _, d := range devices {
		d.Close()
	}
}

// checkEffect refuses what changes nothing on the open device. Otherwise a person who asked for it
// would believe that the result depends on it.
func (l *Lab) checkEffect(c *OpenOptions, dev kernels.Device) error {
	kind := ""
	if _, replayed := dev.(*replay.Device); replayed {
		kind = "a replay of recorded times"
	} else if local.IsCPU(dev) {
		kind = "the cpu, which no worker drives"
	}
	if kind != "" && c.Timeout > 0 && !c.Untimed { // verify's emulator has launches, and peers
		return hint.Errorf("leave it out; it bounds the steps of a worker",
			"--timeout has no effect on %s", kind)
	}
	if kind == "" && dev.Info().Kind == kernels.KindCPU {
		kind = "a cpu"
	}
	if kind != "" && l.Baseline != "" {
		return NoSources(kind)
	}
	return nil
}

// NoSources is the trouble of a baseline on a device without CUDA.
func NoSources(device string) error {
	return hint.Errorf("use --device cuda",
		"--baseline-kernels has no effect on %s: it runs no CUDA sources", device)
}

// devices opens the devices alone. GPUs are driven by workers of this same program, one each; the
// cpu is driven in-process.
func (l *Lab) devices(c *OpenOptions) ([]kernels.Device, error) {
	device := local.Resolve(l.Registry, c.Device)
	path, replayed := strings.CutPrefix(device, "replay:")
	defer l.Started() // a replay's reading may be ended at any time
	if !replayed {
		l.Started()
	}
	switch {
	case len(c.Workers) > 0 && c.Device != "":
		return nil, hint.Errorf("name the device in the worker's command",
			"--worker and --device exclude each other")
	case len(c.Workers) > 0:
		commands, err := workerCommands(c.Workers)
		if err != nil {
			return nil, err
		}
		return l.startTogether(c, commands)
	case replayed:
		d, err := replay.Open(l.Registry, path, c.Cache, c.Seed, l.NoteOnce)
		return []kernels.Device{d}, err
	case device == "cpu" || (device == "" || device == "auto") && !local.HaveCUDA:
		d, err := local.OpenCPU(l.Registry)
		return []kernels.Device{d}, err
	case device != "" && device != "auto":
		return l.gpus(c, device)
	}
	ds, err := l.gpus(c, "cuda:0")
	if err == nil || l.Ctx.Err() != nil {
		return ds, err
	}
	l.Notef("no GPU, using the cpu: %s", console.OneLine(err.Error()))
	d, err := local.OpenCPU(l.Registry)
	return []kernels.Device{d}, err
}

// gpus starts a worker of this program for each GPU named.
func (l *Lab) gpus(c *OpenOptions, names string) ([]kernels.Device, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var commands [][]string
	for name := range strings.SplitSeq(names, ",") {
		if _, err := local.Ordinal(name); err != nil {
			return nil, err
		}
		if !local.HaveCUDA {
			return nil, hint.Errorf("build it with `make cuda`, or use --device cpu",
				"this normbench was built without CUDA, so there is no device %q", name)
		}
		command := []string{self, "worker", "--device", name}
		if l.Baseline != "" {
			command = append(command, "--baseline-kernels", l.Baseline)
		}
		if l.Kernels != "" {
			command = append(command, "--kernels", l.Kernels)
		}
		commands = append(commands, command)
	}
	share, err := local.ShareCompilers(len(commands))
	if err != nil {
		return nil, err
	}
	return l.startTogether(c, commands, share)
}

// UseBaseline adds the kernels of another checkout to the registry, or with --kernels of an earlier
// folder of a user's. A checkout in which that folder is not there yet, or has no manifest, adds none. Manifests of a
// user's that cannot be loaded there are in l.Unread.
func (l *Lab) UseBaseline(dir string) error {
	if dir == "" {
		return nil
	}
	var r *kernels.Registry
	var err error
	manifests, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
	switch {
	case l.Kernels != "" && len(manifests) > 0:
		l.Unread = map[string]error{}
		old, fs, bad := l.Loader.LoadBase(families.New(), dir, func(manifest string, why error) {
			l.Unread[manifest] = hint.Errorf(hint.Of(why), "%s",
				strings.ReplaceAll(why.Error(), dir+string(filepath.Separator), ""))
		})
		if bad != nil {
			return bad
		}
		r, err = families.WithBaselineOf(l.Registry, fs, old.File)
	case l.Kernels != "" && isBefore(dir, l.Kernels):
		r, err = families.WithBaselineOf(l.Registry, nil, nil)
	default:
		r, err = families.WithBaseline(l.Registry, dir)
	}
	if err != nil {
		return err
	}
	l.Registry, l.Baseline = r, dir
	return nil
}

// isBefore says that a folder is one of another checkout, from before it had kernels: it has no CUDA
// sources, or is not there while the checkout is. (A name that is mistyped is in no other checkout.)
func isBefore(dir, kernels string) bool {
	if sources, _ := filepath.Glob(filepath.Join(dir, "*.cu*")); len(sources) > 0 {
		return false
	}
	if _, err := os.Stat(dir); err == nil {
		return true
	}
	top := checkoutOf(dir)
	return top != "" && top != checkoutOf(kernels)
}

// checkoutOf returns the folder of the checkout that a path is in, also where the path is not there; "" of none.
func checkoutOf(path string) string {
	dir, err := filepath.Abs(path)
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

// HasBaseline says whether the other checkout has a family.
func (l *Lab) HasBaseline(family string) bool {
	_, err := l.Registry.Lookup(families.Baseline + family)
	return err == nil
}

// WhyUnread returns why the manifest of a user's family cannot be loaded in the other checkout, nil where it can or is
// not there.
func (l *Lab) WhyUnread(f *kernels.Family) error {
	for _, file := range f.Files {
		if why := l.Unread[strings.TrimPrefix(file, manifest.Prefix)]; why != nil {
			return why
		}
	}
	return nil
}

// GoneFamilies lists the families of the user's that a folder of the other checkout has and --kernels has not. It is
// none where that folder is not there.
func (l *Lab) GoneFamilies(dir string) (names []string, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all, err := manifest.Names(dir)
	return slices.DeleteFunc(all, func(name string) bool {
		return slices.ContainsFunc(l.UserFamilies, func(f *kernels.Family) bool { return f.Name == name })
	}), err
}

// AnyBaseline says whether the other checkout has any family.
func (l *Lab) AnyBaseline() bool {
	return slices.ContainsFunc(l.Registry.Families,
		func(f *kernels.Family) bool { return strings.HasPrefix(f.Name, families.Baseline) })
}
