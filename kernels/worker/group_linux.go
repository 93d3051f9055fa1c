package worker

import "syscall"

// A killed parent cannot end its workers; the kernel does.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
