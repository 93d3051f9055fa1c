package manifest

import (
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
	tree   node
	slot   int // of its value in an env, once it is compiled
	sources
}

const expressionHelp = "docs/kernels.md names the variables and functions; " +
	"quote an expression that has a comma, a colon or a #"

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
	if e.sources = p.sources; !p.variable {
		x := &env{}
		e.check(x)
		return hint.With(x.err, expressionHelp)
	}
	return nil
}

// A Fault is an expression that has no value that would do, for some problem and
// config: it divides by zero, or a grid has no CTAs.
type Fault struct {
	place yamldoc.Place
	text  string
}

func (f *Fault) Error() string { return f.place.String() + " " + f.text }

// eval evaluates e, unless x remembers its value.
func (e *expression) eval(x *env) float64 {
	if e.slot >= len(x.slots) { // x is of no design
		return e.tree.eval(x)
	}
	v := x.slots[e.slot]
	if v != v {
		if v = e.tree.eval(x); x.bad == "" {
			x.slots[e.slot] = v
		}
	}
	return v
}

// value evaluates e. What is wrong with it is a Fault of x.
func (e *expression) value(x *env) float64 {
	v := e.eval(x)
	if x.bad != "" {
		x.fault(e, x.bad)
	}
	return v
}

// int evaluates a whole expression, which has to lie from lo to hi, or a condition.
func (e *expression) int(x *env) int {
	n := int(e.value(x))
	switch {
	case n < e.lo:
		x.fault(e, fmt.Sprintf("is %d, less than %d", n, e.lo))
	case n > e.hi:
		x.fault(e, fmt.Sprintf("is %d, more than %d", n, e.hi))
	}
	return n
}

// holds evaluates a truth. No expression at all holds.
func (e *expression) holds(x *env) bool { return e == nil || e.value(x) != 0 }

// float evaluates a fraction.
func (e *expression) float(x *env) float64 {
	f := e.value(x)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		x.fault(e, fmt.Sprintf("is %v", f))
	}
	return f
}

// check evaluates e for its Faults.
func (e *expression) check(x *env) {
	if e.kind == fraction {
		e.float(x)
	} else {
		e.int(x)
	}
}

// ---- Parser -------------------------------------------------------------------

// A node is a part of an expression, compiled.
type node struct {
	eval  func(x *env) float64
	truth bool // it is true or false, as 1 or 0
}

// constant is a node without variables.
func constant(v float64) node { return node{func(*env) float64 { return v }, false} }

// A parser reads an expression by precedence. After an error it is at the end.
type parser struct {
	scanner.Scanner
	kind     kind
	known    scope
	tok      string  // "" at the end
	class    rune    // of tok, as in text/scanner
	variable bool    // it has seen one
	sources  sources // of the variables that it has seen
	err      string  // the first
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
	switch two := p.tok + string(p.Peek()); two {
	case "&&", "||", "==", "!=", "<=", ">=":
		p.Next()
		p.tok = two
	}
	switch p.tok {
	case "and":
		p.tok, p.class = "&&", 0
	case "or":
		p.tok, p.class = "||", 0
	case "not":
		p.tok, p.class = "!", 0
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
func (p *parser) ternary() node {
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
	return node{truth: yes.truth, eval: func(x *env) float64 {
		if n.eval(x) != 0 {
			return yes.eval(x)
		}
		return no.eval(x)
	}}
}

// levels are the binary operators, those that bind least first.
var levels = [][]string{{"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}

func (p *parser) binary(level int) node {
	if level == len(levels) {
		return p.unary()
	}
	n := p.binary(level + 1)
	for slices.Contains(levels[level], p.tok) {
		op := p.tok
		p.next()
		n = p.apply(op, n, p.binary(level+1))
	}
	return n
}

// apply is an operator or a function with its arguments.
func (p *parser) apply(op string, args ...node) node {
	truths := op == "!" || op == "&&" || op == "||"
	if !truths && slices.ContainsFunc(args, func(a node) bool { return a.truth }) {
		p.fail("a condition where %s takes numbers", op)
	}
	n := node{args[0].eval, truths || slices.Contains(levels[2], op)}
	if len(args) == 1 {
		n.eval = unary(op, n.eval)
	}
	for _, b := range args[1:] {
		if n.truth {
			n.eval = logic(op, n.eval, b.eval)
		} else {
			n.eval = arithmetic(op, n.eval, b.eval, p.kind != fraction)
		}
	}
	return n
}

func (p *parser) unary() node {
	switch {
	case p.take("!"):
		return p.apply("!", p.unary())
	case p.take("-"):
		return p.apply("-", constant(0), p.unary())
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
		return constant(float64(i))
	case class == scanner.Float && p.kind == fraction:
		f, err := strconv.ParseFloat(tok, 64)
		if err != nil {
			p.fail("the number %.40s", tok)
		}
		return constant(f)
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
	return constant(0)
}

func (p *parser) name(name string) node {
	switch {
	case name == "true", name == "false":
		return node{constant(truthOf(name == "true")).eval, true}
	case name == "eps" && p.kind == fraction:
		return constant(p.known.eps)
	}
	n, of, ok := p.known.lookup(name)
	if !ok {
		p.fail("unknown name %s", name)
		return constant(0)
	}
	p.variable = true
	p.sources |= of
	return n
}

func (p *parser) call(name string) node {
	var args []node
	for p.want("("); p.tok != ")" && p.err == ""; {
		args = append(args, p.ternary())
		if p.tok != ")" {
			p.want(",")
		}
	}
	p.want(")")
	count, ok := map[string]int{"min": -1, "max": -1, "ceildiv": 2, "pow2": 1, "log2": 1, "sqrt": 1}[name]
	switch {
	case !ok:
		p.fail("unknown function %s", name)
	case len(args) == 0, count > 0 && len(args) != count:
		p.fail("%s with %d arguments", name, len(args))
	}
	if p.err != "" {
		return constant(0)
	}
	return p.apply(name, args...)
}

// ---- Evaluator ----------------------------------------------------------------

// maxWhole bounds whole numbers, which are exact in a float64 up to it.
const maxWhole = 1 << 53

func truthOf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unary is an operator or function of one argument; min and max are the argument.
func unary(op string, a func(x *env) float64) func(x *env) float64 {
	switch op {
	case "!":
		return func(x *env) float64 { return truthOf(a(x) == 0) }
	case "pow2": // the power of two at or above
		return func(x *env) float64 {
			return float64(uint64(1) << bits.Len64(uint64(math.Ceil(max(a(x), 1)))-1))
		}
	case "sqrt": // rounded up
		return func(x *env) float64 { return math.Ceil(math.Sqrt(max(a(x), 0))) }
	case "log2": // rounded down
		return func(x *env) float64 {
			v := a(x)
			if v < 1 {
				return x.fail("is the log2 of a number below 1")
			}
			return float64(bits.Len64(uint64(v)) - 1)
		}
	}
	return a
}

// logic is an operator of two arguments that is true or false.
func logic(op string, a, b func(x *env) float64) func(x *env) float64 {
	switch op {
	case "&&":
		return func(x *env) float64 { return truthOf(a(x) != 0 && b(x) != 0) }
	case "||":
		return func(x *env) float64 { return truthOf(a(x) != 0 || b(x) != 0) }
	case "==":
		return func(x *env) float64 { return truthOf(a(x) == b(x)) }
	case "!=":
		return func(x *env) float64 { return truthOf(a(x) != b(x)) }
	case "<":
		return func(x *env) float64 { return truthOf(a(x) < b(x)) }
	case "<=":
		return func(x *env) float64 { return truthOf(a(x) <= b(x)) }
	case ">":
		return func(x *env) float64 { return truthOf(a(x) > b(x)) }
	}
	return func(x *env) float64 { return truthOf(a(x) >= b(x)) }
}

// exact is v, which is not beyond a limit.
func (x *env) exact(v, limit float64) float64 {
	if math.Abs(v) > limit {
		return x.fail("has a number beyond 2^53")
	}
	return v
}

// divisor is v, which is not 0 where it is whole.
func (x *env) divisor(v float64, whole bool) float64 {
	if v == 0 && whole {
		x.fail("divides by zero")
		return 1
	}
	return v
}

// arithmetic is an operator or function of two arguments. Where it is whole, so is every value on
// the way, and quotients are exact: of numbers up to 2^53 none is rounded to a whole number.
func arithmetic(op string, a, b func(x *env) float64, whole bool) func(x *env) float64 {
	limit := math.Inf(1)
	if whole {
		limit = maxWhole
	}
	switch op {
	case "+":
		return func(x *env) float64 { return x.exact(a(x)+b(x), limit) }
	case "-":
		return func(x *env) float64 { return x.exact(a(x)-b(x), limit) }
	case "*":
		return func(x *env) float64 { return x.exact(a(x)*b(x), limit) }
	case "/":
		if whole {
			return func(x *env) float64 { return math.Trunc(a(x) / x.divisor(b(x), whole)) }
		}
		return func(x *env) float64 { return a(x) / b(x) }
	case "%":
		if whole { // many times as fast
			return func(x *env) float64 { return float64(int64(a(x)) % int64(x.divisor(b(x), whole))) }
		}
		return func(x *env) float64 { return math.Mod(a(x), b(x)) }
	case "min":
		return func(x *env) float64 { return min(a(x), b(x)) }
	case "max":
		return func(x *env) float64 { return max(a(x), b(x)) }
	}
	return func(x *env) float64 { return math.Ceil(a(x) / x.divisor(b(x), whole)) } // ceildiv
}
