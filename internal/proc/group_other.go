//go:build !unix

package proc

import "os/exec"

func ownGroup(*exec.Cmd) {}

func askGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }
