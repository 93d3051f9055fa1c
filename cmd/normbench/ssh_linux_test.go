package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"normbench/internal/assert"
	"normbench/kernels"
	"normbench/kernels/devices/cpu"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	"normbench/sweep/record"
)

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, pid int) (pids []int) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	assert.NoError(t, err)
	for _, path := range stats {
		text, _ := os.ReadFile(path) // it may have ended
		var child, parent int
		_, rest, _ := strings.Cut(string(text), ") ")
		fmt.Sscan(string(text), &child)
		fmt.Sscanf(rest, "%c %d", new(rune), &parent)
		if parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// A connection that freezes in the middle of a sweep, at either end, costs what was measured of one problem: the
// worker is started again, and every problem has its records once. In nightly it freezes for a minute.
func TestFrozenConnectionCostsOneProblem(t *testing.T) {
	ssh, sshd := devicetest.StartSSH(t)
	limit, freeze := "6s", time.Hour
	if os.Getenv(devicetest.RequireSSH) != "" {
		limit, freeze = "20s", time.Minute
	}
	program, err := exec.LookPath("normbench")
	assert.NoError(t, err)
	out := t.TempDir()
	for _, end := range []string{"ssh", "sshd"} {
		dir := filepath.Join(out, end)
		remote := append(ssh, "env", cpu.CacheVariable+"="+smallCache, "GORACE=atexit_sleep_ms=0", program, "worker", "--device",
			"cpu")
		starts, script := filepath.Join(out, end+".starts"), filepath.Join(out, end+".sh")
		assert.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "echo start >>%s\nexec %s\n", starts,
			strings.Join(remote, " ")), 0o666))
		sweep := exec.Command(program, "sweep", "--shapes", "8x64,3x33,16x512,5x40", "--op", "rmsnorm", "--pass", "fwd", "--samples",
			"2000", "--family", "rms_fwd/cta_reg", "--out", dir, "--strategy", "grid", "--timeout", limit, "--worker",
			"sh "+script)
		sweep.Env = append(os.Environ(), cpu.CacheVariable+"="+smallCache)
		var said bytes.Buffer
		stderr, err := sweep.StderrPipe()
		assert.NoError(t, err)
		assert.NoError(t, sweep.Start())
		frozen := []int{}
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if len(frozen) > 0 || !strings.Contains(lines.Text(), "[") {
				continue
			}
			// One problem is done, and the next is on the device.
			if frozen = childrenOf(t, sweep.Process.Pid); end == "sshd" {
				frozen = childrenOf(t, sshd)
			}
			for _, pid := range frozen {
				syscall.Kill(pid, syscall.SIGSTOP)
				resume := time.AfterFunc(freeze, func() { syscall.Kill(pid, syscall.SIGCONT) })
				defer func() {
					resume.Stop()
					syscall.Kill(pid, syscall.SIGCONT) //nolint:errcheck // it may have ended
				}()
			}
		}
		err = sweep.Wait()
		assert.Must(t, err == nil && len(frozen) > 0, "%s: %v\n%s", end, err, said.String())
		began, err := os.ReadFile(starts)
		assert.That(t, err == nil && strings.Count(string(began), "start") == 2, "%s: it was started by %q, want two starts", end,
			began)
		dev := cpu.New(families.New()).Info().ID
		seen := map[string]bool{}
		_, err = record.Read(filepath.Join(dir, dev, record.FileName), func(r *record.Record, _ *record.Run) error {
			if r == nil || r.Family == record.Stream {
				return nil
			}
			assert.That(t, !seen[r.Key] && r.Status == kernels.StatusOK, "%s: %s of %s: %s %s, seen %v", end, r.Variant(),
				r.Problem, r.Status, r.Reason, seen[r.Key])
			seen[r.Key] = true
			return nil
		})
		assert.NoError(t, err)
		assert.That(t, len(seen) >= 4 && strings.Contains(said.String(), fmt.Sprintf(" %d variants measured", len(seen))),
			"%s: %d records\n%s", end, len(seen), said.String())
	}
}
