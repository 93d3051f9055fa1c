//go:build !linux || !(amd64 || arm64) || android

package nvlib

import (
	"fmt"
	"runtime"
)

// Load fails on this platform.
func Load(name, path string, functions map[string]any) (file string, err error) {
	return "", fmt.Errorf("load %s: not supported on %s/%s, use linux", name, runtime.GOOS, runtime.GOARCH)
}

// Preload does nothing on this platform.
func Preload(pattern string) {}
