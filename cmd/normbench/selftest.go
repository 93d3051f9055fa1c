package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
)

func selftestCommand(e *env) *cli.Command {
	s := &targetFlags{}
	s.first = func() *report.Table { return selftestTable(kernels.DeviceInfo{}) }
	return e.command(&cli.Command{
		Name: "selftest",
		Usage: "test the timer on this device: a known spin, the floor, cold against warm, " +
			"stream against copy",
		Description: "Exits 4 if a check fails, because times from this machine would mislead.",
		Flags:       append(s.machineFlags.flags(), s.tableFlags()...),
	}, &s.commonFlags, func() error { return selftest(e, s) })
}

func selftest(e *env, s *targetFlags) error {
	devices, err := e.Open(s.config(&s.commonFlags, "cold"))
	if err != nil {
		return err
	}
	defer lab.Close(devices)
	t := selftestTable(devices[0].Info())
	failed := 0
	for i, d := range devices {
		step := e.Wait("testing device %d of %d", i+1, len(devices))
		trials, _, err := sweep.SelfTest(e.Ctx, e.Registry, d)
		step.End()
		if err != nil {
			return err
		}
		for _, x := range trials {
			verdict := "ok"
			if !x.OK {
				verdict = "UNFIT"
				failed++
			}
			if len(devices) > 1 {
				x.Name = fmt.Sprintf("device %d: %s", i+1, x.Name)
			}
			t.Rows = append(t.Rows, []string{x.Name, x.Found, x.Wanted, verdict})
		}
	}
	if err := report.RenderTable(e.out, t, s.format); err != nil {
		return err
	}
	if failed > 0 {
		return lab.Exit(exitUnfit, hint.Errorf("stop what else runs here and try again; on a GPU "+
			"`nvidia-smi` shows clocks, throttling and other processes",
			"%d of %d checks failed: do not trust times from this machine", failed, len(t.Rows)))
	}
	return nil
}

func selftestTable(device kernels.DeviceInfo) *report.Table {
	t := report.New("selftest of "+device.Name, "check", "found", "wanted", "verdict")
	t.Device = device.ID
	return t
}
