package proc

import "syscall"

// A killed parent cannot end its children; the kernel does.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
