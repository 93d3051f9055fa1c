package triton

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/compile/nvrtc"
)

// Numbers of a class are one kernel, and the class is kept.
func TestNumbersOfAClassAreOneKernel(t *testing.T) {
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
func TestLaunchFitsTheCompiledKernel(t *testing.T) {
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

// A manifest has what is known, guesses where names and lines agree, and marks elsewhere; what else decorators
// hold is told: testdata/manifests.txt, of testdata/norms.py.
func TestManifestOfASignatureGuessesOrMarks(t *testing.T) {
	double(t)
	text := string(assert.File(t, "testdata/norms.py"))
	var all []string
	for _, function := range strings.Fields("rms_fwd gated _ln plain once tuned strange next_power") {
		r := Request{Source: "norms.py", Function: function}
		found, err := Probe("", "testdata", map[string]string{"norms.py": text}, []Request{r})
		assert.NoError(t, err)
		f := found[0]
		if f.Error != "" {
			all = append(all, f.Error+"\n")
			continue
		}
		var d Description
		if f.Wrapped {
			d, err = Describe("", f.Source("norms.py"), function, card, time.Minute)
		}
		all = append(all, Manifest(r, f, d, err))
	}
	assert.Golden(t, "testdata/manifests.txt", strings.Join(all, "\n"))
}

// A probe finds what a source can depend on: its package and what it imports of it, other texts without a
// distribution, and distributions by name and version. What a folder's probe finds is kept while nothing changes.
func TestProbeFindsWhatASourceDependsOn(t *testing.T) {
	double(t)
	dir := t.TempDir()
	write := func(name, text string) { assert.Write(t, filepath.Join(dir, name), text) }
	text := "import beside, installed.part, loose, os\nfrom .tools import SIZE\nfrom .. import more\n" +
		"from ..named import NAME\nimport triton\n@triton.jit\ndef f(x): pass\n"
	for name, text := range map[string]string{
		"lib/__init__.py": "import lib.huge", "lib/huge.py": "import nowhere", "lib/more.py": "MORE = 1",
		"lib/named/__init__.py": "from .a import NAME", "lib/named/a.py": "NAME = 1", "lib/named/b.py": "",
		"lib/ops/__init__.py": "", "lib/ops/tools.py": "SIZE = 1", "lib/ops/beside.py": "import loose",
		"lib/ops/k.py":               text,
		"site/installed/__init__.py": "import further", "site/installed/part.py": "import absent",
		"site/installed-1.0.dist-info/RECORD": "installed/__init__.py,,\ninstalled/part.py,,\n",
		"site/loose.py":                       "from further import x", "site/further.py": "x = 1",
		"python": "#!/bin/sh\necho >>" + filepath.Join(dir, "runs") + "\nexec " + Python("") + " \"$@\"\n",
	} {
		write(name, text)
	}
	assert.NoError(t, os.Chmod(filepath.Join(dir, "python"), 0o755))
	t.Setenv(PythonVariable, filepath.Join(dir, "python"))
	t.Setenv("PYTHONPATH", os.Getenv("PYTHONPATH")+string(os.PathListSeparator)+filepath.Join(dir, "site"))
	probe := func() FunctionSignature {
		found, err := ProbeFolder("", filepath.Join(dir, "lib/ops"), map[string]string{"k.py": text},
			[]Request{{Source: "k.py", Function: "f"}})
		assert.NoError(t, err)
		assert.Equal(t, found[0].Error, "")
		return found[0]
	}
	runs := func() int { return len(assert.File(t, filepath.Join(dir, "runs"))) }
	first := probe()
	assert.Equal(t, first.Package, "lib.ops")
	assert.Same(t, slices.Sorted(maps.Keys(first.Files)), []string{"lib/more.py", "lib/named/__init__.py", "lib/named/a.py",
		"lib/ops/beside.py", "lib/ops/tools.py"})
	assert.Same(t, probe(), first)
	assert.Equal(t, runs(), 1)
	for _, x := range []struct {
		name, text string
		same, kept bool // the hash of what lies elsewhere, and the answer
	}{
		{"site/installed/part.py", "import absent # or not", true, true}, // as its version says
		{"site/unused.py", "", true, false},                              // it might be what a name finds now
		{"lib/huge.py", "import nowhere, at, all", true, true},
		{"lib/ops/tools.py", "SIZE = 2", true, false},
		{"site/further.py", "x = 2 # more", false, false},
		{"site/installed-1.1.dist-info/RECORD", "installed/__init__.py,,\ninstalled/part.py,,\n", false, false},
	} {
		if strings.Contains(x.name, "1.1") {
			assert.NoError(t, os.RemoveAll(filepath.Join(dir, "site/installed-1.0.dist-info")))
		}
		before, f := runs(), probe()
		write(x.name, x.text)
		now := probe()
		assert.Equal(t, now.Hash == f.Hash, x.same, x.name)
		assert.Equal(t, runs() == before, x.kept, "kept: "+x.name)
	}
	assert.Equal(t, probe().Files["lib/ops/tools.py"], "SIZE = 2")
}
