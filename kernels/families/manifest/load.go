package manifest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/internal/yamldoc"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
	"normbench/kernels/families/common"
)

// Prefix stands before the names of files that come from the user's folder. A
// file of theirs includes ours where the folder has none of that name.
const Prefix = "user:"

// The bounds of a folder: bytes of a file, and files.
const (
	maxFile   = 1 << 20
	maxBinary = 64 << 20 // of a cubin or PTX
	maxFiles  = 1000
)

// extensions are those of the texts that a folder may have.
var extensions = []string{".yaml", ".cu", ".cuh", ".h", ".hpp", ".py"}

const folderHelp = "give a folder of manifests (*.yaml) with their .cu files, such as examples/kernels"

// Load loads a folder, with what the environment names.
func Load(r *kernels.Registry, dir string) (*kernels.Registry, []*kernels.Family, error) {
	return Loader{}.Load(r, dir)
}

// Load is r with the families of the manifests in dir, which it returns too. The
// files are read once: what is compiled is what was checked.
func (from Loader) Load(r *kernels.Registry, dir string) (*kernels.Registry, []*kernels.Family, error) {
	files, err := ReadFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	with, made, err := from.load(r, dir, files)
	if err == nil && len(made) == 0 {
		err = hint.Errorf(folderHelp, "%s has no manifest (*.yaml)", dir)
	}
	return with, made, err
}

// LoadBase is Load of the same folder at another commit. Manifests that cannot be loaded are left out: leave is told
// why. Their errors name files within the folder.
func (from Loader) LoadBase(r *kernels.Registry, dir string,
	leave func(manifest string, why error)) (*kernels.Registry, []*kernels.Family, error) {
	files, err := ReadFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	from.Named, from.leaveManifest = nil, leave
	return from.load(r, dir, files)
}

// Names lists the families of a folder's manifests, as far as these can be read.
func Names(dir string) (names []string, err error) {
	files, err := ReadFolder(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		if ds, err := parse(name, []byte(files[name])); err == nil {
			for _, d := range ds {
				names = append(names, d.Name.Text)
			}
		}
	}
	return names, nil
}

// load is Load of the files of a folder, which may have no manifest.
func (from Loader) load(r *kernels.Registry, dir string,
	files map[string]string) (*kernels.Registry, []*kernels.Family, error) {
	with := *r
	with.Families = slices.Clone(r.Families)
	with.File = func(name string) (string, error) {
		rest, ok := strings.CutPrefix(name, Prefix)
		if !ok {
			return r.File(name)
		}
		if text, ok := files[rest]; ok {
			return text, nil
		}
		return r.File(rest)
	}
	made, err := from.assemble(&with, dir, Prefix, files, nil)
	if err != nil {
		return nil, nil, err
	}
	with.Families = append(with.Families, made...)
	return &with, made, nil
}

// Stages are the host stages of the kernels of a pass, by their entries.
type Stages map[kernels.Pass]map[string]kernels.HostStage

// LoadOwn makes the families of manifests that are part of the program, among files. They may name
// families of r, which has the files too, and each other. One that names no host has the stages
// of its own kernels.
func LoadOwn(r *kernels.Registry, files map[string]string, stages Stages) ([]*kernels.Family, error) {
	return Loader{}.assemble(r, "", "", files, stages)
}

// LoadOther is LoadOwn of the files of another checkout's folder, which r reads. Manifests that this program
// cannot load are left out: leave is told why.
func LoadOther(r *kernels.Registry, dir string, files map[string]string, stages Stages,
	leave func(manifest string, why error)) ([]*kernels.Family, error) {
	return Loader{leaveManifest: leave}.assemble(r, dir, "", files, stages)
}

// probeNamed probes designs, and returns those that are not left out.
func (from Loader) probeNamed(designs []*design, names map[*design]string, dir string,
	files map[string]string) (left []*design, err error) {
	named := from.Named
	some := named != nil && slices.ContainsFunc(designs, func(d *design) bool { return named(d.Name.Text) })
	hosts := func(name string) bool {
		return slices.ContainsFunc(designs, func(d *design) bool { return d.Host.Text == name })
	}
	errs := probe(from.Python, designs, dir, files)
	var out []*design
	for _, d := range designs {
		switch err := errs[d]; {
		case err == nil:
			left = append(left, d)
		case from.leaveManifest != nil:
			from.leaveManifest(names[d], err)
		case !some || named(d.Name.Text) || hosts(d.Name.Text):
			return nil, err
		default:
			out = append(out, d)
		}
	}
	for _, d := range out {
		from.Leave(d.Name.Text, errs[d])
	}
	return left, nil
}

// assemble makes the families of the manifests among files, whose names in r have a prefix.
func (from Loader) assemble(r *kernels.Registry, dir, prefix string, files map[string]string,
	stages Stages) ([]*kernels.Family, error) {
	names := map[*design]string{}
	var designs []*design
	places := map[string]yamldoc.Position{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		ds, err := parse(filepath.Join(dir, name), []byte(files[name]))
		if err != nil && from.leaveManifest != nil {
			from.leaveManifest(name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, d := range ds {
			if first, ok := places[d.Name.Text]; ok {
				return nil, d.Name.Errorf("rename one of the two",
					"%q is the name of a family at %s already", d.Name.Text, first.At)
			}
			if _, err := r.Lookup(d.Name.Text); err == nil || d.Name.Text == "base" {
				return nil, d.Name.Errorf("choose another; `normbench list families` shows all",
					"%q is the name of one of normbench's families", d.Name.Text)
			}
			places[d.Name.Text] = d.Name.Position
			names[d], designs = name, append(designs, d)
		}
	}
	designs, err := from.probeNamed(designs, names, dir, files)
	if err != nil {
		return nil, err
	}
	var made []*kernels.Family
	with := *r
	for _, hosted := range []bool{false, true} { // a host is made before those that it is for
		for _, d := range designs {
			if (d.Host.Text != "") != hosted {
				continue
			}
			f, err := link(&with, d, code{prefix: prefix, include: from.Include}, dir, names[d], files, stages)
			if err != nil && from.leaveManifest != nil {
				from.leaveManifest(names[d], err)
				continue
			}
			if err != nil {
				return nil, err
			}
			made, with.Families = append(made, f), append(slices.Clip(with.Families), f)
		}
	}
	return made, nil
}

// ReadFolder reads what a manifest in dir may name, and the manifests, by their names. It refuses a folder of which a
// link leads out, or that is too large: it may be a pull request's.
func ReadFolder(dir string) (map[string]string, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, hint.Errorf(folderHelp, "no folder %s", dir)
	case err != nil:
		if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
			return nil, hint.Errorf(folderHelp, "%s is no folder", dir)
		}
		return nil, hint.With(err, folderHelp)
	}
	root, err := os.OpenRoot(dir) // a link out of the folder is an error
	if err != nil {
		return nil, hint.With(err, folderHelp)
	}
	defer root.Close()
	files := map[string]string{}
	for _, e := range entries {
		compiled := (nvrtc.Source{Name: e.Name()}).IsCompiled()
		if !compiled && !slices.Contains(extensions, filepath.Ext(e.Name())) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if len(files) == maxFiles {
			return nil, hint.Errorf(folderHelp, "%s has more than %d manifests and sources", dir, maxFiles)
		}
		info, err := root.Stat(e.Name()) // of what a link points to
		switch {
		case err != nil:
			return nil, hint.Errorf("copy into the folder what it links to", "%s: %w", path,
				durable.Cause(err))
		case !info.Mode().IsRegular():
			continue
		case info.Size() > maxFile && !(compiled && info.Size() <= maxBinary):
			return nil, hint.Errorf("split it", "%s has %s, more than %s",
				path, kernels.FormatBytes(info.Size()), kernels.FormatBytes(maxFile))
		}
		b, err := root.ReadFile(e.Name())
		if err != nil {
			return nil, hint.Errorf(folderHelp, "%s: %w", path, err)
		}
		if !compiled {
			b = textfile.TrimMark(b)
		}
		files[e.Name()] = string(b)
	}
	return files, nil
}

// link finds what a manifest names: folders of headers, files, with the kernels and headers in
// them, and the host family.
func link(r *kernels.Registry, d *design, c code, dir, name string, files map[string]string,
	stages Stages) (*kernels.Family, error) {
	own, err := d.findFolders(dir)
	if err != nil {
		return nil, err
	}
	c.include = slices.Concat(own, c.include)
	if c.prefix != "" {
		c.include = append(c.include, nvrtc.UserFolders()...)
	}
	hashed := []string{c.prefix + name}
	var binaries []string
	for _, l := range d.launches {
		if l.zero.Text != "" {
			continue
		}
		included, err := l.find(r, d, c, files)
		if err != nil {
			return nil, err
		}
		if l.Source.Text == "" {
			binaries = append(binaries, l.file().Text)
		}
		hashed = append(hashed, included...)
	}
	if d.reduce != nil {
		src, err := nvrtc.ReadSource(r.File, common.ReduceSource)
		if err != nil {
			return nil, err
		}
		hashed = slices.AppendSeq(append(hashed, src.Name), maps.Keys(src.Headers))
	}
	if c.host, err = d.findHost(r); err != nil {
		return nil, err
	}
	if c.host == nil {
		c.own = stages[d.Pass]
	}
	slices.Sort(hashed)
	c.files = slices.Compact(hashed)
	f := newFamily(d, c)
	if c.prefix != "" { // else all code is the program's
		f.Version = foreign(c.files, binaries, files, c.include)
	}
	for _, l := range d.tritonLaunches() {
		f.Version = strings.TrimSpace(f.Version + " triton " + l.python.function.Compiler)
	}
	return f, nil
}

// findFolders finds the folders of headers, which are named from dir.
func (d *design) findFolders(dir string) (found []string, err error) {
	for _, w := range d.Include {
		folder := w.Text
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		folder, err := filepath.Abs(folder)
		if st, bad := os.Stat(folder); err != nil || bad != nil || !st.IsDir() {
			return nil, w.Errorf("name a folder of headers, from the manifest's", "no folder %s", folder)
		}
		found = append(found, folder)
	}
	return found, nil
}

// find finds a launch's kernel. Of a source it returns its name and those of the files that it
// includes.
func (l *launchSpec) find(r *kernels.Registry, d *design, c code, files map[string]string) (
	included []string, err error) {
	file, entry, prefix := l.file(), l.Entry.Text, c.prefix
	text, ok := files[file.Text]
	if !ok {
		return nil, file.Errorf("put it beside the manifest", "no file %s", file.Text)
	}
	if l.Source.Text == "" {
		b := nvrtc.Binary{Cubin: []byte(text)}
		if l.symbol, err = b.Find(entry); err != nil {
			return nil, l.Entry.Errorf("name a kernel as the source has it, or by its symbol",
				"%s %v", file.Text, err)
		}
		return nil, nil
	}
	src, bad := nvrtc.ReadSource(r.File, prefix+file.Text)
	included = []string{src.Name}
	for name := range src.Headers {
		included = append(included, prefix+name)
	}
	if l.python != nil {
		return included, nil
	}
	name, _, _ := strings.Cut(entry, "<")
	name = name[strings.LastIndexByte(name, ':')+1:]
	missing := d.missing(src.Missing, c.include)
	if !opens(text, name) { // a macro or a header may make it
		joined := src.Joined(c.include, nil)
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(joined) {
			for _, m := range includedRE.FindAllStringSubmatch(joined, -1) {
				missing = append(missing, m[1])
			}
			if missing = d.missing(missing, c.include); len(missing) == 0 {
				return nil, l.Entry.Errorf("write __global__ void "+name+"(...)",
					"%s has no kernel %s", file.Text, name)
			}
		}
	}
	if bad != nil {
		return nil, file.Errorf(hint.Of(bad), "%s includes %v", file.Text, bad)
	}
	if len(missing) > 0 {
		return nil, file.Errorf("put them beside the manifest or name their folders under include:; those that "+
			"only host code needs stand under without:; normbench's are common.cuh, plain.cuh, reduce.cuh and pipe.cuh",
			"%s includes %s, which %s nowhere", file.Text, quotedList(missing),
			map[bool]string{true: "is", false: "are"}[len(missing) == 1])
	}
	if name := macroParameter(text, l.macros); name != "" {
		return nil, file.Errorf("rename the parameter, or the knob or define that makes the macro; the entry "+
			"may hand the macro on, as in rms_block<TPB>", "%s has a template parameter %s, which is also a macro: "+
			"the compiler sees the macro's number there", file.Text, name)
	}
	l.common = slices.Contains(included, prefix+"common.cuh") || slices.Contains(included, prefix+"plain.cuh")
	return included, nil
}

// opens says whether a text has a name as a word, with a parenthesis behind it. A pattern that begins with a word's
// edge takes ten times as long, at every start of the program.
func opens(text, name string) bool {
	return slices.ContainsFunc(regexp.MustCompile(name+`\s*\(`).FindAllStringIndex(text, -1), func(at []int) bool {
		return at[0] == 0 || !wordRE.MatchString(text[at[0]-1:at[0]])
	})
}

var wordRE = regexp.MustCompile(`\w`)

// macroParameter finds a template parameter of GPU code that is called as one of the macros. A template of
// host code alone is no trouble, as it is cut off.
func macroParameter(text string, macros []string) string {
	if !strings.Contains(text, "template") {
		return ""
	}
	for _, m := range templateRE.FindAllStringSubmatch(nvrtc.StripComments(text), -1) {
		if !strings.Contains(m[2], "__global__") && !strings.Contains(m[2], "__device__") {
			continue
		}
		for _, p := range parameterRE.FindAllStringSubmatch(m[1], -1) {
			if slices.Contains(macros, p[1]) {
				return p[1]
			}
		}
	}
	return ""
}

// A template's list of parameters, without templates in it, with what it is of; and a parameter's name.
var (
	templateRE  = regexp.MustCompile(`\btemplate\s*<([^<>]*)>([^;{]*)`)
	parameterRE = regexp.MustCompile(`\b([A-Za-z_]\w*)\s*(?:=[^,]*)?(?:,|$)`)
)

// includedRE finds what a source includes in angle brackets.
var includedRE = regexp.MustCompile(`(?m)^\s*#\s*include\s*<([^>\n]+)>`)

// missing returns the headers that no folder has, but for those that d is without.
func (d *design) missing(names, folders []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		without := func(w yamldoc.Word) bool { return w.Text == name }
		return slices.ContainsFunc(d.Without, without) || nvrtc.Found(folders, name) || nvrtc.IsCUDA(name) ||
			nvrtc.IsStandard(name)
	})
}

// quotedList is names in quotes.
func quotedList(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", name)
	}
	return b.String()
}

// findHost finds the family whose host stages stand in, or nil.
func (d *design) findHost(r *kernels.Registry) (*kernels.Family, error) {
	if d.Host.Text == "" {
		return nil, nil
	}
	host, err := r.Lookup(d.Host.Text)
	if err != nil {
		return nil, d.Host.Errorf(hint.Of(err), "%v", err)
	}
	if host.Op != d.Op || host.Pass != d.Pass || host.Stream || len(host.Host) == 0 {
		return nil, d.Host.Errorf("name a family with host stages of the same op and pass",
			"%s is of no use for %s %s", d.Host.Text, d.Op, d.Pass)
	}
	return host, nil
}

// foreign is a hash of compiled code, and of what these files include of the folders, or "".
func foreign(names, binaries []string, files map[string]string, include []string) string {
	own := nvrtc.Source{Headers: map[string]string{}}
	for _, name := range names {
		own.Headers[name] = files[strings.TrimPrefix(name, Prefix)]
	}
	parts := nvrtc.HeaderHashes(own, include)
	for _, name := range binaries {
		parts = append(parts, fmt.Sprintf("%s %x", name, sha256.Sum256([]byte(files[name]))))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\n"))))[:12]
}
