package devicetest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
)

// RequireSSH is the variable with which a test that needs sshd fails where there is none, instead of being
// skipped.
const RequireSSH = "NORMBENCH_REQUIRE_SSHD"

// StartSSH starts an sshd on a port of this host's loopback, with keys of its own, for the length of a test. It
// returns the command that runs another behind it, and sshd's process. Without sshd the test is skipped.
func StartSSH(t testing.TB) (command []string, pid int) {
	t.Helper()
	missing := func(format string, args ...any) {
		t.Helper()
		assert.Must(t, os.Getenv(RequireSSH) == "", format, args...)
		t.Skipf(format, args...)
	}
	tools := map[string]string{}
	for _, name := range []string{"sshd", "ssh", "ssh-keygen"} {
		path, err := exec.LookPath(name)
		if err != nil {
			path, err = exec.LookPath("/usr/sbin/" + name) // sshd, which is not in everybody's PATH
		}
		if err != nil {
			missing("no %s here: install openssh-server and openssh-client", name)
		}
		tools[name] = path
	}
	me, err := user.Current()
	assert.NoError(t, err)
	if me.Uid == "0" { // sshd insists on its folder
		assert.NoError(t, os.MkdirAll("/run/sshd", 0o755))
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		out, err := exec.Command(tools["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", in(key)).CombinedOutput()
		assert.Must(t, err == nil, "ssh-keygen: %v, %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	assert.NoError(t, err)
	l.Close()
	config := fmt.Sprintf(`ListenAddress 127.0.0.1
Port %s
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxStartups 100
`, port, in("host"), in("user.pub"))
	assert.NoError(t, os.WriteFile(in("config"), []byte(config), 0o600))
	var said bytes.Buffer
	sshd := exec.Command(tools["sshd"], "-D", "-e", "-f", in("config"))
	sshd.Stderr = &said
	assert.NoError(t, sshd.Start())
	ended := make(chan error, 1)
	go func() { ended <- sshd.Wait() }()
	t.Cleanup(func() {
		sshd.Process.Kill() //nolint:errcheck // it may have ended
		<-ended
	})
	command = []string{tools["ssh"], "-F", "none", "-i", in("user"), "-p", port, "-o", "BatchMode=yes", "-o",
		"StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-l", me.Username,
		"127.0.0.1"}
	var out []byte
	for range 100 { // until it listens
		if out, err = exec.Command(command[0], append(command[1:], "true")...).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "refused") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		missing("this host's sshd lets nobody in: %v, %s", err, out)
	}
	return command, sshd.Process.Pid
}
