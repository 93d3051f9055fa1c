//go:build cuda

package cupti

// #include "buffers.h"
import "C"

import (
	"errors"
	"fmt"
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

// where CUPTI is: in toolkits in a folder of its own. It runs with drivers of its age and newer
// ones, and with older ones of the same CUDA major version; load cannot tell, Start can.
var where = nvlib.Library{
	Name: "CUPTI", Variable: "NORMBENCH_CUPTI",
	Sonames: []string{"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"},
	Folders: []string{"extras/CUPTI/lib64", "targets/*/lib", "lib64"},
}

// A Tracer records what the GPU does between Start and Stop. There is one in a process.
type Tracer struct {
	path string
	lib  library

	mu         sync.Mutex
	registered bool
	running    bool
}

// library holds the functions of CUPTI. The signatures are those of cupti_activity.h.
type library struct {
	version    func(version *uint32) int32
	register   func(requested, completed unsafe.Pointer) int32
	enable     func(kind uint32) int32
	disable    func(kind uint32) int32
	flushAll   func(flag uint32) int32
	nextRecord func(buffer *byte, valid uintptr, record *unsafe.Pointer) int32
	dropped    func(context uintptr, stream uint32, n *uintptr) int32
}

// traced are the kinds of activity that are recorded.
var traced = []uint32{kindKernel, kindMemset, kindMemcpy}

// Open finds and loads CUPTI, once: the file named by the environment variable NORMBENCH_CUPTI, or
// where [nvlib.Find] looks. The error is one line.
var Open = sync.OnceValues(func() (*Tracer, error) { return nvlib.Find(where, load) })

// load loads CUPTI from a file, or from a soname that the dynamic loader resolves. It does not need
// a driver.
func load(path string) (*Tracer, error) {
	t := &Tracer{}
	var err error
	if t.path, err = nvlib.Load(where.Name, path, map[string]any{
		"cuptiGetVersion":                   &t.lib.version,
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
	if err := check("cuptiGetVersion", t.lib.version(&version)); err != nil {
		return nil, fmt.Errorf("load CUPTI: %w", err)
	}
	if version < oldest || version > newest {
		return nil, fmt.Errorf("load CUPTI: version %d of %s is not from CUDA 11.8, 12 or 13",
			version, t.path)
	}
	return t, nil
}

// Start records from now on. The driver need not be in use yet.
func (t *Tracer) Start() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running {
		return errors.New("CUPTI is tracing already")
	}
	if C.nb_cupti_reserve(2) == 0 {
		return errors.New("no memory for CUPTI's buffers")
	}
	if !t.registered {
		r := t.lib.register(unsafe.Pointer(C.nb_cupti_requested), unsafe.Pointer(C.nb_cupti_completed))
		if err := check("cuptiActivityRegisterCallbacks", r); err != nil {
			return err
		}
		t.registered = true
	}
	for i, kind := range traced {
		if err := check("cuptiActivityEnable", t.lib.enable(kind)); err != nil {
			for _, kind := range traced[:i] {
				t.lib.disable(kind)
			}
			return err
		}
	}
	t.running = true
	return nil
}

// Stop records no more and returns what was recorded since Start. The caller has waited for its
// work: an activity that has not ended is an error, and so is one that CUPTI had to drop.
func (t *Tracer) Stop() ([]Activity, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.running {
		return nil, errors.New("CUPTI is not tracing")
	}
	t.running = false
	err := check("cuptiActivityFlushAll", t.lib.flushAll(1)) // 1: buffers that are not full, too
	for _, kind := range traced {
		if bad := check("cuptiActivityDisable", t.lib.disable(kind)); err == nil {
			err = bad
		}
	}
	acts, bad := t.drain()
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	return acts, nil
}

// drain empties the completed buffers, whatever is in them. The error is the first.
func (t *Tracer) drain() (acts []Activity, err error) {
	note := func(bad error) {
		if err == nil {
			err = bad
		}
	}
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
			note(fmt.Errorf("CUPTI wrote %d bytes to a buffer of %d", valid, C.NB_CUPTI_BUFFER))
			valid = 0
		}
		for record := unsafe.Pointer(nil); valid > 0; {
			r := t.lib.nextRecord((*byte)(buffer), uintptr(valid), &record)
			if r == maxLimitReached {
				break
			}
			at := uintptr(record) - uintptr(unsafe.Pointer(buffer))
			if r != success || record == nil || at >= uintptr(valid) {
				note(fmt.Errorf("cuptiActivityGetNextRecord: CUPTI error %d", r))
				break
			}
			a, ok, bad := parse(unsafe.Slice((*byte)(record), uintptr(valid)-at), text)
			note(bad)
			if ok {
				acts = append(acts, a)
			}
		}
		C.nb_cupti_release(buffer)
	}
	var lost uintptr
	note(check("cuptiActivityGetNumDroppedRecords", t.lib.dropped(0, 0, &lost)))
	if lost > 0 {
		note(fmt.Errorf("CUPTI dropped %d records", lost))
	}
	return acts, err
}

// buffers tells how many buffers there are, and how many of them CUPTI holds.
func buffers() (all, held int) {
	var a, h C.int
	C.nb_cupti_count(&a, &h)
	return int(a), int(h)
}

// check is the error of a call. Nobody is told it but tests: events time what CUPTI does not.
func check(call string, result int32) error {
	if result == success {
		return nil
	}
	return fmt.Errorf("%s: CUPTI error %d", call, result)
}
