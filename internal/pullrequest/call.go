package pullrequest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"normbench/internal/hint"
)

// program finds the program that talks to the host: gh for GitHub if it is installed, as it knows its
// users' proxies and certificates, else curl.
func (p *PullRequest) program() (string, error) {
	if p.Host == "GitHub" {
		if path, err := exec.LookPath("gh"); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("curl")
	if err != nil {
		return "", hint.Errorf("install curl, or gh of GitHub, on the runner", "no comment: there is neither gh nor curl in $PATH")
	}
	return path, nil
}

// A statusError is the host's answer to a request that failed.
type statusError struct {
	host, method, path, status, message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %s %s with %s", e.host, e.method, e.path,
		strings.TrimSuffix(e.status+", "+e.message, ", "))
}

var ghStatus = regexp.MustCompile(`\(HTTP (\d+)\)`)

// call sends a request to the host's API and returns the body of its answer. The token is in no
// argument, where other users of the machine would see it.
func (p *PullRequest) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	program, err := p.program()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	gh := strings.TrimSuffix(filepath.Base(program), ".exe") == "gh"
	if gh {
		cmd.Args = append(cmd.Args, "api", "--method", method, path)
		if body != nil {
			cmd.Args, cmd.Stdin = append(cmd.Args, "--input", "-"), bytes.NewReader(body)
		}
		cmd.Env = append(os.Environ(), "GH_TOKEN="+p.token, "GH_PROMPT_DISABLED=1")
		if p.server != "" {
			cmd.Env = append(cmd.Env, "GH_HOST="+p.server, "GH_ENTERPRISE_TOKEN="+p.token)
		}
	} else {
		config, done, err := p.config(method, path, body)
		if err != nil {
			return nil, err
		}
		defer done()
		cmd.Args, cmd.Stdin = append(cmd.Args, "--config", "-"), strings.NewReader(config)
	}
	err = cmd.Run()
	answer, status := out.Bytes(), ""
	if m := ghStatus.FindStringSubmatch(said.String()); gh && err != nil && m != nil {
		status = m[1]
	} else if !gh && err == nil { // the last line is the status
		at := bytes.LastIndexByte(answer, '\n') + 1
		answer, status = answer[:max(at-1, 0)], string(answer[at:])
	}
	switch {
	case strings.HasPrefix(status, "2") || gh && err == nil:
		return answer, nil
	case status == "":
		text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return nil, hint.Errorf("is the host's API reachable from the runner?", "%s %s of %s: %s", method, path, p.Host,
			cmp.Or(text, fmt.Sprint(err)))
	}
	failed := &statusError{p.Host, method, path, status, message(answer)}
	help := "run the job again"
	if slices.Contains(denied, status) {
		help = "the token may not: give the job `permissions: pull-requests: write`, or on GitLab a token with the scope api"
	}
	return nil, hint.With(failed, help)
}

// denied lists the statuses of a token without permission. Hosts also say of what a token may not see
// that it is not there.
var denied = []string{"401", "403", "404"}

// message returns the error message of an answer, "" if it has none.
func message(answer []byte) string {
	var said struct{ Message any }
	if json.Unmarshal(answer, &said) != nil || said.Message == nil {
		return ""
	}
	text := strings.Join(strings.Fields(fmt.Sprint(said.Message)), " ")
	return text[:min(len(text), 200)]
}

// config writes a request for curl. A body is in a file of its own, which done removes.
func (p *PullRequest) config(method, path string, body []byte) (text string, done func(), err error) {
	done = func() {}
	line := func(name, value string) {
		text += name + ` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", "").Replace(value) + "\"\n"
	}
	line("url", p.api+"/"+path)
	line("request", method)
	line("max-time", "60")
	line("write-out", "\\n%{http_code}")
	text += "silent\nshow-error\n"
	line("header", "Content-Type: application/json")
	if p.Host == "GitHub" {
		line("header", "Accept: application/vnd.github+json")
		line("header", "Authorization: Bearer "+p.token)
	} else {
		line("header", "PRIVATE-TOKEN: "+p.token)
	}
	if body == nil {
		return text, done, nil
	}
	f, err := os.CreateTemp("", "normbench-comment-*")
	if err != nil {
		return "", done, err
	}
	done = func() { os.Remove(f.Name()) }
	_, err = f.Write(body)
	if err = cmp.Or(err, f.Close()); err != nil {
		done()
		return "", func() {}, err
	}
	line("data-binary", "@"+f.Name())
	return text, done, nil
}
