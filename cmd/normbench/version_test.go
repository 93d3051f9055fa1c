package main

import (
	"runtime/debug"
	"testing"

	"normbench/internal/assert"
)

// A plain go build names its commit as make does.
func TestNamed(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision",
		Value: "7239f7c2ff93fe9f34a9b65a109e091c0404cb80"}
	for _, c := range []struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		{"v0.0.0-20261125015856-7239f7c2ff93+dirty",
			[]debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}, "7239f7c-dirty"},
		{"(devel)", []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "false"}}, "7239f7c"},
		{"v1.2.3", nil, "v1.2.3"},
		{"(devel)", nil, "devel"},
	} {
		assert.Equal(t,
			named(&debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings}),
			c.want, c)
	}
}
