package families

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"normbench/kernels"
	"normbench/kernels/nvrtc"
)

// An Identity says which code a variant runs on one kind of device. Two programs
// give a variant the same identity if they run the same code with the same
// launches. Comments, blanks, declarations that are not used, launch rules and other
// Go text around the kernels do not count. Its methods may be called from several goroutines.
type Identity struct {
	registry *kernels.Registry
	host     bool

	mu      sync.Mutex
	sources map[*kernels.Family]string
	reader  *nvrtc.Reader
	decls   map[string][]*decl // of Go files, by the names that they declare, see read
}

// NewIdentity makes the Identity of r's families for a kind of device.
func NewIdentity(r *kernels.Registry, kind string) *Identity {
	return &Identity{registry: r, host: kind == kernels.KindCPU, sources: map[*kernels.Family]string{}, reader: nvrtc.NewReader(r.File)}
}

// Source is the hash of the code that f's launches run, 12 hexadecimal digits. On a GPU
// these are the declarations that its kernels reach and the flags of every compilation, see
// [nvrtc.Reader.Code]; on a CPU the Go declarations that its host stages reach, in this package and
// in package kernels. Foreign code counts by its text and its version.
func (i *Identity) Source(f *kernels.Family) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s, ok := i.sources[f]; ok {
		return s, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", f.Version)
	if stages := i.hostStages(f); len(stages) > 0 {
		err := i.load()
		var reached []*decl
		if err == nil {
			reached, err = i.reach(stages)
		}
		if err != nil {
			return "", fmt.Errorf("source of %s: %w", f.Name, err)
		}
		for _, d := range reached {
			fmt.Fprintf(h, "%d:%s\n", len(d.text), d.text)
		}
	} else {
		for _, name := range slices.Sorted(slices.Values(f.Files)) {
			var text string
			var err error
			switch path.Ext(name) {
			case ".cu":
				var c nvrtc.Code
				c, err = i.reader.Code(name)
				text = strings.Join(nvrtc.FixedFlags, " ") + "\n" + c.Text
			case ".py":
				text, err = i.registry.File(name)
			default: // headers are in the code that includes them
				continue
			}
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
	return now, err == nil && now != source
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
		c, err := i.reader.Code(l.Source)
		i.mu.Unlock()
		if err != nil {
			return "", err
		}
		l.Defines = slices.DeleteFunc(slices.Clone(l.Defines), func(d kernels.Define) bool { return !i.host && !c.Words[d.Name] })
		l.Source = strings.TrimPrefix(l.Source, Baseline)
	}
	sum := sha256.Sum256([]byte(p.String()))
	return hex.EncodeToString(sum[:])[:12], nil
}

// A decl is a top-level Go declaration.
type decl struct {
	order int
	node  ast.Node
	top   map[any]bool // the parser's objects of the file's top level
	pkg   string       // "", or helpers
	text  string       // as it is printed without comments; "" until it is reached
	uses  []string     // the names that it uses, likewise
}

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

// load reads the declarations of all Go files of this package and of package kernels.
func (i *Identity) load() error {
	if i.decls != nil {
		return nil
	}
	ours, err1 := fs.Glob(files, "*.go")
	theirs, err2 := fs.Glob(kernels.Sources, "*.go")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for n := range theirs {
		theirs[n] = helpers + theirs[n]
	}
	decls, order := map[string][]*decl{}, 0
	for _, name := range slices.Concat(ours, theirs) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := i.registry.File(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			return err
		}
		pkg := ""
		if strings.HasPrefix(name, helpers) {
			pkg = helpers
		}
		top := map[any]bool{}
		for _, o := range file.Scope.Objects {
			top[o] = true
		}
		add := func(node ast.Node, names ...string) {
			order++
			d := &decl{order: order, node: node, top: top, pkg: pkg}
			for _, n := range names {
				decls[n] = append(decls[n], d)
			}
		}
		for _, x := range file.Decls {
			switch x := x.(type) {
			case *ast.FuncDecl:
				if x.Recv != nil {
					add(x, "."+x.Name.Name) // any call of that name may be of it
				} else {
					add(x, pkg+x.Name.Name)
				}
			case *ast.GenDecl:
				var all []string
				for _, s := range x.Specs {
					var names []string
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, pkg+s.Name.Name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names = append(names, pkg+n.Name)
						}
					}
					if x.Tok != token.CONST {
						add(s, names...)
					}
					all = append(all, names...)
				}
				if x.Tok == token.CONST { // a group may count with iota
					add(x, all...)
				}
			}
		}
	}
	i.decls = decls
	return nil
}

// read prints the declaration and finds the names that it uses: package-level ones of its own package and of package
// kernels, and behind a dot those of methods. Local names are none of them.
func (d *decl) read() error {
	if d.text != "" {
		return nil
	}
	used := map[string]bool{}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && of.Obj == nil && of.Name == "kernels" {
				used[helpers+n.Sel.Name] = true
			} else {
				used["."+n.Sel.Name] = true
				ast.Inspect(n.X, visit)
			}
			return false
		case *ast.Ident:
			if n.Obj == nil || d.top[n.Obj] {
				used[d.pkg+n.Name] = true
			}
		}
		return true
	}
	ast.Inspect(d.node, visit)
	d.uses = slices.Collect(maps.Keys(used))
	var b bytes.Buffer
	// Another file set has no lines, so that blank lines do not count.
	err := printer.Fprint(&b, token.NewFileSet(), d.node)
	d.text = b.String()
	return err
}

// reach lists the declarations that names lead to, in the order of the files.
func (i *Identity) reach(names []string) ([]*decl, error) {
	seen := map[*decl]bool{}
	for len(names) > 0 {
		n := names[len(names)-1]
		names = names[:len(names)-1]
		for _, d := range i.decls[n] {
			if !seen[d] {
				seen[d] = true
				if err := d.read(); err != nil {
					return nil, err
				}
				names = append(names, d.uses...)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b *decl) int { return a.order - b.order }), nil
}
