package lab

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"normbench/internal/hint"
)

// A Checkout is another commit of the repository that a folder is in, in a folder of its own.
type Checkout struct {
	Commit string // its hash, shortened
	Folder string // what the folder was at that commit; it need not be there
	top    string
	close  func()
}

// Close removes the checkout.
func (c *Checkout) Close() { c.close() }

// gitTrouble returns what git says is wrong: its first fatal line, as advice may follow, else its last line.
func gitTrouble(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, line := range lines {
		if why, ok := strings.CutPrefix(line, "fatal: "); ok {
			return why
		}
	}
	return lines[len(lines)-1]
}

// CheckOut makes a worktree of a ref for the repository that a folder is in. A ref that is not here, as in
// a shallow clone, is fetched from origin.
func (l *Lab) CheckOut(ref, folder string) (*Checkout, error) {
	if strings.HasPrefix(ref, "-") {
		return nil, hint.Errorf("name a branch, a tag or a commit", "%q is no ref of git", ref)
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(l.Ctx, "git", append([]string{"-C", folder}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = hint.Errorf("", "%s", cmp.Or(gitTrouble(said.String()), err.Error()))
		}
		return strings.TrimSpace(string(out)), err
	}
	if _, err := exec.LookPath("git"); err != nil {
		return nil, hint.Errorf("install git on the machine", "git is not there, which checks out %s", ref)
	}
	prefix, err := git("rev-parse", "--show-prefix") // of the folder, below the top
	if err != nil {
		return nil, hint.Errorf("run it in a checkout of the repository (actions/checkout)",
			"%s is in no checkout of git, so there is no %s to compare with: %w", folder, ref, err)
	}
	commit, err := git("rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if err != nil {
		step := l.Wait("fetching %s", ref)
		_, err = git("fetch", "--quiet", "--no-tags", "--depth", "1", "origin", strings.TrimPrefix(ref, "origin/"))
		step.End()
		if err == nil {
			commit, err = git("rev-parse", "--verify", "FETCH_HEAD^{commit}")
		}
	}
	if err != nil {
		return nil, hint.Errorf("name a branch, tag or commit that is here or at origin; a job's checkout keeps "+
			"the credentials that fetching takes", "the base %s is not there: %w", ref, err)
	}
	dir, err := os.MkdirTemp("", "normbench-base-*")
	if err != nil {
		return nil, err
	}
	c := &Checkout{Commit: commit[:min(len(commit), 7)], top: filepath.Join(dir, "tree")}
	c.close = func() {
		// also where the program is being stopped: git must not remember a folder that is gone
		exec.Command("git", "-C", folder, "worktree", "remove", "--force", c.top).Run() //nolint:errcheck // it is gone
		os.RemoveAll(dir)
	}
	if _, err := git("worktree", "add", "--quiet", "--detach", c.top, commit); err != nil {
		c.close()
		return nil, hint.Errorf("`git worktree add` says more", "cannot check out %s: %w", ref, err)
	}
	c.Folder = filepath.Join(c.top, filepath.FromSlash(prefix))
	return c, nil
}
