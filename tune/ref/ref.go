// Package ref has the grammar of operands: texts that name variants to run, such as base,
// rms_fwd/cta_reg@w8, or results/nvidia-h200#base. What the records of one have is read by package lab.
package ref

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families/presets"
	"normbench/tune"
)

// RunHelp is the grammar in words, for hints and helps.
const RunHelp = "A REF is base, FAMILY, FAMILY@LABEL, preset:NAME, tuned:FILE, peer:NAME, peer:best or " +
	"py:FILE.py:FUNCTION; records, with a # as for compare, stand for the variants in them"

// A Form is a form of an operand's text.
type Form int

// The forms.
const (
	// These are the forms.
	Base     Form = iota // base
	Family               // FAMILY or FAMILY@LABEL
	Preset               // preset:NAME
	Tuned                // tuned:FILE
	Peer                 // peer:NAME, peer:best or py:FILE.py:FUNCTION
	Recorded             // PATH or PATH#SELECTOR
)

// Best is the name of peer:best, the fastest peer.
const Best = "best"

// A Ref is an operand whose text was read.
type Ref struct {
	Text   string
	Form   Form
	Name   string // of the family, preset or peer; of Tuned the file
	config kernels.Config
	preset *presets.Preset
	// isRecording are the right variants of Recorded.
	recorded map[kernels.Problem]kernels.Variant
}

// A Resolver finds the variants that operands name. It has the registry, the peers and the tables that
// they may name.
type Resolver struct {
	Registry *kernels.Registry
	Peers    []string // names of those that peer:best is among, as far as they are there
	// Note hears what a person should know; it says each line once.
	Note func(lines ...string)
	// Recorded reads the right variants that a recorded operand has.
	Recorded func(text string) (map[kernels.Problem]kernels.Variant, error)

	tuned map[tunedKey]*TunedBook
}

// ParseAll reads operands to run.
func (s *Resolver) ParseAll(texts ...string) (refs []*Ref, err error) {
	for _, text := range texts {
		r, err := s.Parse(text)
		if err != nil {
			return nil, err
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// Parse reads an operand to run. A text that names a file or a folder means the variants recorded in it,
// unless a family has that name.
func (s *Resolver) Parse(text string) (r *Ref, err error) {
	r = &Ref{Text: text}
	form, name, _ := strings.Cut(text, ":")
	switch {
	case text == "base":
		return r, nil
	case form == "peer":
		r.Form, r.Name = Peer, name
		_, err := s.Registry.Lookup(kernels.PeerVariant(name).Family)
		if err != nil && name != Best {
			return nil, hint.Errorf("`normbench list peers` names them; peer:best is the "+
				"fastest of those that are there", "unknown peer %q", name)
		}
		return r, nil
	case form+":" == kernels.Callable:
		r.Form = Peer
		r.Name, err = callableName(name)
		return r, err
	case form == "preset":
		r.Form, r.Name = Preset, name
		r.preset, err = presets.Lookup(name)
		return r, err
	case form+":" == tunedForm:
		r.Form, r.Name = Tuned, name
		_, err = tune.Read(name)
		return r, err
	}
	if s.isRecording(text) {
		r.Form = Recorded
		r.recorded, err = s.Recorded(text)
		return r, err
	}
	return r, s.parseFamily(r)
}

// callableName reads FILE.py:FUNCTION, makes the name of its peer and checks that the file exists. The
// file's path may have colons.
func callableName(text string) (string, error) {
	file, function := text, ""
	if i := strings.LastIndex(text, ".py:"); i >= 0 {
		file, function = text[:i+len(".py")], text[i+len(".py"):]
	}
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(file, "~/") {
		file = home + file[1:]
	}
	st, err := os.Stat(file)
	switch {
	case filepath.Ext(file) != ".py" || function != "" && !functionName.MatchString(function):
		return "", hint.Errorf("write py:FILE.py:FUNCTION; docs/python.md says what it is called with",
			"py:%s names no function of a .py file", text)
	case strings.ContainsRune(file, '@'):
		return "", hint.Errorf("rename it, or call it from another one",
			"%s has an @ in its name, behind which the label of a variant stands", file)
	case err != nil || !st.Mode().IsRegular():
		return "", hint.Errorf("the path is from the current folder, as of other files",
			"there is no file %s", file)
	}
	return kernels.Callable + filepath.Clean(file) + function, nil
}

var functionName = regexp.MustCompile(`^:\w+$`)

// Runs says whether an operand names variants to run, and not recorded times.
func (s *Resolver) Runs(text string) bool {
	if text != "base" && s.isRecording(text) {
		return false
	}
	r, err := s.Parse(text)
	return err == nil && r.Form != Tuned
}

// isRecording says whether an operand names a file or folder. The name of a family counts before it, as
// its folder often has the same: ./NAME is the folder.
func (s *Resolver) isRecording(text string) bool {
	if _, err := s.Registry.Lookup(text); err == nil {
		return false
	}
	path, _, _ := strings.Cut(text, "#")
	_, err := os.Stat(path)
	return err == nil
}

// parseFamily reads FAMILY or FAMILY@LABEL into r, and checks that the family exists.
func (s *Resolver) parseFamily(r *Ref) error {
	family, config, err := parseVariant(r.Text, "write FAMILY for its base config, or FAMILY@LABEL")
	if err != nil {
		return err
	}
	if name, ok := kernels.PeerName(family); ok {
		return hint.Errorf("write peer:"+name, "%s is no family of ours", family)
	}
	r.Form, r.Name, r.config = Family, family, config
	if _, err := s.Registry.Lookup(family); err == nil {
		return nil
	}
	names := []string{"base"}
	for _, f := range s.Registry.Families {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	return hint.Errorf(hint.DidYouMean(family, names, RunHelp), "unknown REF %q", r.Text)
}

// parseVariant splits FAMILY@LABEL and reads the label.
func parseVariant(text, help string) (family string, c kernels.Config, err error) {
	family, label, labelled := strings.Cut(text, "@")
	if labelled && label == "" {
		return "", c, hint.Errorf(help, "nothing stands behind the @ of %s", text)
	}
	c, err = kernels.ParseConfig(label)
	return family, c, err
}

// Peer returns the NAME of peer:NAME, Best where recorded variants of peers are to run, else "".
func (r *Ref) Peer() string {
	if r.Form == Peer {
		return r.Name
	}
	for _, v := range r.recorded {
		if _, ok := kernels.PeerName(v.Family); ok {
			return Best
		}
	}
	return ""
}

// Variants returns the variants that an operand has for a problem on a device, mostly one. Where there
// are none the error says why; it is nil where the operand is simply for other problems.
func (s *Resolver) Variants(r *Ref, p kernels.Problem, d kernels.DeviceInfo) (
	vs []kernels.Variant, err error) {
	var v kernels.Variant
	switch r.Form {
	case Base:
		v, err = s.Registry.Base(p, d)
	case Preset:
		return r.preset.Variants(s.Registry, p, d)
	case Peer:
		names := []string{r.Name}
		if r.Name == Best {
			names = s.Peers
		}
		for _, name := range names {
			vs = append(vs, kernels.PeerVariant(name))
		}
		return vs, nil
	case Recorded:
		v = r.recorded[p]
	case Tuned:
		v, err = s.tunedVariant(r, p, d)
	case Family:
		f, bad := s.Registry.Lookup(r.Name)
		if bad != nil || f.Op != p.Op || f.Pass != p.Pass {
			return nil, bad
		}
		_, v, _, err = s.Registry.Resolve(p, kernels.Variant{Family: r.Name, Config: r.config}, d)
	}
	if err != nil || v.Family == "" {
		return nil, err
	}
	return []kernels.Variant{v}, nil
}
