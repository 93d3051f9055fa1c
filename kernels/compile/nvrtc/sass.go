package nvrtc

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// checkCopies refuses a cubin with an instruction that an sm_90 does not take: of some cp.async
// with an L2 policy (those behind a guard, mostly, and of several slots) NVRTC 13.0 makes an LDGSTS
// of another form, whose descriptor nvdisasm shows as desc[UR1], where pairs begin at even
// registers. An H200 ends such a kernel by CUDA_ERROR_ILLEGAL_INSTRUCTION, and with it the context
// and whatever else the process had there. Of 1437 cubins of ours nvdisasm shows it in 67, the same
// that this finds.
func checkCopies(src Source, opt CompileOptions, cubin []byte) error {
	if !strings.HasPrefix(opt.Arch, "sm_90") {
		return nil // another form may be a legal one there
	}
	n := illegalCopies(cubin)
	if n == 0 {
		return nil
	}
	return &CompileError{Source: src.Name, Result: "illegal instruction", Log: fmt.Sprintf(
		"nvrtc: error: %d asynchronous copies under a cache policy are instructions that %s "+
			"refuses (a bug of NVRTC 13.0); bulk copies (cp 2) and copies without a policy (ch "+
			"0, 2) are not", n, opt.Arch)}
}

// illegalCopies counts the illegal LDGSTS in a cubin of sm_90, which has 16 bytes an instruction:
// operation 0xdae, and no register where 0xfae has that of its descriptor.
func illegalCopies(cubin []byte) (n int) {
	f, err := openELF(cubin)
	if err != nil {
		return 0
	}
	defer f.Close()
	for _, s := range f.Sections {
		if !strings.HasPrefix(s.Name, ".text.") {
			continue
		}
		code, err := s.Data()
		if err != nil {
			continue
		}
		for ; len(code) >= 16; code = code[16:] {
			low, high := binary.LittleEndian.Uint64(code), binary.LittleEndian.Uint64(code[8:])
			if low&0xfff == 0xdae && high&0x3f == 0 {
				n++
			}
		}
	}
	return n
}
