//go:build !linux

package nvrtc

import "os/exec"

func tie(*exec.Cmd) {}

func volunteer() {}
