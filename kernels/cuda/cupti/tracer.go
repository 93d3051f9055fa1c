//go:build cuda && cgo && linux && (amd64 || arm64)

package cupti

// #include "buffers.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"normbench/internal/nvlib"
)

// Versions of CUPTI, as cuptiGetVersion tells them: up to CUDA 12 a number that counts, from 13 on
// 10000 times the major version plus 100 times the minor.
const (
	oldest = 18     // CUDA 11.8
	newest = 139999 // CUDA 13
)

// Values of CUptiResult.
const (
	success         = 0
	maxLimitReached = 12 // no more records in the buffer
)

// A Tracer records what the GPU does between Start and Stop. There is one in a process.
type Tracer struct {
	path    string
	version int
	lib     library

	mu         sync.Mutex
	registered bool
	running    bool
}

// library holds the functions of CUPTI. The signatures are those of cupti_activity.h.
type library struct {
	version    func(version *uint32) int32
	result     func(result int32, text *unsafe.Pointer) int32
	register   func(requested, completed unsafe.Pointer) int32
	enable     func(kind uint32) int32
	disable    func(kind uint32) int32
	flushAll   func(flag uint32) int32
	nextRecord func(buffer *byte, valid uintptr, record *unsafe.Pointer) int32
	dropped    func(context uintptr, stream uint32, n *uintptr) int32
}

// traced are the kinds of activity that are recorded.
var traced = []uint32{kindConcurrentKernel, kindMemset, kindMemcpy}

var opened struct {
	sync.Mutex
	tracer *Tracer
}

// Open finds and loads CUPTI; find.go says where. The later calls return the Tracer of the first
// that succeeded. The error is one line and wraps [ErrNotFound].
func Open() (*Tracer, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.tracer == nil {
		t, err := find(load)
		if err != nil {
			return nil, err
		}
		opened.tracer = t
	}
	return opened.tracer, nil
}

// load loads CUPTI from a file, or from a soname that the dynamic loader resolves. It does not need
// a driver.
func load(path string) (*Tracer, error) {
	t := &Tracer{}
	var err error
	if t.path, err = nvlib.Load(where.Name, path, map[string]any{
		"cuptiGetVersion":                   &t.lib.version,
		"cuptiGetResultString":              &t.lib.result,
		"cuptiActivityRegisterCallbacks":    &t.lib.register,
		"cuptiActivityEnable":               &t.lib.enable,
		"cuptiActivityDisable":              &t.lib.disable,
		"cuptiActivityFlushAll":             &t.lib.flushAll,
		"cuptiActivityGetNextRecord":        &t.lib.nextRecord,
		"cuptiActivityGetNumDroppedRecords": &t.lib.dropped,
	}); err != nil {
		return nil, err
	}
	var version uint32
	if r := t.lib.version(&version); r != success {
		return nil, fmt.Errorf("load CUPTI: %w", t.err("cuptiGetVersion", r))
	}
	if version < oldest || version > newest {
		return nil, fmt.Errorf("load CUPTI: version %d of %s is not from CUDA 11.8, 12 or 13", version, t.path)
	}
	t.version = int(version)
	return t, nil
}

// Version is CUPTI's own: 18 in CUDA 11.8, 28 in 12.9, 130001 in 13.0.
func (t *Tracer) Version() int { return t.version }

// Path is the file that was loaded.
func (t *Tracer) Path() string { return t.path }

// Start records from now on. The driver need not be in use yet.
func (t *Tracer) Start() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running {
		return errors.New("CUPTI is tracing already")
	}
	if C.nb_cupti_reserve(2) == 0 {
		return errors.New("no memory for CUPTI's buffers")
	}
	if !t.registered {
		if r := t.lib.register(unsafe.Pointer(C.nb_cupti_requested), unsafe.Pointer(C.nb_cupti_completed)); r != success {
			return t.err("cuptiActivityRegisterCallbacks", r)
		}
		t.registered = true
	}
	for i, kind := range traced {
		if r := t.lib.enable(kind); r != success {
			for _, kind := range traced[:i] {
				t.lib.disable(kind)
			}
			return t.err("cuptiActivityEnable", r)
		}
	}
	t.running = true
	return nil
}

// Stop records no more and returns what was recorded since Start, in the order of starts. The
// caller has waited for its work: an activity that has not ended is an error, and so is one that
// CUPTI had to drop.
func (t *Tracer) Stop() ([]Activity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		return nil, errors.New("CUPTI is not tracing")
	}
	t.running = false
	err := t.check("cuptiActivityFlushAll", t.lib.flushAll(1)) // 1: buffers that are not full, too
	for _, kind := range traced {
		err = errors.Join(err, t.check("cuptiActivityDisable", t.lib.disable(kind)))
	}
	acts, lost, readErr := t.drain()
	if err = errors.Join(err, readErr); err != nil {
		return nil, oneLine(err)
	}
	if lost > 0 {
		return nil, fmt.Errorf("CUPTI dropped %d records", lost)
	}
	inStartOrder(acts)
	return acts, nil
}

// drain empties the completed buffers, whatever is in them.
func (t *Tracer) drain() (acts []Activity, lost uint64, err error) {
	names := map[uint64]string{}
	text := func(address uint64) string {
		name, ok := names[address]
		if !ok && address != 0 {
			name = C.GoString(C.nb_cupti_text(C.uint64_t(address)))
			names[address] = name
		}
		return name
	}
	for {
		var valid C.size_t
		buffer := C.nb_cupti_take(&valid)
		if buffer == nil {
			break
		}
		if valid > C.NB_CUPTI_BUFFER {
			err = errors.Join(err, fmt.Errorf("CUPTI wrote %d bytes to a buffer of %d", valid, C.NB_CUPTI_BUFFER))
			valid = 0
		}
		for record := unsafe.Pointer(nil); valid > 0; {
			r := t.lib.nextRecord((*byte)(buffer), uintptr(valid), &record)
			if r == maxLimitReached {
				break
			}
			at := uintptr(record) - uintptr(unsafe.Pointer(buffer))
			if r != success || record == nil || at >= uintptr(valid) {
				err = errors.Join(err, t.err("cuptiActivityGetNextRecord", r))
				break
			}
			a, ok, bad := parse(unsafe.Slice((*byte)(record), uintptr(valid)-at), text)
			if bad != nil && err == nil { // one will do: there may be thousands
				err = bad
			}
			if ok {
				acts = append(acts, a)
			}
		}
		C.nb_cupti_release(buffer)
	}
	var n uintptr
	err = errors.Join(err, t.check("cuptiActivityGetNumDroppedRecords", t.lib.dropped(0, 0, &n)))
	return acts, uint64(n), err
}

// buffers tells how many buffers there are, and how many of them CUPTI holds.
func buffers() (all, held int) {
	var a, h C.int
	C.nb_cupti_count(&a, &h)
	return int(a), int(h)
}

func (t *Tracer) check(call string, result int32) error {
	if result == success {
		return nil
	}
	return t.err(call, result)
}

func (t *Tracer) err(call string, result int32) error {
	var text unsafe.Pointer
	if t.lib.result(result, &text) != success || text == nil {
		return fmt.Errorf("%s: CUPTI error %d", call, result)
	}
	return fmt.Errorf("%s: %s (%d)", call, C.GoString((*C.char)(text)), result)
}

func oneLine(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}
