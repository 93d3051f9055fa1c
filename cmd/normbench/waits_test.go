package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/internal/assert"
	"normbench/internal/console"
	"normbench/kernels/families"
	"normbench/lab"
	"normbench/report"
)

// A command that takes long and says nothing of its own is told, but for one that has another program's output.
func TestNoCommandIsSilentForLong(t *testing.T) {
	reg := families.New()
	for hosts, want := range map[bool]string{false: "normbench: map slow is at work, for 5 s\n", true: ""} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			c := console.New(t.Context(), nil, &said)
			e := &env{out: &report.Screen{Writer: c.Out}, Lab: lab.New(t.Context(), c, reg, func() {})}
			command := e.command(&cli.Command{Name: "slow"}, &commonFlags{hosts: hosts}, func() error {
				time.Sleep(6 * time.Second)
				return nil
			})
			app := &cli.App{Name: "normbench", Commands: []*cli.Command{{Name: "map", Subcommands: []*cli.Command{command}}}}
			assert.NoError(t, app.RunContext(t.Context(), strings.Fields("normbench map slow")))
			assert.Equal(t, said.String(), want)
		})
	}
}
