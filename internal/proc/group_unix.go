//go:build unix

package proc

import (
	"os/exec"
	"syscall"
)

// A child leads a process group of its own: Ctrl-C at the terminal then reaches
// only its parent, which knows what to do about it, and killing the group also
// reaches what a shell or srun has started for it.

// ownGroup makes a child the leader of a process group of its own. Ctrl-C at the terminal then reaches
// only its parent, which knows what to do about it, and killing the group also reaches what a shell or
// srun has started for it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func askGroup(cmd *exec.Cmd) { syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } //nolint:errcheck // it may be gone

func killGroup(cmd *exec.Cmd) {
	if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) != nil {
		cmd.Process.Kill()
	}
}
