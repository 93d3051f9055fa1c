package triton

import (
	"fmt"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// Int is a whole number of a launch as the compiler is told of it, so that numbers of one class are
// one kernel. The classes are those of Triton's own launcher: 1, multiples of 16, others, by 32 or
// 64 bits. A multiple of 2, 4 or 8 is a class too, for versions that look at those.
func Int(n int64) string {
	if n == 1 {
		return "1"
	}
	low := min(n&-n, 16)
	switch {
	case n == 0:
		low = 16
	case low == 1:
		low = 3
	}
	if n != int64(int32(n)) {
		low += 1 << 40
	}
	return strconv.FormatInt(low, 10)
}

// Pointer is a buffer's type as Triton writes it.
func Pointer(d kernels.DType) string {
	if d == kernels.E4M3 {
		return "*fp8e4nv"
	}
	return "*" + d.String()
}

// kinds are Triton's types of numbers.
var kinds = map[string]kernels.ArgKind{
	"i1": kernels.ArgBool, "u1": kernels.ArgBool, "i8": kernels.ArgInt8, "u8": kernels.ArgUint8,
	"i16": kernels.ArgInt16, "u16": kernels.ArgUint16, "i32": kernels.ArgInt32, "u32": kernels.ArgUint32,
	"i64": kernels.ArgInt64, "u64": kernels.ArgUint64, "fp16": kernels.ArgFP16, "bf16": kernels.ArgBF16,
	"fp32": kernels.ArgFloat32, "fp64": kernels.ArgFloat64,
}

// Complete is launch l of a compiled kernel: with its arguments in the kernel's order, and with
// what the kernel says of its block, shared memory, cluster and scratch. The arguments are held
// against the parameters that the cubin itself has, so no version of Triton is assumed.
func Complete(b *nvrtc.Binary, l kernels.Launch) (kernels.Launch, []kernels.Scratch, error) {
	m := b.Meta
	bad := func(help, format string, args ...any) error {
		return hint.Errorf(help, "%s: %s: %s", l.Source, l.Entry, fmt.Sprintf(format, args...))
	}
	if m.Descriptors > 0 {
		return l, nil, bad("make them in the kernel, by tl.make_tensor_descriptor",
			"it takes tensor descriptors, which the host would have to make")
	}
	given := map[string]kernels.Arg{}
	for i, a := range l.Args {
		name, _, _ := strings.Cut(l.Params[i], "=")
		given[name] = a
	}
	l.Args = nil
	var sizes []int
	for _, p := range m.Params {
		a, ok := given[p.Name]
		if !ok {
			return l, nil, bad("give it one under args", "parameter %s has no argument", p.Name)
		}
		a, help, what := fit(p, a)
		if what != "" {
			return l, nil, bad(help, "parameter %s is of type %s, which %s", p.Name, p.Type, what)
		}
		l.Args = append(l.Args, a)
		sizes = append(sizes, a.Kind.Size())
	}
	l.Params = nil
	l.Block, l.Shared = m.Threads, m.Shared
	l.Resident, l.Early = l.Resident || m.Cooperative, l.Early || m.Early
	if m.Cluster > 1 {
		l.Cluster = m.Cluster
		l.Grid[0] *= m.Cluster
	}
	scratch, err := scratch(b, &l, sizes, bad)
	return l, scratch, err
}

// fit is an argument as a parameter takes it; else what says why it does not.
func fit(p nvrtc.Param, a kernels.Arg) (as kernels.Arg, help, what string) {
	kind, number := kinds[p.Type]
	pointer, buffer := strings.HasPrefix(p.Type, "*"), a.Kind == kernels.ArgBuffer
	if pointer != buffer || !buffer && !number {
		return a, "a manifest gives tensors, scratch and numbers", a.Name + " is not"
	}
	if !number {
		return a, "", ""
	}
	if kind.IsFloat() && !a.Kind.IsFloat() {
		a.Float = float64(a.Int)
	}
	if lo, hi := kind.Range(); !kind.IsFloat() && (a.Kind.IsFloat() || a.Int < lo || a.Int > hi) {
		var value any = a.Int
		if a.Kind.IsFloat() {
			value = a.Float
		}
		return a, "see its annotation", fmt.Sprintf("does not hold %v", value)
	}
	a.Kind = kind
	return a, "", ""
}

// scratch adds the pointers to scratch memory that the cubin takes behind the arguments.
func scratch(b *nvrtc.Binary, l *kernels.Launch, sizes []int,
	bad func(help, format string, args ...any) error) (list []kernels.Scratch, err error) {
	const help = "this version of Triton passes its arguments in another way; docs/triton.md " +
		"has those that were tried"
	have, ok := b.Params(l.Entry)
	pointers := len(have) - len(sizes)
	if !ok {
		return nil, bad(help, "the cubin does not tell its parameters")
	}
	for i := range pointers {
		sizes = append(sizes, 8)
		name := [...]string{"global", "profile"}[min(i, 1)]
		arg := kernels.Arg{}
		if i < len(b.Meta.Scratch) && b.Meta.Scratch[i][0] > 0 {
			n, align := b.Meta.Scratch[i][0], b.Meta.Scratch[i][1]
			if align > 256 {
				return nil, bad(help, "its %s scratch is aligned to %d bytes", name, align)
			}
			arg.Name = l.Stage + "." + name
			ctas := int64(l.Grid[0]) * int64(l.Grid[1]) * int64(l.Grid[2])
			list = append(list, kernels.Scratch{Name: arg.Name, DType: kernels.I32,
				Elems: (int64(n)*ctas + 3) / 4})
		}
		l.Args = append(l.Args, arg)
	}
	wanted := 0
	for _, s := range b.Meta.Scratch {
		wanted += int(min(s[0], 1))
	}
	switch {
	case pointers > 2:
		return nil, bad(help, "the cubin takes %d pointers behind its arguments, 2 are known", pointers)
	case len(list) < wanted:
		return nil, bad(help, "the cubin wants scratch by %d pointers, and takes %d", wanted, len(list))
	case fmt.Sprint(sizes) != fmt.Sprint(have):
		return nil, bad(help, "the cubin takes %d parameters of %v bytes, and is given %d of %v",
			len(have), have, len(sizes), sizes)
	}
	return list, nil
}
