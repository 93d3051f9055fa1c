package cupti

import (
	"encoding/binary"
	"testing"

	"normbench/internal/assert"
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

// What a record is, by its kind, the address of its name, its times and how many bytes are there of
// it: testdata/activities.txt.
func TestParse(t *testing.T) {
	assert.Lines(t, "testdata/activities.txt", func(input string) string {
		x := assert.Value[struct {
			Kind, Name, Start, End uint64
			Cut                    int
		}](t, input)
		a := Activity{StartNS: x.Start, EndNS: x.End, StreamID: 7, CorrelationID: 1 << 31}
		b := record(uint32(x.Kind), a, x.Name)
		if x.Cut > 0 {
			b = b[:x.Cut]
		}
		got, ok, err := parse(b, text)
		if err != nil {
			return err.Error()
		}
		a.Name = got.Name
		assert.That(t, ok == (got == a) && (ok || got == Activity{}), "%s: %+v, %v", input, got, ok)
		return got.Name
	})
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
