package cupti

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

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

// TestHeaders holds the layouts to the headers of a CUDA toolkit at /usr/local/cuda, or to those in
// NORMBENCH_CUPTI_INCLUDE=DIR[:DIR...], folders with cupti_activity.h and cuda.h. A type has the
// same fields in all versions that have it, from CUDA 11.8 to 13.0, and CUPTI makes the newest.
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
	n := 0
	for line := range strings.Lines(string(out)) {
		var name string
		var got layout
		if _, err := fmt.Sscanf(line, "%s start %d end %d stream %d correlation %d name %d size %d", &name,
			&got.start, &got.end, &got.stream, &got.correlation, &got.name, &got.size); err != nil {
			t.Fatal(line, err)
		}
		got.kind = Kind(strings.ToLower(strings.TrimRight(name, "0123456789")))
		for _, want := range layouts {
			if size := got.size; want.kind == got.kind {
				if got.size = want.size; got != want || size < want.size {
					t.Errorf("%s has %+v and %d bytes, want %+v", name, got, size, want)
				}
				got.size = size
			}
		}
		n++
	}
	if n < 12 {
		t.Errorf("only %d types", n)
	}
	t.Logf("%d types", n)
}
