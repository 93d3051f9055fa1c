package proc

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// Run runs a command, made by exec.Command, in a process group of its own. The group is killed when
// ctx ends, and the command itself when this process dies, where the system can do that.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
	cmd.WaitDelay = time.Second // a descendant that keeps an output open must not hold up Wait
	// The death of a process is told by the thread that started it, which so lives as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { killGroup(cmd) })
	defer stop()
	return cmd.Wait()
}
