//go:build unix && !linux

package worker

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
