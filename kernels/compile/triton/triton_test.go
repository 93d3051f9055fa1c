package triton

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// Numbers of a class are one kernel, and the class is kept.
func TestInt(t *testing.T) {
	for n, want := range map[int64]string{0: "16", 1: "1", 2: "2", 3: "3", 4: "4", 7: "3", 8: "8",
		24: "8", 16: "16", 4096: "16",
		-1: "3", -32: "16", 1<<31 - 1: "3", 1 << 31: "1099511627792", 1<<31 + 1: "1099511627779"} {
		assert.Equal(t, Int(n), want, n)
	}
}

// cubin is an ELF file of the version of CUDA 12 that tells a kernel's parameters, as sizes.
func cubin(entry string, sizes ...int) []byte {
	var info, file bytes.Buffer
	for i, size := range sizes {
		info.Write([]byte{4, 0x17, 12, 0})
		for _, v := range []any{uint32(0), uint16(i), uint16(0), uint32(size) << 18} {
			binary.Write(&info, binary.LittleEndian, v)
		}
	}
	names := "\x00.shstrtab\x00.nv.info." + entry + "\x00"
	head := elf.Header64{Type: 2, Machine: 190, Version: 0x80, Shoff: 64, Ehsize: 64, Shentsize: 64,
		Shnum: 3, Shstrndx: 1}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	at := uint64(64 + 3*64)
	binary.Write(&file, binary.LittleEndian, head)
	binary.Write(&file, binary.LittleEndian, []elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_STRTAB), Off: at, Size: uint64(len(names))},
		{Name: 11, Type: uint32(elf.SHT_LOPROC), Off: at + uint64(len(names)),
			Size: uint64(info.Len())}})
	file.WriteString(names)
	file.Write(info.Bytes())
	return file.Bytes()
}

// A launch is what the compiled kernel says, its arguments in the kernel's order; what does not fit
// is refused: testdata/launches.txt, by the entry and the sizes of parameters that the cubin has and by
// what else Triton says.
func TestComplete(t *testing.T) {
	assert.Lines(t, "testdata/launches.txt", func(input string) string {
		head, said, _ := strings.Cut(input, ": ")
		words := strings.Fields(head)
		var sizes []int
		for _, word := range words[1:] {
			sizes = append(sizes, assert.Value[int](t, word))
		}
		b := &nvrtc.Binary{Cubin: cubin(words[0], sizes...), Symbols: map[string]string{"f": "f"},
			Meta: &nvrtc.Meta{
				Params: []nvrtc.Param{{Name: "x", Type: "*bf16"}, {Name: "n", Type: "i32"},
					{Name: "eps", Type: "fp32"}},
				Threads: 256, Shared: 60000, Cluster: 1, Cooperative: true, Early: true,
				Scratch: [][2]int64{{0, 1}, {0, 1}}}}
		if words[0] == "none" {
			b.Cubin = []byte("no cubin")
		}
		assert.NoError(t, json.Unmarshal([]byte(said), b.Meta), input)
		l := kernels.Launch{Stage: "k1", Source: "user:f.py", Entry: "f", Grid: [3]int{6, 1, 1},
			Block: 128, Params: []string{"eps=0.5", "none=None", "x=*bf16", "n=16"},
			Args: []kernels.Arg{kernels.Float32("eps", 0.5), {}, {Name: "x"},
				kernels.Int64("n", 4096)}}
		whole, scratch, err := Complete(b, l)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(kernels.Plan{Launches: []kernels.Launch{whole}, Scratch: scratch}.String())
	})
}

// A manifest has what is known, guesses, and marks; heuristics and defaults are told.
func TestManifest(t *testing.T) {
	f := Signature{Params: []Parameter{{Name: "X_ptr"}, {Name: "DY"}, {Name: "_DW"}, {Name: "alpha"},
		{Name: "desc", Descriptor: true},
		{Name: "axis", Default: "None"}, {Name: "stride_x_row"}, {Name: "RSTD_row_stride"},
		{Name: "BLOCK", Constexpr: true}, {Name: "HAS_BIAS", Constexpr: true}, {Name: "MODE",
			Constexpr: true}, {Name: "BLOCK_M", Constexpr: true}}}
	d := Description{Heuristics: map[string]string{"MODE": "lambda args: 1",
		"BLOCK_M": "lambda args: 16", "HAS_BIAS": "lambda args: args['b'] is not None"}}
	for _, text := range []string{`{"BLOCK": 1024, "num_warps": 8}`,
		`{"BLOCK": 2048, "num_warps": 4, "num_stages": 2}`} {
		var c map[string]json.RawMessage
		assert.NoError(t, json.Unmarshal([]byte(text), &c))
		d.Configs = append(d.Configs, c)
	}
	assert.Golden(t, "testdata/manifest.yaml",
		Manifest(Request{Source: "k.py", Function: "_Bwd"}, f, d, errors.New("no torch")))
}
