package nvrtc

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
)

// Params are the sizes of a kernel's parameters in bytes, in their order; ok is false where the
// binary does not tell them.
//
// A section .nv.info.SYMBOL holds attributes: a byte for the format, one for the attribute, then
// two for a value, or for the size of what follows. A parameter (attribute 0x17) has 12 bytes: an
// index, its number, its offset, and bits of which those from the 18th on are its size. (The layout
// is not documented by NVIDIA; cuobjdump -elf shows it.)
func (b *Binary) Params(entry string) (sizes []int, ok bool) {
	if !bytes.HasPrefix(b.Cubin, []byte(elf.ELFMAG)) {
		return paramsOfPTX(string(b.Cubin), b.Symbol(entry))
	}
	f, err := openELF(b.Cubin)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	s := f.Section(".nv.info." + b.Symbol(entry))
	if s == nil {
		return nil, false
	}
	data, err := s.Data()
	if err != nil {
		return nil, false
	}
	const sized, parameter = 4, 0x17
	found := map[int]int{}
	for len(data) >= 4 {
		format, attribute, n := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		if format != sized {
			continue
		}
		if n > len(data) {
			return nil, false
		}
		if attribute == parameter && n == 12 {
			found[int(binary.LittleEndian.Uint16(data[4:]))] = int(binary.LittleEndian.Uint32(data[8:]) >> 18)
		}
		data = data[n:]
	}
	for i := range len(found) {
		size, ok := found[i]
		if !ok {
			return nil, false
		}
		sizes = append(sizes, size)
	}
	return sizes, len(sizes) > 0 // else a later version may tell them by another attribute
}

// parameterRE matches a parameter in PTX: ".param .u64 .ptr .global .align 1 x", or an array of bytes,
// ".param .align 8 .b8 x[16]".
var parameterRE = regexp.MustCompile(
	`^\s*\.param\s+(?:\.align\s+\d+\s+)?\.[busf](\d+)\s[^\[\]]*(?:\[(\d+)\])?\s*$`)

// paramsOfPTX reads the list of parameters behind the name of an entry.
func paramsOfPTX(text, symbol string) (sizes []int, ok bool) {
	_, list, _ := strings.Cut(text, ".entry "+symbol+"(")
	list, _, ok = strings.Cut(list, ")")
	if !ok || strings.TrimSpace(list) == "" {
		return nil, ok
	}
	for p := range strings.SplitSeq(list, ",") {
		m := parameterRE.FindStringSubmatch(p)
		if m == nil {
			return nil, false
		}
		bits, _ := strconv.Atoi(m[1])
		elems, _ := strconv.Atoi(cmp.Or(m[2], "1"))
		sizes = append(sizes, bits/8*elems)
	}
	return sizes, true
}

// openELF opens a cubin. Up to CUDA 12 the word for the version of ELF is the toolkit's.
func openELF(cubin []byte) (*elf.File, error) {
	const version = 20
	if len(cubin) > version+4 {
		cubin = bytes.Clone(cubin)
		binary.LittleEndian.PutUint32(cubin[version:], uint32(elf.EV_CURRENT))
	}
	return elf.NewFile(bytes.NewReader(cubin))
}

// HasKernel says whether the binary has a kernel of that symbol; in PTX by its text.
func (b *Binary) HasKernel(symbol string) bool {
	if !bytes.HasPrefix(b.Cubin, []byte(elf.ELFMAG)) {
		return bytes.Contains(b.Cubin, []byte(".entry "+symbol+"("))
	}
	f, err := openELF(b.Cubin)
	if err != nil { // cut off; the text of its PTX may stand in it
		return false
	}
	defer f.Close()
	return f.Section(".text."+symbol) != nil
}
