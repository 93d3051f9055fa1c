package main

import (
	"cmp"
	"runtime/debug"
)

// release is set by the linker: -ldflags "-X main.release=v1.2.3".
var release = ""

// version names this build: the release, or the commit that it was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return named(info)
}

// named is the commit of a build, as `git describe --always --dirty` has it, else the version of
// the module that was installed.
func named(info *debug.BuildInfo) string {
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(7, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "-dirty"
			}
		}
	}
	if v := info.Main.Version; commit == "" && v != "" && v != "(devel)" {
		return v
	}
	return cmp.Or(commit, "devel") + dirty
}
