package cupti

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// record makes the bytes of an activity record, as long as CUpti_ActivityKernel10 at most.
func record(number uint32, a Activity, name uint64) []byte {
	b := make([]byte, 216)
	l, ok := layouts[number]
	if !ok {
		l = layouts[kindMemset]
	}
	for i := range b {
		b[i] = 0xa5
	}
	binary.NativeEndian.PutUint32(b, number)
	binary.NativeEndian.PutUint64(b[l.start:], a.StartNS)
	binary.NativeEndian.PutUint64(b[l.end:], a.EndNS)
	binary.NativeEndian.PutUint32(b[l.stream:], a.StreamID)
	binary.NativeEndian.PutUint32(b[l.correlation:], a.CorrelationID)
	if l.name != 0 {
		binary.NativeEndian.PutUint64(b[l.name:], name)
	}
	return b
}

func text(address uint64) string { return map[uint64]string{1: "k", 1 << 40: "_Z1kPf"}[address] }

func TestParse(t *testing.T) {
	a := Activity{Kernel, "k", 1 << 60, 1<<60 + 5, 7, 1 << 31}
	for _, tt := range []struct {
		number uint32
		a      Activity
		name   uint64
		cut    int // bytes of the record, 0 for all
		want   Activity
		ok     bool
		err    string
	}{
		{number: kindConcurrentKernel, a: a, name: 1, want: a, ok: true},
		{number: kindKernel, a: a, name: 1, want: a, ok: true},
		{number: kindKernel, a: a, name: 1 << 40, want: Activity{Kernel, "_Z1kPf", a.StartNS, a.EndNS, 7, 1 << 31}, ok: true},
		{number: kindKernel, a: a, name: 1, cut: 112, want: a, ok: true},
		{number: kindKernel, a: a, name: 1, cut: 111, err: "kernel record of 111 bytes"},
		{number: kindKernel, a: a, name: 0, err: "kernel record without a name"},
		{number: kindMemset, a: a, cut: 48, want: Activity{Memset, "memset", a.StartNS, a.EndNS, 7, 1 << 31}, ok: true},
		{number: kindMemcpy, a: a, want: Activity{Memcpy, "memcpy", a.StartNS, a.EndNS, 7, 1 << 31}, ok: true},
		{number: kindMemcpy, a: Activity{StartNS: 3, EndNS: 3}, want: Activity{Memcpy, "memcpy", 3, 3, 0, 0}, ok: true},
		{number: kindMemcpy, a: a, cut: 47, err: "memcpy record of 47 bytes"},
		{number: kindMemcpy, a: a, cut: 3, err: "activity record of 3 bytes"},
		{number: kindKernel, name: 1, err: "no times for k"},
		{number: kindKernel, a: Activity{StartNS: 9}, name: 1, err: "no times for k"},
		{number: kindMemset, a: Activity{StartNS: 9, EndNS: 7}, err: "memset ends 2 ns before it starts"},
		{number: 5, a: a}, // a driver call
		{number: 5, a: a, cut: 4},
	} {
		b := record(tt.number, tt.a, tt.name)
		if tt.cut != 0 {
			b = b[:tt.cut]
		}
		got, ok, err := parse(b, text)
		if got != tt.want || ok != tt.ok || tt.err != fmt.Sprint(err) && (tt.err != "" || err != nil) {
			t.Errorf("kind %d, %+v: got %+v, %v, %v, want %+v, %v, %s", tt.number, tt.a, got, ok, err, tt.want, tt.ok, tt.err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for number := range uint32(12) {
		f.Add(record(number, Activity{StartNS: 1, EndNS: 2}, 1))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok, err := parse(b, text)
		if ok == (a == Activity{}) || ok && (err != nil || a.Name == "" || a.EndNS < a.StartNS) {
			t.Errorf("got %+v, %v, %v", a, ok, err)
		}
	})
}

// headers are CUDA's versions whose headers gave the sizes in TestLayouts, with what the types were
// that CUPTI of that version makes.
var headers = []struct{ cuda, kernel, memset, memcpy string }{
	{"11.8", "Kernel8", "Memset4", "Memcpy5"},
	{"12.0", "Kernel9", "Memset4", "Memcpy5"},
	{"12.9", "Kernel9", "Memset4", "Memcpy6"},
	{"13.0", "Kernel10", "Memset4", "Memcpy6"},
}

// The table below was printed by testdata/layouts.c compiled with gcc 12 and the headers of each
// version; one line is one type, and it is the same in all versions that have the type. With
// NORMBENCH_CUPTI_INCLUDE=DIR[:DIR...], folders with cupti_activity.h and cuda.h, or in a CUDA toolkit at
// /usr/local/cuda, it is printed and compared again.
const offsets = `Kernel4 start 16 end 24 stream 48 correlation 92 name 104 size 144
Kernel5 start 16 end 24 stream 48 correlation 92 name 104 size 160
Kernel6 start 16 end 24 stream 48 correlation 92 name 104 size 168
Kernel7 start 16 end 24 stream 48 correlation 92 name 104 size 176
Kernel8 start 16 end 24 stream 48 correlation 92 name 104 size 200
Kernel9 start 16 end 24 stream 48 correlation 92 name 104 size 208
Kernel10 start 16 end 24 stream 48 correlation 92 name 104 size 216
Memset start 16 end 24 stream 40 correlation 44 name 0 size 64
Memset2 start 16 end 24 stream 40 correlation 44 name 0 size 72
Memset3 start 16 end 24 stream 40 correlation 44 name 0 size 80
Memset4 start 16 end 24 stream 40 correlation 44 name 0 size 88
Memcpy start 16 end 24 stream 40 correlation 44 name 0 size 64
Memcpy3 start 16 end 24 stream 40 correlation 44 name 0 size 72
Memcpy4 start 16 end 24 stream 40 correlation 44 name 0 size 80
Memcpy5 start 16 end 24 stream 40 correlation 44 name 0 size 88
Memcpy6 start 16 end 24 stream 40 correlation 44 name 0 size 96
`

func TestLayouts(t *testing.T) {
	got := map[string]layout{}
	for line := range strings.Lines(offsets) {
		var name string
		var l layout
		var size int
		if _, err := fmt.Sscanf(line, "%s start %d end %d stream %d correlation %d name %d size %d", &name,
			&l.start, &l.end, &l.stream, &l.correlation, &l.name, &size); err != nil {
			t.Fatal(line, err)
		}
		l.kind = Kind(strings.ToLower(strings.TrimRight(name, "0123456789")))
		for _, want := range layouts {
			if want.kind == l.kind {
				l.size = want.size
				if l != want || size < want.size {
					t.Errorf("%s has %+v and %d bytes, want %+v", name, l, size, want)
				}
			}
		}
		got[name] = l
	}
	for _, h := range headers {
		for _, name := range []string{h.kernel, h.memset, h.memcpy} {
			if _, ok := got[name]; !ok {
				t.Errorf("the table lacks %s of CUDA %s", name, h.cuda)
			}
		}
	}
}

// TestHeaders holds the table against headers that are here.
func TestHeaders(t *testing.T) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	dirs := filepath.SplitList(os.Getenv("NORMBENCH_CUPTI_INCLUDE"))
	if len(dirs) == 0 {
		dirs = []string{"/usr/local/cuda/include", "/usr/local/cuda/extras/CUPTI/include"}
	}
	args := []string{"-w", "-o", filepath.Join(t.TempDir(), "layouts")}
	for _, dir := range dirs {
		args = append(args, "-I"+dir)
	}
	if out, err := exec.Command(cc, append(args, "testdata/layouts.c")...).CombinedOutput(); err != nil {
		if os.Getenv("NORMBENCH_CUPTI_INCLUDE") != "" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skip("no headers of CUPTI")
	}
	out, err := exec.Command(args[2]).Output()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(offsets) {
		name, rest, _ := strings.Cut(line, " ")
		known[name] = rest
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		name, rest, _ := strings.Cut(line, " ")
		if known[name] != rest {
			t.Errorf("%s: the header has %s, the table %s", name, rest, known[name])
		}
		n++
	}
	if n < 12 {
		t.Errorf("only %d types", n)
	}
	t.Logf("%d types", n)
}

func TestLayoutsAreOrdered(t *testing.T) {
	for number, l := range layouts {
		if l.start+8 != l.end || l.end+8 > l.stream || l.correlation+4 > l.size || l.name+8 > l.size || l.kind == "" {
			t.Errorf("kind %d: %+v", number, l)
		}
	}
	if !reflect.DeepEqual(layouts[kindKernel], layouts[kindConcurrentKernel]) {
		t.Error("kernels differ")
	}
}
