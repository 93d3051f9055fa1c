package families

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
)

// An Identity says which code a variant runs on one kind of device. Two programs
// give a variant the same identity if they run the same code with the same
// launches. Comments, blanks, launch rules and other Go text around the kernels
// do not count. Its methods may be called from several goroutines.
type Identity struct {
	registry *kernels.Registry
	host     bool

	mu       sync.Mutex
	sources  map[*kernels.Family]string
	stripped map[string]string // files by name, see code
	texts    map[string]*unitText
	decls    map[string][]*decl // of the families' Go files, by the names that they declare
}

// NewIdentity makes the Identity of r's families for a kind of device.
func NewIdentity(r *kernels.Registry, kind string) *Identity {
	return &Identity{registry: r, host: kind == kernels.KindCPU, sources: map[*kernels.Family]string{}, stripped: map[string]string{}, texts: map[string]*unitText{}}
}

// Source is the hash of the code that f's launches run, 12 hexadecimal digits. On a GPU
// that is the CUDA text of its files without comments; on a CPU the Go declarations that its host
// stages reach. Foreign code counts by its text and its version.
func (i *Identity) Source(f *kernels.Family) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := i.sources[f]; ok {
		return s, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", f.Version)
	if stages := i.hostStages(f); len(stages) > 0 {
		if err := i.load(); err != nil {
			return "", fmt.Errorf("source of %s: %w", f.Name, err)
		}
		for _, d := range i.reach(stages) {
			fmt.Fprintf(h, "%d:%s\n", len(d.text), d.text)
		}
	} else {
		for _, name := range slices.Sorted(slices.Values(f.Files)) {
			switch path.Ext(name) {
			case ".yaml", ".yml", ".go":
				continue
			}
			text, err := i.code(name)
			if err != nil {
				return "", fmt.Errorf("source file of %s: %w", f.Name, err)
			}
			fmt.Fprintf(h, "%s %d:%s\n", strings.TrimPrefix(name, Baseline), len(text), text)
		}
	}
	i.sources[f] = hex.EncodeToString(h.Sum(nil))[:12]
	return i.sources[f], nil
}

// Stale says what f's source is now, and whether that is another than a recorded one.
func (i *Identity) Stale(f *kernels.Family, source string) (now string, stale bool) {
	now, err := i.Source(f)
	return now, err == nil && now != FromSchema1(source)
}

// Launches is the hash of what a plan launches, 12 hexadecimal digits: entries, geometry,
// arguments, and the defines whose names occur in the code.
func (i *Identity) Launches(p kernels.Plan) (string, error) {
	p.Launches = slices.Clone(p.Launches)
	for n := range p.Launches {
		l := &p.Launches[n]
		if !l.IsKernel() {
			continue
		}
		i.mu.Lock()
		t, err := i.text(l.Source)
		i.mu.Unlock()
		if err != nil {
			return "", err
		}
		l.Defines = slices.DeleteFunc(slices.Clone(l.Defines), func(d kernels.Define) bool { return !i.host && !t.words[d.Name] })
		l.Source = strings.TrimPrefix(l.Source, Baseline)
	}
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])[:12], nil
}

// code is the text of a file, of C++ without comments.
func (i *Identity) code(name string) (string, error) {
	if s, ok := i.stripped[name]; ok {
		return s, nil
	}
	text, err := i.registry.File(name)
	if err != nil {
		return "", err
	}
	if path.Ext(name) != ".py" {
		text = stripComments(text)
	}
	i.stripped[name] = text
	return text, nil
}

// A unitText is what the code of a file and of those that it includes is made of.
type unitText struct{ words map[string]bool }

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// text reads the words of a CUDA file and of its includes.
func (i *Identity) text(name string) (*unitText, error) {
	if t, ok := i.texts[name]; ok {
		return t, nil
	}
	t := &unitText{map[string]bool{}}
	i.texts[name] = t // also ends a circle of includes
	text, err := i.code(name)
	if err != nil {
		delete(i.texts, name)
		return nil, err
	}
	origin := name[:strings.LastIndexByte(name, ':')+1]
	for _, w := range word.FindAllString(text, -1) {
		t.words[w] = true
	}
	for _, m := range include.FindAllStringSubmatch(text, -1) {
		inner, err := i.text(origin + m[1])
		if err != nil {
			delete(i.texts, name)
			return nil, err
		}
		maps.Copy(t.words, inner.words)
	}
	return t, nil
}

var include = regexp.MustCompile(`(?m)^\s*#\s*include\s*"([^"]+)"`)

// stripComments takes the comments and needless blanks out of C++ text. Strings,
// characters and the ends of lines stay.
func stripComments(s string) string {
	out := make([]byte, 0, len(s))
	blank := func(c byte) { // one blank, or one newline, stands for many
		switch n := len(out); {
		case n == 0 || out[n-1] == '\n':
		case out[n-1] == ' ':
			out[n-1] = min(out[n-1], c) // a newline sorts before a blank
		default:
			out = append(out, c)
		}
	}
	for len(s) > 0 {
		n := 1 // bytes to pass over
		switch {
		case strings.HasPrefix(s, "//"):
			for n < len(s) && (s[n] != '\n' || s[n-1] == '\\') {
				n++
			}
		case strings.HasPrefix(s, "/*"):
			_, rest, _ := strings.Cut(s[2:], "*/")
			n = len(s) - len(rest)
			blank(' ')
		case strings.IndexByte(" \t\r\f\v\n", s[0]) >= 0:
			c := byte(' ')
			if s[0] == '\n' {
				c = '\n'
			}
			blank(c)
		default:
			n = literal(s, out)
			out = append(out, s[:n]...)
		}
		s = s[n:]
	}
	return strings.TrimSpace(string(out))
}

var rawString = regexp.MustCompile(`^R"([^ ()\\\t\v\f\n]{0,16})\(`)

// literal is the length of the string or character that s begins with, behind out; else 1.
func literal(s string, out []byte) int {
	if strings.IndexByte(`R"'`, s[0]) < 0 {
		return 1
	}
	if m := rawString.FindStringSubmatch(s[:min(len(s), 20)]); s[0] == 'R' && m != nil {
		if end := strings.Index(s, ")"+m[1]+`"`); end >= 0 {
			return end + len(m[1]) + 2
		}
	}
	// The quote in 1'000 is none.
	if s[0] != '"' && (s[0] != '\'' || len(out) > 0 && word.Match(out[len(out)-1:]) || len(out) > 0 && '0' <= out[len(out)-1] && out[len(out)-1] <= '9') {
		return 1
	}
	for n := 1; n < len(s) && s[n] != '\n'; n++ {
		switch s[n] {
		case '\\':
			n++
		case s[0]:
			return n + 1
		}
	}
	return 1
}

// A decl is a top-level Go declaration as it is printed without comments, and the
// names that it uses.
type decl struct {
	order int
	text  string
	uses  []string
}

//go:embed schema1.txt
var schema1 string

// FromSchema1 translates the source hash of a schema-1 record, which covered whole files,
// into that of the same files by [Identity.Source] on a GPU. Others are returned as they are.
func FromSchema1(source string) string { return cmp.Or(translated()[source], source) }

var translated = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(schema1) {
		if f := strings.Fields(line); f[0] != "#" {
			m[f[1]] = f[2]
		}
	}
	return m
})

// hostStages are the declarations of f's host stages, where f runs by them.
func (i *Identity) hostStages(f *kernels.Family) (names []string) {
	if !i.host {
		return nil
	}
	for _, stage := range f.Host {
		// "normbench/kernels/families.hostReduce", or ".func1" behind it of a literal.
		_, name, ok := strings.Cut(path.Base(runtime.FuncForPC(reflect.ValueOf(stage).Pointer()).Name()), "families.")
		if !ok {
			return nil // a test's: by its files
		}
		name, _, _ = strings.Cut(name, ".")
		names = append(names, name)
	}
	return names
}

// load reads the declarations of all Go files of this package.
func (i *Identity) load() error {
	if i.decls != nil {
		return nil
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		return err
	}
	decls, order := map[string][]*decl{}, 0
	for _, e := range entries {
		if path.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := i.registry.File(e.Name())
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, e.Name(), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, x := range file.Decls {
			order++
			d := &decl{order: order}
			var names []string
			switch x := x.(type) {
			case *ast.FuncDecl:
				names = []string{x.Name.Name} // of a method too: any call of that name may be of it
			case *ast.GenDecl:
				for _, s := range x.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names = append(names, n.Name)
						}
					}
				}
			}
			used := map[string]bool{}
			ast.Inspect(x, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					used[id.Name] = true
				}
				return true
			})
			d.uses = slices.Sorted(maps.Keys(used))
			var b bytes.Buffer
			// Another file set has no lines, so that blank lines do not count.
			if err := printer.Fprint(&b, token.NewFileSet(), x); err != nil {
				return err
			}
			d.text = b.String()
			for _, n := range names {
				decls[n] = append(decls[n], d)
			}
		}
	}
	i.decls = decls
	return nil
}

// reach lists the declarations that names lead to, in the order of the files.
func (i *Identity) reach(names []string) []*decl {
	seen := map[*decl]bool{}
	for len(names) > 0 {
		n := names[len(names)-1]
		names = names[:len(names)-1]
		for _, d := range i.decls[n] {
			if !seen[d] {
				seen[d] = true
				names = append(names, d.uses...)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b *decl) int { return a.order - b.order })
}
