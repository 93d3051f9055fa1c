package main

import (
	"runtime/debug"
	"testing"

	"normbench/internal/assert"
)

// Builds have versions that pip orders as their commits: dev before the release, post after it. Only
// `make release` names the release itself, and only of the changelog's first heading.
func TestVersionsSortAsTheirCommits(t *testing.T) {
	const before, after = "# Changelog\n\n## 0.4.0 (unreleased)\n\n- x\n\n## 0.3.0 (2026-10-01)\n",
		"## 0.4.0 (2026-12-01)\n"
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "7239f7c2ff93fe9f34a9b65a109e091c0404cb80"},
			{Key: "vcs.time", Value: "2026-11-25T02:58:56+01:00"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, c := range []struct {
		changelog, release string
		settings           []debug.BuildSetting
		want               string
	}{
		{before, "", settings("false"), "0.4.0.dev20261125015856+g7239f7c"},
		{before, "", settings("true"), "0.4.0.dev20261125015856+g7239f7c.dirty"},
		{before, "0.4.0", settings("false"), "0.4.0.dev20261125015856+g7239f7c"}, // not released
		{before, "", nil, "0.4.0.dev0"},                                          // of a source archive
		{after, "0.4.0", settings("false"), "0.4.0"},
		{after, "0.3.0", settings("false"), "0.4.0.post20261125015856+g7239f7c"},
		{after, "", settings("false"), "0.4.0.post20261125015856+g7239f7c"},
	} {
		release = c.release
		assert.Equal(t, versionOf(c.changelog, &debug.BuildInfo{Settings: c.settings}), c.want, c)
	}
	release = ""
}
