//go:build !linux

package nvrtc

func volunteer() {}
