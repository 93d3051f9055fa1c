package kernels

import (
	"fmt"
	"strings"
)

// A Plan is a variant on a problem as pure data: what to launch, in order, and
// the scratch it needs. Equal plans do the same thing, whatever their labels.
type Plan struct {
	Launches []Launch
	Scratch  []Scratch
	Rounds   []Rounding
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
	Name  string
	DType DType
	Elems int64
}

// Bytes is the size in bytes.
func (s Scratch) Bytes() int64 { return s.Elems * s.DType.Size() }

// A Launch is one kernel launch, timed as the stage of that name.
type Launch struct {
	Stage   string // "k1", "k2", ...: unique in a plan
	Source  string // file that holds the entry, among the families' sources; "" for Memcpy
	Entry   string // extern "C" kernel, and the key of its host stage
	Grid    [3]int // programs
	Block   int    // threads per program
	Shared  int    // dynamic shared memory per program, bytes
	Cluster int    // neighbouring programs that run as one cluster (sm_90); 0 for none
	// Resident says that programs wait for each other: all of the grid must fit
	// on the device at once, or the launch is refused.
	Resident bool
	// Early lets the launch start before the one ahead has ended (programmatic
	// dependent launch); the kernel waits for it where it needs to. Before sm_90 it
	// starts as any other.
	Early bool
	// Apart asks for each program on a multiprocessor of its own while there are
	// enough: it gets more than half of the shared memory. Programs that start early
	// would otherwise crowd on the multiprocessors that the launch ahead left idle.
	Apart   bool
	Defines []Define
	Args    []Arg
}

// Memcpy is the entry of a launch that is no kernel but the driver's own copy:
// from its first argument to its second, as many bytes as its third says.
const Memcpy = "memcpy"

// Memset is the entry of a launch that is no kernel but the driver's own memset:
// as many bytes of its first argument as its second says become zero.
const Memset = "memset"

// Zero is the launch that clears a buffer.
func Zero(stage, buffer string, bytes int64) Launch {
	return Launch{Stage: stage, Entry: Memset, Grid: [3]int{1, 1, 1}, Args: append(Buffers(buffer), Int64("bytes", bytes))}
}

// IsKernel says whether the launch is a kernel, not a copy or memset of the
// driver's.
func (l *Launch) IsKernel() bool { return l.Entry != Memcpy && l.Entry != Memset }

// A Define is a compile-time parameter: a macro of the CUDA entry, and what the
// host stage reads with HostRun.Define.
type Define struct {
	Name  string
	Value int64
}

// ArgKind says what an Arg holds.
type ArgKind uint8

// The kinds of kernel arguments. Every one takes an 8-byte slot.
const (
	ArgBuffer  ArgKind = iota // pointer to the tensor or scratch buffer Name
	ArgInt64                  // Int
	ArgFloat32                // Float
)

// An Arg is one kernel argument.
type Arg struct {
	Kind  ArgKind
	Name  string
	Int   int64
	Float float32
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
func Float32(name string, v float32) Arg { return Arg{Kind: ArgFloat32, Name: name, Float: v} }

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
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p.Scratch {
		fmt.Fprintf(&b, "scratch %s %s[%d]\n", s.Name, s.DType, s.Elems)
	}
	for _, r := range p.Rounds {
		fmt.Fprintf(&b, "rounds %s to %s\n", r.Output, r.DType)
	}
	for _, l := range p.Launches {
		fmt.Fprintf(&b, "%s %s:%s grid=%d,%d,%d block=%d shared=%d", l.Stage, l.Source, l.Entry, l.Grid[0], l.Grid[1], l.Grid[2], l.Block, l.Shared)
		if l.Cluster > 0 {
			fmt.Fprintf(&b, " cluster=%d", l.Cluster)
		}
		if l.Resident {
			b.WriteString(" resident")
		}
		if l.Early {
			b.WriteString(" early")
		}
		if l.Apart {
			b.WriteString(" apart")
		}
		for _, d := range l.Defines {
			fmt.Fprintf(&b, " %s=%d", d.Name, d.Value)
		}
		b.WriteString(" (")
		for i, a := range l.Args {
			if i > 0 {
				b.WriteString(", ")
			}
			switch a.Kind {
			case ArgBuffer:
				b.WriteString(a.Name)
			case ArgInt64:
				fmt.Fprintf(&b, "%s=%d", a.Name, a.Int)
			case ArgFloat32:
				fmt.Fprintf(&b, "%s=%g", a.Name, a.Float)
			}
		}
		b.WriteString(")\n")
	}
	return b.String()
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
