package kernels

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Plan is a variant on a problem as pure data: the launches in order, and the scratch they need. Equal
// plans do the same thing, whatever their labels. Its JSON is for launchers elsewhere: see Arg.
type Plan struct {
	Launches []Launch   `json:"launches"`
	Scratch  []Scratch  `json:"scratch"`
	Rounds   []Rounding `json:"-"`
	// Inplace are the outputs that the launches write over an input, which they take in both places.
	Inplace []Overwrite `json:"inplace,omitempty"`
}

// An Overwrite is an output that the launches write in place of an input of the same type and size.
// Their arguments have the input's name, which stands for the output's buffer. A device copies the input
// into it before each run, outside the timed interval.
type Overwrite struct {
	Output string `json:"output"`
	Input  string `json:"input"`
}

// Buffer returns the buffer that an argument's name stands for: the output's, if the plan writes one
// over the input of that name.
func (p *Plan) Buffer(name string) string {
	for _, o := range p.Inplace {
		if o.Input == name {
			return o.Output
		}
	}
	return name
}

// A Rounding is an output whose terms the design rounds on their way, beyond
// the last rounding to the output's type: partial sums in the gradient's type,
// or an input recovered from a rounded output. The check allows for it.
type Rounding struct {
	Output string
	DType  DType
}

// A Scratch is a device buffer that lives for one run of the plan. It is not
// cleared.
type Scratch struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	Elems int64  `json:"elems"`
}

// Bytes returns the size in bytes.
func (s Scratch) Bytes() int64 { return s.Elems * s.DType.Size() }

// A Launch is one kernel launch, timed as the stage of that name.
type Launch struct {
	Stage  string `json:"stage"`  // "k1", "k2", ...: unique in a plan
	Source string `json:"source"` // file that holds the entry, among the families' sources; "" for Memcpy
	Entry  string `json:"entry"`  // extern "C" kernel, and the key of its host stage
	// NVCC says that nvcc compiles the source, not NVRTC.
	NVCC bool `json:"nvcc,omitempty"`
	// Without are headers that only host code needs: they are taken as empty.
	Without []string `json:"without,omitempty"`
	// Mangled says that Entry is a C++ name, such as kernel<8, float>, which the compiler makes a
	// symbol of.
	Mangled bool   `json:"mangled,omitempty"`
	Grid    [3]int `json:"grid"`  // CTAs
	Block   int    `json:"block"` // threads per CTA
	// BlockDim is how those threads lie along x, y and z. Without it all lie along x.
	BlockDim [3]int `json:"block_dim,omitzero"`
	Shared   int    `json:"shared"`  // dynamic shared memory per CTA, bytes
	Cluster  int    `json:"cluster"` // neighbouring CTAs that run as one cluster (sm_90); 0 for none
	// Resident says that CTAs wait for each other: all of the grid must fit
	// on the device at once, or the launch is refused.
	Resident bool `json:"resident"`
	// Early lets the launch start before the one ahead has ended (programmatic
	// dependent launch); the kernel waits for it where it needs to. Before sm_90 it
	// starts as any other.
	Early bool `json:"early"`
	// Apart asks for each CTA on an SM of its own while there are
	// enough: it gets more than half of the shared memory. CTAs that start early
	// would otherwise crowd on the SMs that the launch ahead left idle.
	Apart   bool     `json:"apart"`
	Options []string `json:"options,omitempty"` // for the compiler, beside the defines
	Include []string `json:"include,omitempty"` // folders in which #include <FILE> is looked for first
	Defines []Define `json:"defines,omitempty"`
	Args    []Arg    `json:"args"`
	// Params are, for each of Args, the parameter that it is for and what the compiler is told of
	// it, as X=*bf16: of a kernel that puts them in order itself.
	Params []string `json:"params,omitempty"`
}

// Threads returns the block's extent along x, y and z.
func (l *Launch) Threads() [3]int {
	if l.BlockDim == [3]int{} {
		return [3]int{l.Block, 1, 1}
	}
	return l.BlockDim
}

// Memcpy is the entry of a launch that is no kernel but the driver's own copy:
// from its first argument to its second, as many bytes as its third says.
const Memcpy = "memcpy"

// Memset is the entry of a launch that is no kernel but the driver's own memset:
// as many bytes of its first argument as its second says become zero.
const Memset = "memset"

// Zero makes the launch that clears a buffer.
func Zero(stage, buffer string, bytes int64) Launch {
	return Launch{Stage: stage, Entry: Memset, Grid: [3]int{1, 1, 1},
		Args: append(Buffers(buffer), Int64("bytes", bytes))}
}

// IsKernel says whether the launch is a kernel, not a copy or memset of the
// driver's.
func (l *Launch) IsKernel() bool { return l.Entry != Memcpy && l.Entry != Memset }

// A Define is a compile-time parameter: a macro of the CUDA entry, and a number that the host stage
// reads with Launch.Define.
type Define struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// ArgKind says what an Arg holds.
type ArgKind uint8

// The kinds of kernel arguments. Every one but a struct takes an 8-byte slot.
const (
	ArgBuffer  ArgKind = iota // pointer to the tensor or scratch buffer Name
	ArgInt64                  // Int
	ArgFloat32                // Float
	ArgInt32
	ArgInt16
	ArgInt8
	ArgUint64 // up to 2^63-1
	ArgUint32
	ArgUint16
	ArgUint8
	ArgBool
	ArgFloat64
	ArgFP16
	ArgBF16
	ArgStruct // Fields, by value
)

// argKinds are the kinds' names, bytes, and whether they hold Float, else Int.
var argKinds = [...]struct {
	name  string
	bytes int
	float bool
}{
	{"buffer", 8, false}, {"int64", 8, false}, {"float32", 4, true},
	{"int32", 4, false}, {"int16", 2, false}, {"int8", 1, false},
	{"uint64", 8, false}, {"uint32", 4, false}, {"uint16", 2, false}, {"uint8", 1, false},
	{"bool", 1, false}, {"float64", 8, true}, {"fp16", 2, true}, {"bf16", 2, true},
	{"struct", 0, false},
}

// FindArgKind finds the kind of a number by its name.
func FindArgKind(s string) (k ArgKind, ok bool) {
	for k, x := range argKinds {
		if x.name == s && k > 0 && x.bytes > 0 {
			return ArgKind(k), true
		}
	}
	return 0, false
}

// String returns the name of the type: "buffer", "int64", "float32".
func (k ArgKind) String() string { return argKinds[k].name }

// Size returns the size in bytes; for a struct see Arg.Size.
func (k ArgKind) Size() int { return argKinds[k].bytes }

// IsFloat says whether an argument's value is its Float.
func (k ArgKind) IsFloat() bool { return argKinds[k].float }

// Range returns the least and the largest whole number that an argument may have.
func (k ArgKind) Range() (lo, hi int64) {
	bits := 8 * k.Size()
	switch {
	case k == ArgBool:
		return 0, 1
	case strings.HasPrefix(k.String(), "uint"):
		return 0, 1<<min(bits, 63) - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}

// An Arg is one kernel argument.
type Arg struct {
	Kind   ArgKind
	Name   string
	Int    int64
	Float  float64
	Fields []Arg // of a struct, in their order; they may be structs themselves
}

// layout computes the size and the alignment of an argument by C's rules: a field begins at the next
// multiple of its alignment; a struct has the alignment of its widest field, and its size is a multiple
// of it.
func (a Arg) layout() (size, align int) {
	if a.Kind != ArgStruct {
		return a.Kind.Size(), a.Kind.Size()
	}
	align = 1
	for _, f := range a.Fields {
		n, to := f.layout()
		size, align = roundUp(size, to)+n, max(align, to)
	}
	return roundUp(size, align), align
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// Size returns the size in bytes.
func (a Arg) Size() int {
	size, _ := a.layout()
	return size
}

// Slots returns how many 8-byte slots the argument takes.
func (a Arg) Slots() int { return max(roundUp(a.Size(), 8)/8, 1) }

// SlotsOf makes the slots of a launch's arguments. Where one takes more than one slot, firsts has the
// place where each begins, else it is nil.
func SlotsOf(args []Arg) (slots, firsts []uint64) {
	n := 0
	for _, a := range args {
		firsts = append(firsts, uint64(n))
		n += a.Slots()
	}
	if n == len(args) {
		firsts = nil
	}
	return make([]uint64, n), firsts
}

// Put writes the argument into its slots, from their lowest byte on. address returns where a buffer is.
func (a Arg) Put(slots []uint64, address func(buffer string) uint64) {
	clear(slots)
	a.put(slots, 0, address)
}

// put writes the argument from byte at of the slots on.
func (a Arg) put(slots []uint64, at int, address func(buffer string) uint64) {
	switch {
	case a.Kind == ArgStruct:
		for _, f := range a.Fields {
			size, align := f.layout()
			at = roundUp(at, align)
			f.put(slots, at, address)
			at += size
		}
	case a.Kind == ArgBuffer:
		slots[at/8] = address(a.Name) // aligned to a slot
	default:
		mask := ^uint64(0) >> (64 - 8*a.Kind.Size())
		slots[at/8] |= a.Bits() & mask << (8 * (at % 8))
	}
}

// Pointers goes through the buffers that the argument names, "" for the null pointer, with the slots
// they are in.
func (a Arg) Pointers() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) { a.pointers(0, yield) }
}

func (a Arg) pointers(at int, yield func(int, string) bool) bool {
	if a.Kind == ArgBuffer {
		return yield(at/8, a.Name)
	}
	for _, f := range a.Fields {
		size, align := f.layout()
		at = roundUp(at, align)
		if !f.pointers(at, yield) {
			return false
		}
		at += size
	}
	return true
}

// BuffersOf goes through the buffers that arguments name, in their order, those in structs too, without
// the null pointer "".
func BuffersOf(args []Arg) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range args {
			for _, name := range a.Pointers() {
				if name != "" && !yield(name) {
					return
				}
			}
		}
	}
}

// Bits returns a number as it is stored in the argument's slot.
func (a Arg) Bits() uint64 {
	switch a.Kind {
	case ArgFloat32:
		return uint64(math.Float32bits(float32(a.Float)))
	case ArgFloat64:
		return math.Float64bits(a.Float)
	case ArgFP16:
		return uint64(Float32ToFP16(float32(a.Float)))
	case ArgBF16:
		return uint64(Float32ToBF16(float32(a.Float)))
	}
	return uint64(a.Int)
}

// MarshalJSON writes an argument with its name, its type ("buffer", "null" for a buffer that the problem
// lacks, or a number's type) and, if it is a number, its value. Arguments come in the order of the
// kernel's parameters.
func (a Arg) MarshalJSON() ([]byte, error) {
	v := struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Value any    `json:"value,omitempty"`
	}{Name: a.Name, Type: a.Kind.String()}
	switch {
	case a.Kind == ArgStruct:
		v.Value = a.Fields
	case a.Kind == ArgBuffer && a.Name == "":
		v.Type = "null"
	case a.Kind == ArgFloat32:
		v.Value = float32(a.Float)
	case a.Kind.IsFloat():
		v.Value = a.Float
	case a.Kind != ArgBuffer:
		v.Value = a.Int
	}
	return json.Marshal(v)
}

// Buffers makes pointer arguments of tensor and scratch names.
func Buffers(names ...string) []Arg {
	args := make([]Arg, len(names))
	for i, n := range names {
		args[i] = Arg{Kind: ArgBuffer, Name: n}
	}
	return args
}

// Int64 makes an integer argument.
func Int64(name string, v int64) Arg { return Arg{Kind: ArgInt64, Name: name, Int: v} }

// Float32 makes a float argument.
func Float32(name string, v float32) Arg { return Arg{Kind: ArgFloat32, Name: name, Float: float64(v)} }

// Define returns the value of a define of the launch, 0 where it has none.
func (l *Launch) Define(name string) int64 {
	for _, d := range l.Defines {
		if d.Name == name {
			return d.Value
		}
	}
	return 0
}

// String prints the plan, one line per scratch buffer and launch. It holds
// everything in the plan, so equal strings mean equal plans.
func (p Plan) String() string { return string(p.appendText(nil)) }

// appendText appends the text that String returns. It does not use fmt, which is slower: a search space
// compares the plans of thousands of configs by this text.
func (p *Plan) appendText(b []byte) []byte {
	text := func(parts ...string) {
		for _, s := range parts {
			b = append(b, s...)
		}
	}
	number := func(name string, n int64) { b = strconv.AppendInt(append(b, name...), n, 10) }
	for _, s := range p.Scratch {
		text("scratch ", s.Name, " ", s.DType.String())
		number("[", s.Elems)
		text("]\n")
	}
	for _, r := range p.Rounds {
		text("rounds ", r.Output, " to ", r.DType.String(), "\n")
	}
	for _, o := range p.Inplace {
		text("inplace ", o.Output, " over ", o.Input, "\n")
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		text(l.Stage, " ", l.Source, ":", l.Entry)
		number(" grid=", int64(l.Grid[0]))
		number(",", int64(l.Grid[1]))
		number(",", int64(l.Grid[2]))
		number(" block=", int64(l.Threads()[0]))
		if l.Threads()[0] != l.Block {
			number(",", int64(l.BlockDim[1]))
			number(",", int64(l.BlockDim[2]))
		}
		number(" shared=", int64(l.Shared))
		if l.Cluster > 0 {
			number(" cluster=", int64(l.Cluster))
		}
		if l.Resident {
			text(" resident")
		}
		if l.Early {
			text(" early")
		}
		if l.Apart {
			text(" apart")
		}
		if l.NVCC {
			text(" nvcc")
		}
		for _, o := range slices.Concat(l.Options, l.Params, l.Include) {
			text(" ", o)
		}
		for _, header := range l.Without {
			text(" without=", header)
		}
		for _, d := range l.Defines {
			text(" ", d.Name)
			number("=", d.Value)
		}
		text(" (")
		b = appendArgs(b, l.Args)
		text(")\n")
	}
	return b
}

// appendArgs appends arguments, those of a struct in braces.
func appendArgs(b []byte, args []Arg) []byte {
	for i, a := range args {
		if i > 0 {
			b = append(b, ", "...)
		}
		switch b = append(b, a.Name...); {
		case a.Kind == ArgStruct:
			b = append(appendArgs(append(b, '{'), a.Fields), '}')
		case a.Kind == ArgInt64:
			b = strconv.AppendInt(append(b, '='), a.Int, 10)
		case a.Kind == ArgFloat32:
			b = fmt.Appendf(b, "=%g", float32(a.Float))
		case a.Kind.IsFloat():
			b = fmt.Appendf(b, "=%s %g", a.Kind, a.Float)
		case a.Kind != ArgBuffer:
			b = fmt.Appendf(b, "=%s %d", a.Kind, a.Int)
		}
	}
	return b
}

// Takes says whether any launch has the buffer as an argument.
func (p Plan) Takes(buffer string) bool {
	return slices.ContainsFunc(p.Launches, func(l Launch) bool {
		for name := range BuffersOf(l.Args) {
			if name == buffer {
				return true
			}
		}
		return false
	})
}

// Writes says whether any launch has an output of the problem: the ruler's do not.
func (p Plan) Writes(of Problem) bool {
	is := func(t Tensor) bool { return t.Role == Output && p.Takes(t.Name) }
	return len(p.Inplace) > 0 || slices.ContainsFunc(of.Tensors(), is)
}

// ScratchBytes is the size of all scratch buffers, an upper bound of the
// partial traffic in each direction.
func (p Plan) ScratchBytes() int64 {
	var n int64
	for _, s := range p.Scratch {
		n += s.Bytes()
	}
	return n
}
