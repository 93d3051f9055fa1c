package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/hint"
	"normbench/kernels/families"
)

// Sources stay in their folder, also through links; what a link inside it points to is read.
func TestLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.cu")
	if err := os.WriteFile(outside, []byte(goodSource), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := folder(t, "mine.yaml", good, "real.cu", goodSource)
	link := filepath.Join(dir, "mine.cu")
	if err := os.Symlink("real.cu", link); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(families.New(), dir); err != nil {
		t.Errorf("a link inside: %v", err)
	}
	rel, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{outside, rel, "/dev/zero", "../" + filepath.Base(dir) + "/real.cu"} {
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(families.New(), dir); err == nil || !strings.Contains(err.Error(), "mine.cu: ") || hint.Of(err) == "" {
			t.Errorf("a link to %s: %v", to, err)
		}
	}
}

// A base that is a number is held to its knob's values when it is read, TestRefuse has one that
// depends on the problem.
func TestBaseAmongValues(t *testing.T) {
	_, err := parse("f.yaml", []byte("name: a\nop: rmsnorm\npass: fwd\nknobs: {v: [4, 8]}\nbase: {v: 3}\nlaunches: [{source: a.cu, entry: e, grid: 1, block: 32, args: [x, w, y, rstd]}]\n"))
	if err == nil || !strings.Contains(err.Error(), "f.yaml:5:11: base.v is 3, which is not among the knob's values") || hint.Of(err) == "" {
		t.Error(err)
	}
}

// Each expression is evaluated for every config, so their number is bounded.
func TestExpressionCount(t *testing.T) {
	many := "constraints:\n" + strings.Repeat("  - {require: M > 0, reason: r}\n", maxExpressions)
	_, err := parse("f.yaml", []byte("name: a\nop: rmsnorm\npass: fwd\nbase: {}\n"+many+"launches: [{source: a.cu, entry: e, grid: 1, block: 32, args: [x, w, y, rstd]}]\n"))
	if err == nil || !strings.Contains(err.Error(), "is one of more than 500 expressions") || hint.Of(err) == "" {
		t.Error(err)
	}
}
