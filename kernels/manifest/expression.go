package manifest

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/scanner"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
)

// A kind is what an expression comes out as.
type kind uint8

const (
	whole    kind = iota // a whole number; all arithmetic on the way is exact
	truth                // true or false; a number is true unless it is zero
	fraction             // a float; eps is known there
)

// An expression is a field of a manifest, compiled when its variables are known.
type expression struct {
	yamldoc.Place
	text   string
	kind   kind
	lo, hi int // of a whole number
	tree   *node
	fixed  bool // it has no variables
	needs
}

const expressionHelp = "docs/kernels.md names the variables and functions; quote an expression that has a comma, a colon or a #"

// maxExpression bounds the length of an expression in bytes.
const maxExpression = 1000

// UnmarshalValue reads the text. The tags are kind ("truth", "fraction"), min and max.
func (e *expression) UnmarshalValue(v yamldoc.Value, tag reflect.StructTag) (err error) {
	e.Place, e.lo, e.hi = v.Place, math.MinInt, math.MaxInt
	e.kind = map[string]kind{"truth": truth, "fraction": fraction}[tag.Get("kind")]
	for name, bound := range map[string]*int{"min": &e.lo, "max": &e.hi} {
		if s, ok := tag.Lookup(name); ok {
			if *bound, err = strconv.Atoi(s); err != nil {
				return err
			}
		}
	}
	e.text, err = v.Scalar(expressionHelp, "an expression")
	return err
}

// compile checks names and types. A number without variables is held to its range at once.
func (e *expression) compile(known scope) error {
	bad := func(what string) error {
		return e.Errorf(expressionHelp, "%s in %q", what, yamldoc.OneLine(e.text))
	}
	switch {
	case strings.TrimSpace(e.text) == "":
		return e.Errorf(expressionHelp, "no expression")
	case len(e.text) > maxExpression:
		return e.Errorf("write a shorter one",
			"an expression of %d bytes, more than %d", len(e.text), maxExpression)
	}
	p := newParser(e.text, e.kind, known)
	e.tree = p.ternary()
	if p.tok != "" {
		p.fail("unexpected %q", p.tok)
	}
	if e.tree.truth && e.kind != truth {
		p.fail("a condition where a number belongs")
	}
	if p.err != "" {
		return bad(p.err)
	}
	if e.fixed, e.needs = !p.variable, p.needs; !e.fixed {
		return nil
	}
	var err error
	if e.kind == fraction {
		_, err = e.float(nil)
	} else {
		_, err = e.int(nil)
	}
	return hint.With(err, expressionHelp)
}

// A Fault is an expression that has no value that would do, for some problem and
// config: it divides by zero, or a grid has no CTAs.
type Fault struct {
	place yamldoc.Place
	text  string
}

func (f *Fault) Error() string { return f.place.String() + " " + f.text }

// int evaluates a whole expression, which has to lie from lo to hi, or a condition.
func (e *expression) int(x *env) (int, error) {
	f, err := e.tree.eval(x, true)
	n := int(f)
	switch {
	case err != nil:
		return 0, &Fault{e.Place, err.Error()}
	case n < e.lo:
		return 0, &Fault{e.Place, fmt.Sprintf("is %d, less than %d", n, e.lo)}
	case n > e.hi:
		return 0, &Fault{e.Place, fmt.Sprintf("is %d, more than %d", n, e.hi)}
	}
	return n, nil
}

// holds evaluates a truth. No expression at all holds.
func (e *expression) holds(x *env) (bool, error) {
	if e == nil {
		return true, nil
	}
	n, err := e.int(x)
	return n != 0, err
}

// float evaluates a fraction.
func (e *expression) float(x *env) (float64, error) {
	f, err := e.tree.eval(x, false)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = fmt.Errorf("is %v", f)
	}
	if err != nil {
		return 0, &Fault{e.Place, err.Error()}
	}
	return f, nil
}

// ---- Parser -------------------------------------------------------------------

// A node is a number, a variable, or an operator or function with its arguments.
type node struct {
	op     string
	args   []*node
	get    func(x *env) int // of a variable
	number float64
	truth  bool // it is true or false, as 1 or 0
	let    int  // of a letting, whose value is its argument
}

// A parser reads an expression by precedence. After an error it is at the end.
type parser struct {
	scanner.Scanner
	kind     kind
	known    scope
	tok      string // "" at the end
	class    rune   // of tok, as in text/scanner
	variable bool   // it has seen one
	needs    needs  // of the variables that it has seen
	err      string // the first
}

func newParser(text string, k kind, known scope) *parser {
	p := &parser{kind: k, known: known}
	p.Init(strings.NewReader(text))
	p.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanFloats
	p.Error = func(_ *scanner.Scanner, msg string) { p.fail("%s", msg) }
	p.next()
	return p
}

func (p *parser) fail(format string, args ...any) {
	if p.err == "" {
		p.err = yamldoc.OneLine(fmt.Sprintf(format, args...))
	}
	p.tok, p.class = "", scanner.EOF
}

func (p *parser) next() {
	p.class = p.Scan()
	if p.tok = p.TokenText(); p.class == scanner.EOF || p.err != "" {
		p.tok, p.class = "", scanner.EOF
		return
	}
	two := p.tok + string(p.Peek())
	if slices.Contains([]string{"&&", "||", "==", "!=", "<=", ">="}, two) {
		p.Next()
		p.tok = two
	}
	if word, ok := map[string]string{"and": "&&", "or": "||", "not": "!"}[p.tok]; ok {
		p.tok, p.class = word, 0
	}
}

// take goes past tok if it is there.
func (p *parser) take(tok string) bool {
	if p.tok != tok || tok == "" {
		return false
	}
	p.next()
	return true
}

func (p *parser) want(tok string) {
	if !p.take(tok) {
		got := strconv.Quote(p.tok)
		if p.tok == "" {
			got = "the end"
		}
		p.fail("%s where %q belongs", got, tok)
	}
}

// ternary reads a whole expression.
func (p *parser) ternary() *node {
	n := p.binary(0)
	if !p.take("?") {
		return n
	}
	yes := p.ternary()
	p.want(":")
	no := p.ternary()
	if yes.truth != no.truth {
		p.fail("a number or else a condition")
	}
	return &node{op: "?", args: []*node{n, yes, no}, truth: yes.truth}
}

// levels are the binary operators, those that bind least first.
var levels = [][]string{{"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) binary(level int) *node {
	if level == len(levels) {
		return p.unary()
	}
	n := p.binary(level + 1)
	for slices.Contains(levels[level], p.tok) {
		op := p.tok
		p.next()
		n = &node{op: op, args: []*node{n, p.binary(level + 1)}, truth: level < 3}
		if level > 1 {
			p.numbers(n)
		}
	}
	return n
}

// numbers refuses conditions among the arguments of n.
func (p *parser) numbers(n *node) {
	if slices.ContainsFunc(n.args, func(a *node) bool { return a.truth }) {
		p.fail("a condition where %s takes numbers", n.op)
	}
}

func (p *parser) unary() *node {
	switch {
	case p.take("!"):
		return &node{op: "!", args: []*node{p.unary()}, truth: true}
	case p.take("-"):
		n := &node{op: "-", args: []*node{{}, p.unary()}}
		p.numbers(n)
		return n
	case p.take("+"):
		return p.unary()
	case p.take("("):
		n := p.ternary()
		p.want(")")
		return n
	}
	tok, class := p.tok, p.class
	if class != scanner.EOF {
		p.next()
	}
	switch {
	case class == scanner.Int:
		i, err := strconv.ParseInt(tok, 0, 64)
		if err != nil || i > maxWhole {
			p.fail("the number %.40s", tok)
		}
		return &node{number: float64(i)}
	case class == scanner.Float && p.kind == fraction:
		f, err := strconv.ParseFloat(tok, 64)
		if err != nil {
			p.fail("the number %.40s", tok)
		}
		return &node{number: f}
	case class == scanner.Float:
		p.fail("%.40s, which is no whole number,", tok)
	case class == scanner.Ident && p.tok == "(":
		return p.call(tok)
	case class == scanner.Ident:
		return p.name(tok)
	case tok == "":
		p.fail("unexpected end")
	default:
		p.fail("unexpected %q", tok)
	}
	return &node{}
}

func (p *parser) name(name string) *node {
	switch {
	case name == "true", name == "false":
		return &node{number: float64(flag(name == "true")), truth: true}
	case name == "eps" && p.kind == fraction:
		return &node{number: p.known.eps}
	}
	n, needs := p.known.lookup(name)
	if n == nil {
		p.fail("unknown name %s", name)
		return &node{}
	}
	p.variable = true
	p.needs.level = max(p.needs.level, needs.level)
	p.needs.knobs = append(p.needs.knobs, needs.knobs...)
	return n
}

func (p *parser) call(name string) *node {
	n := &node{op: name}
	for p.want("("); p.tok != ")" && p.err == ""; {
		n.args = append(n.args, p.ternary())
		if p.tok != ")" {
			p.want(",")
		}
	}
	p.want(")")
	p.numbers(n)
	count, ok := map[string]int{"min": -1, "max": -1, "ceildiv": 2, "pow2": 1, "log2": 1}[name]
	switch {
	case !ok:
		p.fail("unknown function %s", name)
	case len(n.args) == 0, count > 0 && len(n.args) != count:
		p.fail("%s with %d arguments", name, len(n.args))
	}
	return n
}

// ---- Evaluator ----------------------------------------------------------------

// maxWhole bounds whole numbers, which are exact in a float64 up to it.
const maxWhole = 1 << 53

// eval is the value of n. Where it is whole, so is every value on the way.
func (n *node) eval(x *env, whole bool) (v float64, err error) {
	switch {
	case n.get != nil:
		return float64(n.get(x)), nil
	case n.op == "":
		return n.number, nil
	case n.op == "let":
		return x.letting(n.let, n.args[0])
	}
	var room [3]float64
	a := room[:0]
	for _, arg := range n.args {
		v, err := arg.eval(x, whole)
		if err != nil {
			return 0, err
		}
		a = append(a, v)
		// The second argument of && and ||, and one branch of ?:, are not evaluated.
		yes := a[0] != 0
		switch {
		case n.op == "?" && yes:
			return n.args[1].eval(x, whole)
		case n.op == "?":
			return n.args[2].eval(x, whole)
		case n.op == "&&" && !yes, n.op == "||" && yes:
			return float64(flag(yes)), nil
		}
	}
	switch {
	case whole && a[len(a)-1] == 0 && slices.Contains([]string{"/", "%", "ceildiv"}, n.op):
		return 0, errors.New("divides by zero")
	case a[0] < 1 && n.op == "log2":
		return 0, errors.New("is the log2 of a number below 1")
	}
	v = calculate(n.op, a, whole)
	if whole && math.Abs(v) > maxWhole {
		return 0, errors.New("has a number beyond 2^53")
	}
	return v, nil
}

// calculate is the value of an operator or function whose arguments are all needed.
func calculate(op string, a []float64, whole bool) float64 {
	truth := func(b bool) float64 { return float64(flag(b)) }
	switch op {
	case "!":
		return truth(a[0] == 0)
	case "&&", "||":
		return truth(a[1] != 0)
	case "==":
		return truth(a[0] == a[1])
	case "!=":
		return truth(a[0] != a[1])
	case "<":
		return truth(a[0] < a[1])
	case "<=":
		return truth(a[0] <= a[1])
	case ">":
		return truth(a[0] > a[1])
	case ">=":
		return truth(a[0] >= a[1])
	case "+":
		return a[0] + a[1]
	case "-":
		return a[0] - a[1]
	case "*":
		return a[0] * a[1]
	case "/":
		if whole {
			return float64(int(a[0]) / int(a[1]))
		}
		return a[0] / a[1]
	case "%":
		return math.Mod(a[0], a[1])
	case "ceildiv":
		return math.Ceil(a[0] / a[1])
	case "min":
		return slices.Min(a)
	case "max":
		return slices.Max(a)
	case "pow2": // the power of two at or above
		return float64(uint64(1) << bits.Len64(uint64(math.Ceil(max(a[0], 1)))-1))
	}
	return float64(bits.Len64(uint64(a[0])) - 1) // log2, rounded down
}
