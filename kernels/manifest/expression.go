package manifest

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"normbench/internal/hint"
	"normbench/internal/yamldoc"
)

// A kind is what an expression comes out as.
type kind uint8

const (
	whole    kind = iota // a whole number; all arithmetic on the way is exact
	truth                // true or false; a number is true unless it is zero
	fraction             // a float
)

// vars are the variables of expressions: ints, and floats in a fraction.
type vars map[string]any

// An expression is a compiled field of a manifest.
type expression struct {
	place
	lo, hi  int // of a whole number
	program *vm.Program
}

// A place is where a field stands, for errors.
type place struct {
	at   string // file:line:column
	path string // "launches[0].grid[1]"
}

func (p place) String() string {
	if p.path == "" {
		return p.at + ": the manifest"
	}
	return p.at + ": " + p.path
}

const expressionHelp = "docs/kernels.md names the variables and functions; quote an expression that has a comma, a colon or a #"

// maxExpression bounds the length of an expression in bytes.
const maxExpression = 1000

// compile checks the types of text, whose variables are those of known.
func compile(p place, text string, k kind, known vars) (_ *expression, err error) {
	bad := func(what string) error {
		return hint.Errorf(expressionHelp, "%s: %s in %q", p, yamldoc.OneLine(what), yamldoc.OneLine(text))
	}
	switch {
	case strings.TrimSpace(text) == "":
		return nil, hint.Errorf(expressionHelp, "%s: no expression", p)
	case len(text) > maxExpression:
		return nil, hint.Errorf("write a shorter one", "%s: an expression of %d bytes, more than %d", p, len(text), maxExpression)
	}
	defer func() { // a panic of the library on broken text is an error about the text
		if r := recover(); r != nil {
			err = bad(fmt.Sprint(r))
		}
	}()
	config := conf.CreateNew()
	for _, option := range append(functions(), expr.Env(map[string]any(known)), expr.DisableAllBuiltins(), result(k), expr.WarnOnAny()) {
		option(config)
	}
	for name := range config.Disabled {
		delete(config.Builtins, name)
	}
	tree, err := parser.ParseWithConfig(text, config)
	if err == nil {
		g := &grammar{kind: k}
		if ast.Walk(&tree.Node, g); g.err != "" {
			return nil, bad(g.err)
		}
		if k == truth {
			test(&tree.Node)
		}
		// Not expr.Compile with a patch: it checks types before and after, and the
		// second time takes calls for checked.
		_, err = checker.Check(tree, config)
	}
	var program *vm.Program
	if err == nil {
		program, err = compiler.Compile(tree, config)
	}
	var fe *file.Error
	switch {
	case errors.As(err, &fe):
		return nil, bad(fe.Message)
	case err != nil:
		return nil, bad(err.Error())
	}
	return &expression{place: p, lo: math.MinInt, hi: math.MaxInt, program: program}, nil
}

// result is the type that a kind is checked against.
func result(k kind) expr.Option {
	switch k {
	case truth:
		return expr.AsBool()
	case fraction:
		return expr.AsFloat64()
	}
	return expr.AsKind(reflect.Int)
}

// reads says whether e has a variable.
func (e *expression) reads() bool { return len(e.variables()) > 0 }

func (e *expression) variables() []string {
	n := e.program.Node()
	var v variables
	ast.Walk(&n, &v)
	return v
}

// variables are the names of the variables that it visits.
type variables []string

// Visit implements ast.Visitor.
func (v *variables) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok && table[n.Value] == nil {
		*v = append(*v, n.Value)
	}
}

// A Fault is an expression that has no value that would do, for some problem and
// config: it divides by zero, or a grid has no CTAs.
type Fault struct {
	place place
	text  string
}

func (f *Fault) Error() string { return f.place.String() + " " + f.text }

func (e *expression) value(v vars) (any, error) {
	out, err := expr.Run(e.program, map[string]any(v))
	var fe *file.Error
	switch {
	case errors.As(err, &fe):
		return nil, &Fault{e.place, yamldoc.OneLine(fe.Message)}
	case err != nil:
		return nil, &Fault{e.place, yamldoc.OneLine(err.Error())}
	}
	return out, nil
}

// int evaluates a whole expression, which has to lie from lo to hi.
func (e *expression) int(v vars) (int, error) {
	out, err := e.value(v)
	if err != nil {
		return 0, err
	}
	n := out.(int)
	switch {
	case n < e.lo:
		return 0, &Fault{e.place, fmt.Sprintf("is %d, less than %d", n, e.lo)}
	case n > e.hi:
		return 0, &Fault{e.place, fmt.Sprintf("is %d, more than %d", n, e.hi)}
	}
	return n, nil
}

// holds evaluates a truth. No expression at all holds.
func (e *expression) holds(v vars) (bool, error) {
	if e == nil {
		return true, nil
	}
	out, err := e.value(v)
	if err != nil {
		return false, err
	}
	return out.(bool), nil
}

// float evaluates a fraction.
func (e *expression) float(v vars) (float32, error) {
	out, err := e.value(v)
	if err != nil {
		return 0, err
	}
	f := float32(out.(float64))
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return 0, &Fault{e.place, fmt.Sprintf("is %v", f)}
	}
	return f, nil
}

// A grammar bounds an expression to numbers, variables, functions, arithmetic,
// comparisons, && || ! and ?:. It sees every node once, the leaves first, makes
// whole arithmetic calls of functions, and tests of numbers comparisons with zero.
type grammar struct {
	kind kind
	err  string // the first offence
}

var (
	arithmetic  = []string{"+", "-", "*", "/", "%"}
	comparisons = []string{"==", "!=", "<", "<=", ">", ">="}
	logic       = []string{"&&", "||", "and", "or"}
)

// Visit implements ast.Visitor.
func (g *grammar) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode, *ast.BoolNode:
	case *ast.IdentifierNode:
		if n.Value == "$env" { // the library's name for all variables
			g.fail("unknown name $env")
		}
	case *ast.FloatNode:
		if g.kind != fraction {
			g.fail("%s, which is no whole number,", n)
		}
	case *ast.UnaryNode:
		switch n.Operator {
		case "!", "not":
			test(&n.Node)
		case "+", "-":
		default:
			g.fail("unknown operator %s", n.Operator)
		}
	case *ast.BinaryNode:
		switch {
		case slices.Contains(logic, n.Operator):
			test(&n.Left)
			test(&n.Right)
		case slices.Contains(comparisons, n.Operator):
		case !slices.Contains(arithmetic, n.Operator):
			g.fail("unknown operator %s", n.Operator)
		case g.kind != fraction:
			ast.Patch(node, &ast.CallNode{Callee: &ast.IdentifierNode{Value: n.Operator}, Arguments: []ast.Node{n.Left, n.Right}})
		}
	case *ast.ConditionalNode:
		test(&n.Cond)
		if isTruth(n.Exp1) != isTruth(n.Exp2) {
			g.fail("a number or else a condition")
		}
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); !ok || table[f.Value] == nil {
			g.fail("unknown function %s", n.Callee)
		}
	default:
		g.fail("%s, which is no arithmetic,", n)
	}
}

func (g *grammar) fail(format string, args ...any) {
	if g.err == "" {
		g.err = fmt.Sprintf(format, args...)
	}
}

// test makes a comparison with zero of a number that stands for true or false.
func test(node *ast.Node) {
	if !isTruth(*node) {
		ast.Patch(node, &ast.BinaryNode{Operator: "!=", Left: *node, Right: &ast.IntegerNode{}})
	}
}

// isTruth says whether n is true or false, from the look of it.
func isTruth(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BoolNode:
		return true
	case *ast.UnaryNode:
		return n.Operator == "!" || n.Operator == "not"
	case *ast.BinaryNode:
		return !slices.Contains(arithmetic, n.Operator)
	case *ast.ConditionalNode:
		return isTruth(n.Exp1)
	}
	return false
}

// table holds the functions of whole numbers by name, with the operators.
var table = map[string]func(a []int) (int, error){
	"+": func(a []int) (int, error) { return checked(a[0]+a[1], (a[0]+a[1] > a[0]) == (a[1] > 0)) },
	"-": func(a []int) (int, error) { return checked(a[0]-a[1], (a[0]-a[1] < a[0]) == (a[1] > 0)) },
	"*": func(a []int) (int, error) {
		hi, lo := bits.Mul64(abs(a[0]), abs(a[1]))
		return checked(a[0]*a[1], hi == 0 && lo <= math.MaxInt64)
	},
	"/": func(a []int) (int, error) { return divide(a, func(x, y int) int { return x / y }) },
	"%": func(a []int) (int, error) { return divide(a, func(x, y int) int { return x % y }) },
	"ceildiv": func(a []int) (int, error) {
		return divide(a, func(x, y int) int {
			q := x / y
			if x%y != 0 && (x > 0) == (y > 0) {
				q++
			}
			return q
		})
	},
	"min": func(a []int) (int, error) { return slices.Min(a), nil },
	"max": func(a []int) (int, error) { return slices.Max(a), nil },
	"pow2": func(a []int) (int, error) { // the power of two at or above
		if a[0] > 1<<62 {
			return 0, errRange
		}
		return 1 << bits.Len64(uint64(max(a[0], 1)-1)), nil
	},
	"log2": func(a []int) (int, error) { // rounded down
		if a[0] < 1 {
			return 0, errors.New("is the log2 of a number below 1")
		}
		return bits.Len64(uint64(a[0])) - 1, nil
	},
}

var errRange = errors.New("has a number beyond 64 bits")

func checked(n int, ok bool) (int, error) {
	if !ok {
		return 0, errRange
	}
	return n, nil
}

func divide(a []int, f func(x, y int) int) (int, error) {
	if a[1] == 0 {
		return 0, errors.New("divides by zero")
	}
	return checked(f(a[0], a[1]), a[0] != math.MinInt || a[1] != -1)
}

func abs(n int) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// functions are the options that make the functions known.
func functions() []expr.Option {
	var options []expr.Option
	for name, f := range table {
		var signature any
		switch name {
		case "min", "max":
			signature = new(func(int, ...int) int)
		case "pow2", "log2":
			signature = new(func(int) int)
		default:
			signature = new(func(int, int) int)
		}
		options = append(options, expr.Function(name, func(params ...any) (any, error) {
			args := make([]int, len(params))
			for i, p := range params {
				args[i] = p.(int)
			}
			return f(args)
		}, signature))
	}
	return options
}
