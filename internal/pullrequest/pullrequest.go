// Package pullrequest knows the pull request that a CI job runs for, on GitHub or GitLab (where it is a
// merge request), and keeps one comment on it up to date.
package pullrequest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"normbench/internal/hint"
)

// The hosts' limits of a comment, in characters. A text is held to them in bytes, which are no fewer.
const (
	gitHubLimit = 65_536
	gitLabLimit = 1_000_000
)

// TokenVariables names the environment variables from which FromEnv reads a token.
var TokenVariables = []string{"GH_TOKEN", "NORMBENCH_TOKEN"}

// A PullRequest is the pull request that a CI job runs for, as the job's environment describes it.
type PullRequest struct {
	Host  string // GitHub or GitLab
	Base  string // the branch that it is for
	Fork  bool   // its code is another repository's
	Limit int    // of a comment's bytes

	api      string // "https://api.github.com"
	comments string // the list of them, below api
	edit     string // one of them, but for its number
	token    string
	variable string // that the token was looked for in
	server   string // of GitHub Enterprise, for gh; "" of github.com
}

// FromEnv reads the pull request of the running job from its environment; nil if there is none.
func FromEnv(getenv func(string) string) (*PullRequest, error) {
	switch {
	case getenv("GITHUB_ACTIONS") == "true" && strings.HasPrefix(getenv("GITHUB_EVENT_NAME"), "pull_request"):
		return fromGitHub(getenv)
	case getenv("GITLAB_CI") == "true" && getenv("CI_MERGE_REQUEST_IID") != "":
		project := "projects/" + getenv("CI_MERGE_REQUEST_PROJECT_ID") + "/merge_requests/" +
			getenv("CI_MERGE_REQUEST_IID") + "/notes"
		p := &PullRequest{Host: "GitLab", Base: getenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME"),
			Fork:  getenv("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") != getenv("CI_MERGE_REQUEST_PROJECT_ID"),
			Limit: gitLabLimit, api: getenv("CI_API_V4_URL"), comments: project, edit: project,
			variable: TokenVariables[1]}
		p.token = getenv(p.variable)
		return p, nil
	}
	return nil, nil
}

func fromGitHub(getenv func(string) string) (*PullRequest, error) {
	type side struct {
		Ref  string
		Repo *struct {
			FullName string `json:"full_name"`
		}
	}
	var event struct {
		PullRequest *struct {
			Number     int
			Base, Head side
		} `json:"pull_request"`
	}
	file := getenv("GITHUB_EVENT_PATH")
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	r := event.PullRequest
	if err == nil && (r == nil || r.Base.Repo == nil || r.Number < 1) {
		err = errors.New("it has no pull request")
	}
	if err != nil {
		return nil, hint.Errorf("run it in a job of GitHub, on pull_request", "GITHUB_EVENT_PATH %s: %w", file, err)
	}
	repo := "repos/" + r.Base.Repo.FullName + "/issues"
	p := &PullRequest{Host: "GitHub", Base: r.Base.Ref, Limit: gitHubLimit,
		Fork: r.Head.Repo == nil || r.Head.Repo.FullName != r.Base.Repo.FullName, // nil: it is deleted
		api:  getenv("GITHUB_API_URL"), comments: fmt.Sprintf("%s/%d/comments", repo, r.Number),
		edit: repo + "/comments", variable: TokenVariables[0], token: getenv(TokenVariables[0])}
	if server := strings.TrimPrefix(getenv("GITHUB_SERVER_URL"), "https://"); server != "github.com" {
		p.server = server
	}
	if p.api == "" {
		p.api = "https://api.github.com"
	}
	return p, nil
}

// CanComment says why no comment can be made, as far as that is known before one is tried; nil if one
// can.
func (p *PullRequest) CanComment() error {
	help := map[string]string{
		"GitHub": "pass the job's token (env GH_TOKEN) and give the job `permissions: pull-requests: write`",
		"GitLab": "make a project access token with the scope api, and set it as the masked variable NORMBENCH_TOKEN",
	}[p.Host]
	switch {
	case p.Fork && p.token == "":
		return hint.Errorf("run the job without comments for forks (comment: never); the job's summary has the report",
			"no comment: the pull request is a fork's, and its job has no token")
	case p.token == "":
		return hint.Errorf(help, "no comment: $%s is not set", p.variable)
	}
	_, err := p.program()
	return err
}

// A comment is one of either host's.
type comment struct {
	ID   int64
	Body string
	URL  string `json:"html_url"`
	User struct{ Login, Type string }
	// GitLab's
	Author struct{ Username string }
}

// Mark makes the invisible line with which our comments begin. name tells several comments on one pull
// request apart.
func Mark(name string) string {
	clean := strings.NewReplacer("--", "-", ">", "", "<", "", "\n", " ").Replace(name)
	return fmt.Sprintf("<!-- normbench: %s -->\n", clean)
}

// Comment writes a text, which begins with Mark(name), in place of our comment with that mark, or as a
// new one. Another user's comment with the mark is not ours.
func (p *PullRequest) Comment(ctx context.Context, name, text string) error {
	if len(text) > p.Limit {
		return hint.Errorf("name fewer kernels or shapes", "a comment on %s has at most %d characters, and this %d",
			p.Host, p.Limit, len(text))
	}
	own, err := p.find(ctx, Mark(name))
	if err != nil {
		return err
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false) // a log of it can be read
	if err := e.Encode(map[string]string{"body": text}); err != nil {
		return err
	}
	body := bytes.TrimSpace(encoded.Bytes())
	if own == nil {
		_, err = p.call(ctx, "POST", p.comments, body)
		return err
	}
	method := "PATCH"
	if p.Host == "GitLab" {
		method = "PUT"
	}
	_, err = p.call(ctx, method, fmt.Sprintf("%s/%d", p.edit, own.ID), body)
	return err
}

// find finds our comment with a mark; nil if there is none yet.
func (p *PullRequest) find(ctx context.Context, mark string) (*comment, error) {
	me, err := p.me(ctx)
	if err != nil {
		return nil, err
	}
	const each = 100
	for page := 1; ; page++ {
		text, err := p.call(ctx, "GET", fmt.Sprintf("%s?per_page=%d&page=%d", p.comments, each, page), nil)
		if err != nil {
			return nil, err
		}
		var list []comment
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("%s answers with no list of comments: %w", p.Host, err)
		}
		for i := range list {
			if c := &list[i]; strings.HasPrefix(strings.ReplaceAll(c.Body, "\r", ""), mark) && me(c) {
				return c, nil
			}
		}
		if len(list) < each {
			return nil, nil
		}
	}
}

// me returns a function that says which comments are ours. A job's own token of GitHub does not know its
// user, which is a bot.
func (p *PullRequest) me(ctx context.Context) (func(*comment) bool, error) {
	var user struct{ Login, Username string }
	text, err := p.call(ctx, "GET", "user", nil)
	if err == nil {
		err = json.Unmarshal(text, &user)
	}
	switch {
	case err == nil && user.Login != "":
		return func(c *comment) bool { return c.User.Login == user.Login }, nil
	case err == nil && user.Username != "":
		return func(c *comment) bool { return c.Author.Username == user.Username }, nil
	case p.Host == "GitHub" && ctx.Err() == nil:
		return func(c *comment) bool { return c.User.Type == "Bot" }, nil
	}
	return nil, fmt.Errorf("%s does not say whose token it is: %w", p.Host, err)
}
