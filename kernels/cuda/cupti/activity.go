package cupti

import (
	"encoding/binary"
	"errors"
)

// An Activity is one piece of work on the GPU.
type Activity struct {
	Name          string // entry name of the kernel, or "memset" or "memcpy"
	StartNS       uint64 // on one clock for all activities
	EndNS         uint64
	StreamID      uint32
	CorrelationID uint32 // counts calls of the driver
}

// A layout says where the fields of a record are, in bytes.
type layout struct {
	what                            string
	start, end, stream, correlation int
	name                            int // 0: the record has none
	size                            int // at least
}

// layouts by the number of the activity kind. In order, the types are CUpti_ActivityMemcpy*,
// CUpti_ActivityMemset*, and CUpti_ActivityKernel4 and later.
var layouts = map[uint32]layout{
	kindMemcpy: {what: "memcpy", start: 16, end: 24, stream: 40, correlation: 44, size: 48},
	kindMemset: {what: "memset", start: 16, end: 24, stream: 40, correlation: 44, size: 48},
	kindKernel: {what: "kernel", start: 16, end: 24, stream: 48, correlation: 92, name: 104, size: 112},
}

// Values of CUpti_ActivityKind.
const (
	kindMemcpy = 1
	kindMemset = 2
	kindKernel = 10
)

// errBroken is a record that cannot be read, or is of what could not be collected or has not ended.
var errBroken = errors.New("a broken activity record")

// parse reads a record from the bytes at its start, which may go on beyond it. Text fetches a
// string at an address. It returns false for a record of a kind that is not asked for.
func parse(record []byte, text func(address uint64) string) (Activity, bool, error) {
	if len(record) < 4 {
		return Activity{}, false, errBroken
	}
	l, ok := layouts[binary.NativeEndian.Uint32(record)]
	if !ok {
		return Activity{}, false, nil
	}
	if len(record) < l.size {
		return Activity{}, false, errBroken
	}
	a := Activity{
		Name:          l.what,
		StartNS:       binary.NativeEndian.Uint64(record[l.start:]),
		EndNS:         binary.NativeEndian.Uint64(record[l.end:]),
		StreamID:      binary.NativeEndian.Uint32(record[l.stream:]),
		CorrelationID: binary.NativeEndian.Uint32(record[l.correlation:]),
	}
	if l.name != 0 {
		a.Name = text(binary.NativeEndian.Uint64(record[l.name:]))
	}
	if a.Name == "" || a.StartNS == 0 || a.EndNS < a.StartNS {
		return Activity{}, false, errBroken
	}
	return a, true, nil
}
