//go:build !linux || !(amd64 || arm64) || android

package nvrtc

import (
	"fmt"
	"runtime"
)

const supported = false

// A Compiler is a loaded NVRTC library. On this platform there is none.
type Compiler struct{}

func unsupported() error {
	return fmt.Errorf("%w: compiling kernels is not supported on %s/%s, use linux", ErrNotFound, runtime.GOOS, runtime.GOARCH)
}

// Open fails on this platform with an error that wraps [ErrNotFound].
func Open(path string) (*Compiler, error) { return nil, unsupported() }

// Version is 0, 0 on this platform.
func (c *Compiler) Version() (major, minor int) { return 0, 0 }

// Path is empty on this platform.
func (c *Compiler) Path() string { return "" }

// Archs is empty on this platform.
func (c *Compiler) Archs() []int { return nil }

// Includes is empty on this platform.
func (c *Compiler) Includes() []string { return nil }

// Compile fails on this platform.
func (c *Compiler) Compile(src Source, opt Options) (*Binary, error) { return nil, unsupported() }
