package families

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// An Identity computes hashes of the code that families run on one kind of device. Two programs give a
// family the same hash if its sources are the same but for comments, blanks around lines and empty
// lines. Its methods may be called from several goroutines.
type Identity struct {
	registry *kernels.Registry
	host     bool

	mu      sync.Mutex
	sources map[*kernels.Family]string
	stages  string // the code of all host stages
}

// NewIdentity makes the Identity of r's families for a kind of device.
func NewIdentity(r *kernels.Registry, kind string) *Identity {
	return &Identity{registry: r, host: kind == kernels.KindCPU, sources: map[*kernels.Family]string{}}
}

// Source hashes f's sources to 12 hexadecimal digits: its CUDA files with their headers and the flags of
// every compilation, or on a CPU all host stages (hostFiles). Foreign code counts by its text and its
// version.
func (i *Identity) Source(f *kernels.Family) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := i.sources[f]; ok {
		return s, nil
	}
	code, err := "", error(nil)
	switch {
	case !i.host || f.Host == nil:
		code, err = i.code(slices.DeleteFunc(slices.Sorted(slices.Values(f.Files)), isManifest))
	case i.stages == "":
		i.stages, err = i.code(hostFiles())
		fallthrough
	default:
		code = i.stages
	}
	if err != nil {
		return "", fmt.Errorf("source file of %s: %w", f.Name, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n%s", f.Version, code)
	i.sources[f] = hex.EncodeToString(h.Sum(nil))[:12]
	return i.sources[f], nil
}

// SourceOf is Source of the family with that name, "" where there is none.
func (i *Identity) SourceOf(name string) string {
	f, err := i.registry.Lookup(name)
	if err != nil {
		return ""
	}
	s, _ := i.Source(f) // of files that are read again elsewhere
	return s
}

// isManifest says whether a file is a manifest, which no device runs.
func isManifest(name string) bool { return path.Ext(name) == ".yaml" }

// code joins files without what a compiler ignores, such as comments.
func (i *Identity) code(names []string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		text, err := i.registry.File(name)
		if err != nil {
			return "", err
		}
		if !(nvrtc.Source{Name: name}).IsPython() { // where // divides
			text = nvrtc.StripComments(text)
		}
		if path.Ext(name) == ".cu" {
			text = strings.Join(nvrtc.FixedFlags, " ") + "\n" + text
		}
		fmt.Fprintf(&b, "%s %d:%s\n", strings.TrimPrefix(name, Baseline), len(text), text)
	}
	return b.String(), nil
}

// Launches hashes what a plan launches to 12 hexadecimal digits: entries, geometry, arguments and
// defines.
func Launches(p kernels.Plan) string {
	p.Launches = slices.Clone(p.Launches)
	for n := range p.Launches {
		p.Launches[n].Source = strings.TrimPrefix(p.Launches[n].Source, Baseline)
		p.Launches[n].Include = nil // what headers say is in the family\'s Version
	}
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])[:12]
}
