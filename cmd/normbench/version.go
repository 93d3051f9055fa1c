package main

import (
	"os"
	"runtime"
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
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v = "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}

// environment is what else may explain a number, for a run line.
func environment() map[string]string {
	host, _ := os.Hostname()
	m := map[string]string{"host": host, "os": runtime.GOOS, "go": runtime.Version()}
	for _, name := range []string{"GITHUB_SHA", "CI_COMMIT_SHA", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"} {
		if v := os.Getenv(name); v != "" {
			m[name] = v
		}
	}
	return m
}
