package proc

import "syscall"

// dieWithParent makes the kernel kill the child when this process dies: a killed parent cannot end its
// children.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
