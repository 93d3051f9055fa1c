package kernels

import (
	"slices"
	"testing"

	"normbench/internal/assert"
)

// A struct lies in its slots as C lays it out: struct {char a; struct {short b; void *p;} in; float c; bool d;}
// has 32 bytes, with a at 0, b at 8, p at 16, c at 24 and d at 28.
func TestStructLiesAsCLaysItOut(t *testing.T) {
	of := Arg{Kind: ArgStruct, Fields: []Arg{
		{Kind: ArgInt8, Int: -1},
		{Kind: ArgStruct, Fields: []Arg{{Kind: ArgInt16, Int: 0x1234}, {Kind: ArgBuffer, Name: "x"}}},
		{Kind: ArgFloat32, Float: 1}, {Kind: ArgBool, Int: 1}}}
	assert.Equal(t, of.Size(), 32, "bytes")
	slots := []uint64{9, 9, 9, 9}
	of.Put(slots, func(string) uint64 { return 0xabc })
	assert.Same(t, slots, []uint64{0xff, 0x1234, 0xabc, 0x1_3f800000})
	for at, name := range of.Pointers() {
		assert.That(t, at == 2 && name == "x", "%s is in slot %d", name, at)
	}
	// Twelve bytes, aligned to four.
	small := Arg{Kind: ArgStruct, Fields: []Arg{{Kind: ArgInt16}, {Kind: ArgInt32, Int: 5}, {Kind: ArgInt8, Int: 7}}}
	assert.Equal(t, small.Size(), 12, "bytes of a struct without pointers")
	all := []Arg{small, {Kind: ArgBuffer, Name: "y"}, of}
	made, firsts := SlotsOf(all)
	assert.Same(t, firsts, []uint64{0, 2, 3})
	assert.Equal(t, len(made), 7, "slots")
	assert.Same(t, slices.Collect(BuffersOf(all)), []string{"y", "x"})
	_, none := SlotsOf(Buffers("x", "y"))
	assert.That(t, none == nil, "arguments of one slot each have a list of where they begin: %v", none)
}
