//go:build !(cuda && cgo && linux && (amd64 || arm64))

package cupti

import "fmt"

// A Tracer records what the GPU does. There is none in this build.
type Tracer struct{}

// Open fails with [ErrNotFound]: tracing needs Linux, cgo and the build tag cuda.
func Open() (*Tracer, error) {
	return nil, fmt.Errorf("%w: tracing needs linux, cgo and the build tag cuda", ErrNotFound)
}

// Version is 0.
func (t *Tracer) Version() int { return 0 }

// Path is empty.
func (t *Tracer) Path() string { return "" }

// Start fails.
func (t *Tracer) Start() error { return ErrNotFound }

// Stop fails.
func (t *Tracer) Stop() ([]Activity, error) { return nil, ErrNotFound }
