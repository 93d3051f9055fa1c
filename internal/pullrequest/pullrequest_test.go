package pullrequest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
)

// A host is the comments of one pull request on a server.
type host struct {
	comments []map[string]any
	calls    []string
	deny     bool // to write
	bot      bool // the token does not know its user
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.calls = append(h.calls, r.Method+" "+r.URL.RequestURI())
	fail := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message": %q}`, text)
	}
	if r.Header.Get("Authorization") != "Bearer t0k" && r.Header.Get("PRIVATE-TOKEN") != "t0k" {
		fail(401, "Bad credentials")
		return
	}
	var body struct{ Body string }
	text, _ := io.ReadAll(r.Body)
	json.Unmarshal(text, &body) //nolint:errcheck // of GET there is none
	switch {
	case strings.HasSuffix(r.URL.Path, "/user") && h.bot:
		fail(403, "Resource not accessible by integration")
	case strings.HasSuffix(r.URL.Path, "/user"):
		fmt.Fprint(w, `{"login": "ci", "username": "ci"}`)
	case r.Method == "GET":
		var page, each int
		fmt.Sscan(r.FormValue("page"), &page)     //nolint:errcheck // it is a number
		fmt.Sscan(r.FormValue("per_page"), &each) //nolint:errcheck
		from := min((page-1)*each, len(h.comments))
		list := h.comments[from:min(from+each, len(h.comments))]
		json.NewEncoder(w).Encode(list) //nolint:errcheck
	case h.deny:
		fail(403, "Resource not accessible by integration")
	case r.Method == "POST":
		h.comments = append(h.comments, by("ci", body.Body, len(h.comments)+1))
		fmt.Fprint(w, "{}")
	default: // PATCH or PUT of one
		var id int
		fmt.Sscan(filepath.Base(r.URL.Path), &id) //nolint:errcheck
		h.comments[id-1]["body"] = body.Body
		fmt.Fprint(w, "{}")
	}
}

func by(user, body string, id int) map[string]any {
	kind := "User"
	if user == "ci" {
		kind = "Bot"
	}
	return map[string]any{"id": id, "body": body, "user": map[string]string{"login": user, "type": kind},
		"author": map[string]string{"username": user}}
}

// start serves a host, and is the environment of a job there. gh says whether there is a gh, which here
// is curl in disguise.
func start(t *testing.T, h *host, name string, gh bool) func(string) string {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	assert.NoError(t, os.Symlink(curl, filepath.Join(dir, "curl")))
	if gh {
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2\" = 'api --method' ] || exit 9\n"+
			"out=$(%s -s -X \"$3\" -H \"Authorization: Bearer $GH_TOKEN\" -w '\\n%%{http_code}' ${6:+--data-binary @$6} \"%s/$4\")\n"+
			"status=${out##*\n}; printf %%s \"${out%%\n*}\"\n"+
			"case $status in 2*) ;; *) echo \"gh: no (HTTP $status)\" >&2; exit 1 ;; esac\n", curl, s.URL)
		assert.NoError(t, os.WriteFile(filepath.Join(dir, "gh"), []byte(script), 0o755))
	}
	t.Setenv("PATH", dir)
	event := filepath.Join(dir, "event.json")
	assert.NoError(t, os.WriteFile(event, []byte(`{"pull_request": {"number": 7, "base": {"ref": "main",
		"repo": {"full_name": "o/r"}}, "head": {"ref": "x", "repo": {"full_name": "o/r"}}}}`), 0o644))
	env := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request",
		"GITHUB_EVENT_PATH": event, "GITHUB_API_URL": s.URL, "GITHUB_SERVER_URL": "https://github.com", "GH_TOKEN": "t0k"}
	if name == "GitLab" {
		env = map[string]string{"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "7", "CI_MERGE_REQUEST_PROJECT_ID": "1",
			"CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
			"CI_API_V4_URL": s.URL, "NORMBENCH_TOKEN": "t0k"}
	}
	return func(name string) string { return env[name] }
}

// One comment stands on a pull request, however often its job runs and whoever else comments; a stranger's
// with our mark is not touched.
func TestOneCommentStandsHoweverOftenAJobRuns(t *testing.T) {
	for _, c := range []struct {
		name    string
		gh, bot bool
		edit    string
	}{
		{"GitHub", true, true, "PATCH /repos/o/r/issues/comments/"},
		{"GitHub", false, false, "PATCH /repos/o/r/issues/comments/"},
		{"GitLab", false, false, "PUT /projects/1/merge_requests/7/notes/"},
	} {
		t.Run(fmt.Sprint(c.name, " gh ", c.gh), func(t *testing.T) {
			h := &host{bot: c.bot}
			for i := range 130 { // more than a page
				h.comments = append(h.comments, by("a", fmt.Sprint("comment ", i), i+1))
			}
			h.comments[3]["body"] = Mark("gate k") + "PASS, says a stranger"
			p, err := FromEnv(start(t, h, c.name, c.gh))
			assert.NoError(t, err)
			assert.Must(t, p.Host == c.name && p.Base == "main" && !p.Fork, "%+v", p)
			assert.NoError(t, p.CanComment())
			for _, text := range []string{"first \"quoted\" \\ ä", "second"} {
				assert.NoError(t, p.Comment(t.Context(), "gate k", Mark("gate k")+text))
				last := h.comments[len(h.comments)-1]
				assert.That(t, len(h.comments) == 131 && last["body"] == Mark("gate k")+text,
					"%d comments, the last %q", len(h.comments), last["body"])
			}
			assert.Equal(t, h.calls[len(h.calls)-1], c.edit+"131")
			assert.NoError(t, p.Comment(t.Context(), "check k", Mark("check k")+"other"))
			assert.Equal(t, len(h.comments), 132)
		})
	}
}

// What a host refuses is one error with a way out, which differs where it is not reached.
func TestRefusalOfAHostHasAWayOut(t *testing.T) {
	for _, gh := range []bool{true, false} {
		h := &host{deny: true}
		env := start(t, h, "GitHub", gh)
		p, err := FromEnv(env)
		assert.NoError(t, err)
		err = p.Comment(t.Context(), "k", Mark("k"))
		assert.Error(t, err, "GitHub answers POST repos/o/r/issues/7/comments with 403, Resource not accessible by integration")
		assert.That(t, strings.Contains(hint.Of(err), "pull-requests: write"), "%v", hint.Of(err))
		p.api = "http://127.0.0.1:1"
		if !gh {
			err = p.Comment(t.Context(), "k", Mark("k"))
			assert.That(t, err != nil && hint.Of(err) == "is the host's API reachable from the runner?", "%v", err)
		}
		calls := len(h.calls)
		assert.Error(t, p.Comment(t.Context(), "k", strings.Repeat("x", p.Limit+1)),
			"a comment on GitHub has at most 65536 characters, and this 65537")
		assert.Equal(t, len(h.calls), calls, "nothing is sent")
		p.token, p.Fork = "", true
		assert.Error(t, p.CanComment(), "no comment: the pull request is a fork's, and its job has no token")
		p.Fork = false
		assert.Error(t, p.CanComment(), "no comment: $GH_TOKEN is not set")
	}
	t.Setenv("PATH", t.TempDir())
	assert.Error(t, (&PullRequest{Host: "GitLab", token: "x"}).CanComment(), "no comment: there is neither gh nor curl in $PATH")
}

// A job that is for no pull request has none; one whose event is not there says so.
func TestPullRequestIsReadFromTheEnvironment(t *testing.T) {
	event := filepath.Join(t.TempDir(), "event.json")
	assert.NoError(t, os.WriteFile(event, []byte(`{"pull_request": {"number": 7, "base": {"ref": "main",
		"repo": {"full_name": "o/r"}}, "head": {"ref": "x", "repo": null}}}`), 0o644))
	from := func(pairs ...string) (*PullRequest, error) {
		return FromEnv(func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		})
	}
	p, err := from()
	assert.That(t, p == nil && err == nil, "%v %v", p, err)
	p, err = from("GITHUB_ACTIONS", "true", "GITHUB_EVENT_NAME", "push")
	assert.That(t, p == nil && err == nil, "%v %v", p, err)
	_, err = from("GITHUB_ACTIONS", "true", "GITHUB_EVENT_NAME", "pull_request", "GITHUB_EVENT_PATH", "/nosuch")
	assert.Error(t, err, "GITHUB_EVENT_PATH /nosuch: open /nosuch: no such file or directory")
	p, err = from("GITHUB_ACTIONS", "true", "GITHUB_EVENT_NAME", "pull_request_target", "GITHUB_EVENT_PATH", event)
	assert.That(t, err == nil && p.Fork && p.Base == "main", "%+v %v", p, err)
}
