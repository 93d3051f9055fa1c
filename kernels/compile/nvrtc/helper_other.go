//go:build !linux

package nvrtc

func yieldToParent() {}
