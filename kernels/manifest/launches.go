package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"normbench/internal/hint"
	"normbench/kernels"
)

func (r *reader) launches(d *design, f map[string]pair) error {
	items, err := r.list(f["launches"], "launches", fileHelp)
	if err != nil {
		return err
	}
	for i, n := range items {
		path := index("launches", i)
		ps, err := r.pairs(n, path, fileHelp)
		if err != nil {
			return err
		}
		has := func(name string) bool { return slices.ContainsFunc(ps, func(p pair) bool { return p.name == name }) }
		switch {
		case has("reduce"):
			switch {
			case d.pass != kernels.Bwd:
				return r.errorf(n, path, "a forward leaves no partial sums", "reduce is for a backward")
			case i != len(items)-1:
				return r.errorf(n, path, "put it last", "reduce is the last launch")
			}
			if err := r.reduce(d, n, path); err != nil {
				return err
			}
			continue
		case has("zero"):
			err = r.zero(d, n, path)
		default:
			err = r.launch(d, n, path)
		}
		if err != nil {
			return err
		}
		if l := d.launches[len(d.launches)-1]; slices.ContainsFunc(d.launches[:len(d.launches)-1], func(o launch) bool { return o.stage == l.stage }) || l.stage == "k2" && d.reduce != nil {
			return r.errorf(n, join(path, "stage"), "name it with stage:", "two stages are %q", l.stage)
		}
	}
	if len(d.launches) == 0 {
		return r.errorf(f["launches"].key, "launches", fileHelp, "no kernel is launched")
	}
	return nil
}

// reduce reads {reduce: {partials: EXPRESSION}}, which is k2 and its knobs.
func (r *reader) reduce(d *design, n ast.Node, path string) error {
	f, err := r.fields(n, path, "reduce;")
	if err != nil {
		return err
	}
	path = join(path, "reduce")
	if f, err = r.fields(f["reduce"].value, path, "partials;"); err != nil {
		return err
	}
	if slices.ContainsFunc(d.launches, func(l launch) bool { return l.stage == "k2" }) {
		return r.errorf(n, path, "name the other one with stage:", "two stages are \"k2\"")
	}
	d.reduce, err = r.expression(f["partials"].value, join(path, "partials"), whole, d.known(), 1, math.MaxInt32)
	return err
}

// zero reads {zero: BUFFER}, which clears scratch.
func (r *reader) zero(d *design, n ast.Node, path string) error {
	f, err := r.fields(n, path, "zero; stage")
	if err != nil {
		return err
	}
	l := launch{stage: "zero"}
	if l.zero, err = r.text(f["zero"].value, join(path, "zero"), "name a buffer of scratch"); err != nil {
		return err
	}
	if !slices.ContainsFunc(d.scratch, func(b buffer) bool { return b.name == l.zero }) {
		return r.errorf(f["zero"].value, join(path, "zero"), "name a buffer of scratch", "unknown buffer %q", l.zero)
	}
	if err := r.stage(&l, f, path); err != nil {
		return err
	}
	d.launches = append(d.launches, l)
	return nil
}

// stage reads the name that a launch is timed under, if it has one of its own.
func (r *reader) stage(l *launch, f map[string]pair, path string) (err error) {
	p, ok := f["stage"]
	if !ok {
		return nil
	}
	const help = "letters a-z, digits and _, such as k1"
	if l.stage, err = r.text(p.value, join(path, "stage"), help); err == nil && !stageRE.MatchString(l.stage) {
		err = r.errorf(p.value, join(path, "stage"), help, "malformed stage %q", l.stage)
	}
	return err
}

// launch reads the launch of a kernel.
func (r *reader) launch(d *design, n ast.Node, path string) error {
	f, err := r.fields(n, path, kernelFields)
	if err != nil {
		return err
	}
	l := launch{stage: fmt.Sprintf("k%d", 1+len(d.kernels()))}
	if err := r.stage(&l, f, path); err != nil {
		return err
	}
	const sourceHelp = "name a .cu file that lies beside the manifest"
	if l.source, err = r.text(f["source"].value, join(path, "source"), sourceHelp); err != nil {
		return err
	}
	if l.sourceAt = r.place(f["source"].value, join(path, "source")); !strings.HasSuffix(l.source, ".cu") || strings.ContainsAny(l.source, `/\:`) {
		return hint.Errorf(sourceHelp, "%s: malformed file name %q", l.sourceAt, l.source)
	}
	const entryHelp = `name an extern "C" __global__ function of the source`
	if l.entry, err = r.text(f["entry"].value, join(path, "entry"), entryHelp); err != nil {
		return err
	}
	l.entryAt = r.place(f["entry"].value, join(path, "entry"))
	if !wordRE.MatchString(l.entry) || l.entry == kernels.Memcpy || l.entry == kernels.Memset {
		return hint.Errorf(entryHelp, "%s: malformed name %q", l.entryAt, l.entry)
	}
	known := d.known()
	for _, x := range []struct {
		name   string
		e      **expression
		kind   kind
		lo, hi int
	}{
		{"if", &l.when, truth, 0, 0},
		{"block", &l.block, whole, 1, 1024},
		{"shared", &l.shared, whole, 0, math.MaxInt32},
		{"cluster", &l.cluster, whole, 0, 16},
	} {
		if *x.e, err = r.optional(f, path, x.name, x.kind, known, x.lo, x.hi); err != nil {
			return err
		}
	}
	if err := r.grid(&l, f["grid"], join(path, "grid"), known); err != nil {
		return err
	}
	if l.resident, err = r.bool(f["resident"].value, join(path, "resident")); err != nil {
		return err
	}
	if l.early, err = r.bool(f["early"].value, join(path, "early")); err != nil {
		return err
	}
	if err := r.defines(d, &l, f["defines"], join(path, "defines"), known); err != nil {
		return err
	}
	if err := r.args(&l, f["args"], join(path, "args"), known); err != nil {
		return err
	}
	d.launches = append(d.launches, l)
	return nil
}

// grid reads one number of CTAs or up to three.
func (r *reader) grid(l *launch, p pair, path string, known vars) (err error) {
	const help = `write one number of CTAs or three; in a list put quotes around what has a comma: ["ceildiv(M, br)", 1, 1]`
	items := []ast.Node{p.value}
	if _, ok := p.value.(*ast.SequenceNode); ok {
		if items, err = r.list(p, path, help); err != nil {
			return err
		}
		if len(items) > 3 {
			return r.errorf(p.value, path, help, "has %d numbers", len(items))
		}
	}
	for i, n := range items {
		most := 65535 // CUDA's limits
		if i == 0 {
			most = math.MaxInt32
		}
		if l.grid[i], err = r.expression(n, index(path, i), whole, known, 1, most); err != nil {
			if len(items) > 1 {
				err = hint.With(err, help)
			}
			return err
		}
	}
	return nil
}

func (r *reader) defines(d *design, l *launch, p pair, path string, known vars) error {
	if p.value == nil {
		return nil
	}
	const help = "write defines as NAME: EXPRESSION"
	ps, err := r.pairs(p.value, path, help)
	if err != nil {
		return err
	}
	for _, p := range ps {
		at := join(path, p.name)
		switch {
		case !macroRE.MatchString(p.name):
			return r.errorf(p.key, at, "use letters A-Z, digits and _", "malformed macro name")
		case slices.Contains(d.macros(), p.name):
			return r.errorf(p.key, at, "choose another name", "is defined by the problem or a knob already")
		}
		e, err := r.expression(p.value, at, whole, known, math.MinInt, math.MaxInt)
		if err != nil {
			return err
		}
		l.defines = append(l.defines, define{p.name, e})
	}
	return nil
}

func (r *reader) args(l *launch, p pair, path string, known vars) error {
	const help = "an argument is the name of a tensor or of scratch, {int64: NAME, value: EXPRESSION} or {float32: NAME, value: EXPRESSION}"
	items, err := r.list(p, path, help)
	if err != nil {
		return err
	}
	for i, n := range items {
		at := index(path, i)
		if _, ok := n.(*ast.StringNode); ok {
			name, err := r.text(n, at, help)
			if err != nil {
				return err
			}
			l.args = append(l.args, argument{place: r.place(n, at), kind: kernels.ArgBuffer, name: name})
			continue
		}
		f, err := r.fields(n, at, "value; int64, float32")
		if err != nil {
			return err
		}
		if len(f) != 2 {
			return r.errorf(n, at, help, "has not one of int64 and float32")
		}
		a := argument{kind: kernels.ArgInt64}
		typ, k := "int64", whole
		if _, ok := f["float32"]; ok {
			a.kind, typ, k = kernels.ArgFloat32, "float32", fraction
		}
		if a.name, err = r.text(f[typ].value, join(at, typ), help); err != nil {
			return err
		}
		names := known
		if k == fraction {
			names = known.with("eps", float64(kernels.Eps))
		}
		if a.value, err = r.expression(f["value"].value, join(at, "value"), k, names, math.MinInt, math.MaxInt); err != nil {
			return err
		}
		l.args = append(l.args, a)
	}
	return nil
}

// reduceBuffers are the scratch that reduce adds.
var reduceBuffers = []string{"dw_partial", "db_partial"}
