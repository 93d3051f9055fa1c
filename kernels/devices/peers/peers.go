package peers

import (
	"embed"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
)

// sources are peers.py with its package, and the files of libraries, a peer each.
//
//go:embed peers.py peerbench/*.py libraries/*.py
var sources embed.FS

const program = "peers.py"

// Names lists the libraries: those of the files, with - for _.
var Names = func() (names []string) {
	list, _ := fs.Glob(sources, "libraries/*.py") // the pattern is sound
	for _, file := range list {
		name := strings.TrimSuffix(path.Base(file), ".py")
		names = append(names, strings.ReplaceAll(name, "_", "-"))
	}
	return names
}()

var (
	docstring = regexp.MustCompile(`(?s)^"""(.*?)\.\n(.*?)"""`)
	backward  = regexp.MustCompile(`(?s)\bBackward(?: from [^:]*)?: (.*?)\.(?:\s|$)`)
)

// About returns a library's name for people, and what lies in the timed interval of its backward, as its file says.
func About(name string) (system, interval string) {
	text, _ := sources.ReadFile("libraries/" + strings.ReplaceAll(name, "-", "_") + ".py") // a name that is none has no words
	m := docstring.FindSubmatch(text)
	if m == nil {
		return name, ""
	}
	if found := backward.FindSubmatch(m[2]); found != nil {
		interval = strings.Join(strings.Fields(string(found[1])), " ")
	}
	return string(m[1]), interval
}

// Register is r with a hidden family for each peer, so that sweeps leave them out. What a peer
// cannot do its worker says when it is asked. found are those of a worker with their versions, if
// that is known, callables too.
func Register(r *kernels.Registry, found []kernels.Peer) *kernels.Registry {
	with := *r
	with.Families = slices.DeleteFunc(slices.Clone(r.Families),
		func(f *kernels.Family) bool { return strings.HasPrefix(f.Name, kernels.Callable) })
	with.File = func(name string) (string, error) {
		if text, err := sources.ReadFile(name); err == nil {
			return string(text), nil
		}
		return r.File(name)
	}
	put := func(name string) {
		p, _ := Find(found, name)
		f := family(name, p.Version)
		i := slices.IndexFunc(with.Families, func(x *kernels.Family) bool { return x.Name == f.Name })
		if i < 0 {
			with.Families = append(with.Families, f)
		} else {
			with.Families[i] = f
		}
	}
	for _, name := range Names {
		put(name)
	}
	for _, p := range found {
		put(p.Name)
	}
	return &with
}

var another = regexp.MustCompile(`(?m)^from libraries import (\w+)`)

// files are those that a peer runs. A callable's own are in its version.
func files(name string) []string {
	list, _ := fs.Glob(sources, "peerbench/*.py") // the pattern is sound
	list = append([]string{program}, list...)
	shared := len(list)
	file := "libraries/" + strings.ReplaceAll(name, "-", "_") + ".py"
	if text, err := sources.ReadFile(file); err == nil {
		list = append(list, file)
		for _, m := range another.FindAllSubmatch(text, -1) {
			list = append(list, files(string(m[1]))[shared:]...)
		}
	}
	return list
}

// serves refuses the ops that peers.py does not know.
func serves(p kernels.Problem) error {
	if p.Op != kernels.RMSNorm && p.Op != kernels.LayerNorm && !p.IsGated() {
		return hint.Errorf("peers have rmsnorm and layernorm, gated ones too", "no peer has %s", p.Op)
	}
	return nil
}

func family(name, version string) *kernels.Family {
	return &kernels.Family{
		Name:    kernels.PeerVariant(name).Family,
		Doc:     "other people's kernels",
		Origin:  name,
		Files:   files(name),
		Hidden:  true,
		Version: version,
		Bits:    kernels.NotBitwise, // nobody states it of them
		Serves:  serves,
		Base:    func(kernels.Problem, kernels.DeviceInfo) kernels.Config { return kernels.Config{} },
		Refuse:  func(kernels.Problem, kernels.Config, kernels.DeviceInfo) error { return nil },
		Plan: func(kernels.Problem, kernels.Config, kernels.DeviceInfo) (none kernels.Plan) {
			return none
		},
	}
}
