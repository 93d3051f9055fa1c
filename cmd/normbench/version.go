package main

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v2"

	embedded "normbench"
	"normbench/kernels/devices/local"
)

// version returns that of this build, in an order that pip knows: 0.4.0.dev20261128221001+g43d2118 comes
// before 0.4.0, and 0.4.0 before 0.4.0.post20261201090000+g1e0c5fa. Git's tags have no part in it,
// because a shallow clone has none.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(embedded.Changelog, info)
}

// release is set by the linker in `make release`: only this build has a version without a commit.
var release = ""

// heading is a version of the changelog, with its date or "unreleased".
var heading = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \((.+)\)$`)

// versionOf returns the version of a build by the first heading of the changelog, and by the commit and its
// time, which every `go build` in a checkout notes.
func versionOf(changelog string, info *debug.BuildInfo) string {
	head := heading.FindStringSubmatch(changelog)
	if head == nil {
		panic("CHANGELOG.md has no heading with a version")
	}
	released := head[2] != "unreleased"
	if released && release == head[1] {
		return release
	}
	n, local := "0", ""
	if info == nil {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			local = "+g" + s.Value[:min(7, len(s.Value))]
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				n = at.UTC().Format("20060102150405")
			}
		case "vcs.modified":
			if s.Value == "true" {
				local = cmp.Or(local, "+g0") + ".dirty"
			}
		}
	}
	kind := ".dev"
	if released {
		kind = ".post"
	}
	return head[1] + kind + n + local
}

func versionCommand(e *env) *cli.Command {
	x := &commonFlags{}
	return e.command(&cli.Command{
		Name:  "version",
		Usage: "print the version of this build, and what it can drive",
	}, x, func() error {
		_, err := fmt.Fprintln(e.out, versionLine())
		return err
	})
}

// versionLine returns the version with what else tells builds apart.
func versionLine() string {
	cuda := "without CUDA"
	if local.HaveCUDA {
		cuda = "with CUDA"
	}
	return fmt.Sprintf("normbench %s (%s/%s, %s, %s)", version(), runtime.GOOS, runtime.GOARCH, cuda,
		runtime.Version())
}
