//go:build unix

package proc

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"normbench/internal/assert"
)

// What a child says on standard error is passed on; its last line, or a panic's first, is kept.
func TestLastWordsOfAChildAreKept(t *testing.T) {
	for _, test := range []struct{ text, reason string }{
		{"first\nsec|ond\n|third| line\n", "third line"},
		{"a\n\n|b", "b"},
		{"note\npanic: no such\n\ngorou|tine 1 [running]:\nmain.main()\n", "panic: no such"},
		{"red \x1b[31mline\r\n", "red \ufffd[31mline"},
		{"", ""},
	} {
		var out bytes.Buffer
		tl := &tail{next: &out}
		for s := range strings.SplitSeq(test.text, "|") {
			n, err := tl.Write([]byte(s))
			assert.Must(t, n == len(s) && err == nil, "%v %v", n, err)
		}
		want := strings.NewReplacer("|", "", "\r", "", "\x1b", "\ufffd").Replace(test.text)
		assert.That(t, out.String() == want && tl.reason() == test.reason,
			"passed on %q, the reason is %q, want %q and %q", out.String(), tl.reason(), want,
			test.reason)
	}
	tl := &tail{}
	tl.Write(bytes.Repeat([]byte("x"), 1<<20))
	assert.That(t, len(tl.part) <= 1<<13 && len(tl.reason()) <= 200,
		"a megabyte without end of line leaves %d bytes", len(tl.part))
}

// A descendant that keeps the output open holds up neither Kill nor Close, and is ended where it
// is of the child's group.
func TestDescendantsHoldUpNeitherKillNorClose(t *testing.T) {
	for _, end := range []func(*Child){(*Child).Kill,
		func(c *Child) { c.Close(t.Context(), time.Minute) }} {
		start := time.Now()
		c, err := Start(StartOptions{Command: []string{"sh", "-c", "sleep 30 & echo '{}'; read line"},
			MaxLine: 100})
		assert.NoError(t, err)
		line, err := c.ReadLine(t.Context(), time.Now().Add(time.Minute))
		assert.That(t, err == nil && string(line) == "{}\n", "%q, %v", line, err)
		end(c)
		_, err = c.ReadLine(t.Context(), time.Now().Add(time.Minute))
		assert.That(t, err != nil && strings.HasPrefix(err.Error(), "ended: "), "%v", err)
		took := time.Since(start)
		assert.That(t, took <= 20*time.Second, "it took %s", took)
	}
}

// Credentials of the environment are not passed on; what finds programs, libraries and hosts is:
// testdata/variables.txt.
func TestCredentialsAreNotPassedOn(t *testing.T) {
	assert.Lines(t, "testdata/variables.txt", func(name string) string {
		return map[bool]string{true: "kept back", false: "passed on"}[isSecret(name+"=a TOKEN")]
	})
}
