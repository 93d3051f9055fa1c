package families

import (
	"os/exec"
	"strings"
	"testing"

	"normbench/internal/assert"
)

// Each fault that `make kernel-mutants` may draw can be written into the program, so that none is passed over.
func TestEveryFaultOfKernelMutantsHasRoom(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(python, "../../scripts/kernel-mutants.py", "--list").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.That(t, err == nil && strings.HasSuffix(lines[len(lines)-1], "; no room for 0"), "%v: %s", err, lines[len(lines)-1])
}
