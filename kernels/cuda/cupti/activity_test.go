package cupti

import (
	"encoding/binary"
	"fmt"
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
	a := Activity{"", 1 << 60, 1<<60 + 5, 7, 1 << 31}
	for _, tt := range []struct {
		number uint32
		a      Activity
		name   uint64
		cut    int    // bytes of the record, 0 for all
		want   string // the name of the activity
		err    string
	}{
		{number: kindKernel, a: a, name: 1, want: "k"},
		{number: kindKernel, a: a, name: 1 << 40, want: "_Z1kPf"},
		{number: kindKernel, a: a, name: 1, cut: 112, want: "k"},
		{number: kindKernel, a: a, name: 1, cut: 111, err: "kernel record of 111 bytes"},
		{number: kindKernel, a: a, name: 0, err: "kernel record without a name"},
		{number: kindMemset, a: a, cut: 48, want: "memset"},
		{number: kindMemcpy, a: a, want: "memcpy"},
		{number: kindMemcpy, a: Activity{StartNS: 3, EndNS: 3}, want: "memcpy"},
		{number: kindMemcpy, a: a, cut: 47, err: "memcpy record of 47 bytes"},
		{number: kindMemcpy, a: a, cut: 3, err: "activity record of 3 bytes"},
		{number: kindKernel, a: Activity{StartNS: 9}, name: 1, err: "no times for k"},
		{number: kindMemset, a: Activity{StartNS: 9, EndNS: 7}, err: "memset ends 2 ns before it starts"},
		{number: 5, a: a}, // a driver call
		{number: 5, a: a, cut: 4},
	} {
		b := record(tt.number, tt.a, tt.name)
		if tt.cut != 0 {
			b = b[:tt.cut]
		}
		want := tt.a
		if want.Name = tt.want; tt.want == "" {
			want = Activity{}
		}
		got, ok, err := parse(b, text)
		if got != want || ok != (tt.want != "") || tt.err != fmt.Sprint(err) && (tt.err != "" || err != nil) {
			t.Errorf("kind %d, %+v: got %+v, %v, %v, want %+v, %s", tt.number, tt.a, got, ok, err, want,
				tt.err)
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
