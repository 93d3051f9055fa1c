package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep/shapes"
)

// priorFlag makes the flag --prior, with its default.
func priorFlag(to *string, value string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "prior",
		Usage: "answer where nothing was measured: auto (this program's default), none (the analytic " +
			"base), or the map of a tuned `FILE`", Value: value}
}

// widthsFlag makes the flag --widths of commands that fill maps.
func widthsFlag(to *string, more string) cli.Flag {
	return &cli.StringFlag{Destination: to, Name: "widths", Category: catWhat,
		Usage: "answers of their own for these widths too: " +
			"`N`, a model's name or its config.json, or several with commas" + more}
}

// A learnConfig has the flags of map learn.
type learnConfig struct {
	targetFlags
	budget                             time.Duration
	audit                              int
	bounds, prior, out, family, widths string
	invariant                          bool
}

// mapLearnCommand makes the command map learn.
func mapLearnCommand(e *env) *cli.Command {
	cfg := &learnConfig{}
	cfg.first = firstMap
	return e.command(&cli.Command{
		Name:  "learn",
		Usage: "fill a device's map of launch answers by measurement, within a budget of time",
		Description: "Measures problems that are drawn from the domain. On each it runs configs that do " +
			"well nearby and a few others. Writes the map of OUT/<device>/tuned.json (the sweep's " +
			"entries stay), the records, and learn.svg, a picture of the map. The same command " +
			"resumes. `normbench map fill OUT/<device>` fills the same map from the records. --audit " +
			"searches fresh problems in full and says how far behind the map's answers are.",
		Flags: slices.Concat([]cli.Flag{
			&cli.DurationFlag{Destination: &cfg.budget, Name: "budget",
				Usage: "wall `TIME` in all, such as 8m, including compiling and earlier runs " +
					"into the folder",
				Value:  20 * time.Minute,
				Action: positive("budget", "give a time such as 8m")},
			&cli.IntFlag{Destination: &cfg.audit, Name: "audit",
				Usage: "after the budget, search `N` fresh problems in full and compare with the map; " +
					"60 take about 10 minutes",
				Action: checkRange("audit", 0, 10_000, "60 problems are enough for a mean")},
			&cli.StringFlag{Destination: &cfg.bounds, Name: "domain",
				Usage: "`BOUNDS` on rows, columns and elements", DefaultText: "M=1:1Mi,N=64:64Ki,MN=256Mi"},
			widthsFlag(&cfg.widths, ", which are drawn most"),
			priorFlag(&cfg.prior, "auto"),
			invariantFlag(&cfg.invariant),
			familyFlag(&cfg.family, "learn the map of this `FAMILY` alone, into OUT/<device>/FAMILY/tuned.json"),
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "`FOLDER` for results", Value: defaultOut},
			cfg.htmlFlag(),
		}, slices.DeleteFunc(cfg.flags(), choosesShapes)),
	}, &cfg.commonFlags, func() error { return runLearn(e, cfg) })
}

// runLearn learns a map on the devices, prints its table and, with --audit, that of the audit.
func runLearn(e *env, cfg *learnConfig) error {
	domain := shapes.DefaultDomain
	if cfg.bounds != "" {
		var err error
		if domain, err = shapes.ParseDomain(cfg.bounds); err != nil {
			return err
		}
	}
	widths, err := widthList(cfg.widths)
	if err != nil {
		return err
	}
	classes, err := cfg.LayOut(shapes.Shape{M: 1, N: 1})
	if err != nil {
		return err
	}
	if _, err := e.Against(cfg.family); err != nil {
		return err
	}
	if _, err := lab.Prior(cfg.prior, cfg.family, kernels.DeviceInfo{}); err != nil { // before a device is opened
		return err
	}
	devices, err := e.Open(cfg.config(&cfg.commonFlags, "cold"))
	if err != nil {
		return err
	}
	defer lab.Close(devices)
	info := devices[0].Info()
	p, err := e.Coverage(cfg.prior, cfg.family, info, domain, classes, widths)
	if err != nil {
		return err
	}
	p.BatchInvariant = cfg.invariant
	got, err := e.Learn(&lab.LearnTask{Coverage: p, Family: cfg.family, Devices: devices, Run: e.NewRun(info, cfg.protocol(info)),
		Budget: cfg.budget, Seed: cfg.seed, Out: cfg.out})
	if err != nil {
		if got != nil { // the map is printed all the same
			err = cmp.Or(showMap(e, got, &commonFlags{format: cfg.format}, nil), err)
		}
		return err
	}
	spent := report.Fact{Name: "budget", Value: fmt.Sprintf("%s, of which %s were spent", cfg.budget,
		got.Spent)}
	together := cfg.format == report.FormatJSON && cfg.audit > 0 // one object, behind the audit
	if !together {
		if err := showMap(e, got, &cfg.commonFlags, nil, spent); err != nil || cfg.audit == 0 {
			return cmp.Or(err, got.Lost)
		}
	}
	table, err := e.Audit(got, cfg.audit)
	if together {
		return cmp.Or(showMap(e, got, &cfg.commonFlags, table, spent), err, got.Lost)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(e.out)
	return cmp.Or(report.RenderTable(e.out, table, cfg.format), got.Lost)
}
