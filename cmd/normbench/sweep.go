package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/lab"
	"normbench/report"
	"normbench/sweep"
	"normbench/sweep/record"
	"normbench/sweep/replay"
	"normbench/sweep/search"
	"normbench/sweep/shard"
	"normbench/tune"
)

// A sweepConfig is what the flags of a sweep ask for.
type sweepConfig struct {
	targetFlags
	search     searchFlags
	knobs      cli.StringSlice
	family     string
	retry, dry bool
	invariant  bool
	out, shard string
	emit       string
	shards     int
}

func sweepCommand(e *env) *cli.Command {
	cfg := &sweepConfig{}
	cfg.first = report.Compare(report.Side{}, report.Side{}).Table
	return e.command(&cli.Command{
		Name: "sweep",
		Usage: "find the fastest configs of the kernel families over shapes; write records and " +
			"the tuned table",
		Description: "A sweep searches a part of a large space. Then it measures the best variants again, " +
			"in interleaved rounds with the base and the entry of the tuned table. Only these " +
			"last numbers count. --strategy grid measures every config, and proves none faster.\n\n" +
			"Each variant becomes a record in OUT/<device>/records.jsonl; a search writes its " +
			"records when its problem is done. At the end the sweep writes " +
			"OUT/<device>/tuned.json and prints the table of base against best. A second sweep " +
			"into the same folder measures only the variants that are missing or have changed.\n\n" +
			"With --family each family named is swept against itself: the base is its own default, only its " +
			"configs win, and OUT/<device>/FAMILY/tuned.json is written. normbench's default stands beside it.",
		Flags: slices.Concat(cfg.flags(), cfg.timingFlags.flags(), cfg.search.flags(), []cli.Flag{
			&cli.StringFlag{Destination: &cfg.family, Name: "family", Category: catWhat,
				Usage:       "`FAMILIES` to sweep each against its own default, with commas",
				DefaultText: "all that serve the problem, against normbench's default"},
			&cli.StringSliceFlag{Destination: &cfg.knobs, Name: "knob", Category: catWhat,
				Usage: "`KNOB=V,V` replaces the values of a knob, such as --knob ctas=66,132; may repeat"},
			&cli.StringFlag{Destination: &cfg.out, Name: "out", Category: catOutput,
				Usage: "`FOLDER` for results", Value: defaultOut},
			shardFlag(&cfg.shard),
			&cli.StringFlag{Destination: &cfg.emit, Name: "emit", Category: catOutput,
				Usage: "print the job of this sweep in shards, with their merge, for a `SCHEDULER`: " + strings.Join(shard.Formats(), " or ")},
			&cli.IntFlag{Destination: &cfg.shards, Name: "shards", Category: catOutput, Usage: "shards of --emit",
				DefaultText: "as many as are predicted to take half an hour",
				Action:      checkRange("shards", 1, 10_000, "use 1 to 10000")},
			&cli.BoolFlag{Destination: &cfg.invariant, Name: "batch-invariant",
				Usage: "pick one config for all rows of a width, so that the bits of a row are the same in any batch"},
			&cli.BoolFlag{Destination: &cfg.retry, Name: "retry-failed",
				Usage: "measure the variants again that failed before"},
			&cli.BoolFlag{Destination: &cfg.dry, Name: "dry-run",
				Usage: "say how many problems and variants there are, and stop"},
			cfg.htmlFlag(),
		}),
	}, &cfg.commonFlags, func() error { return runSweep(e, cfg) })
}

func runSweep(e *env, cfg *sweepConfig) error {
	s := &lab.SweepTask{Config: &cfg.OpenOptions, Out: cfg.out, BatchInvariant: cfg.invariant}
	if other := cmp.Or(cfg.shard, cfg.emit); cfg.invariant && other != "" {
		return hint.Errorf("sweep all shapes of a width in one process", "--batch-invariant compares the shapes of a "+
			"width, and a shard (%s) has a part of them", other)
	}
	var err error
	if s.Knobs, err = knobOverrides(cfg.knobs.Value()); err != nil {
		return err
	}
	if cfg.family != "" {
		s.Only = strings.Split(cfg.family, ",")
	}
	if err := cfg.search.check(cfg.given); err != nil {
		return err
	}
	if cfg.emit != "" {
		return emitSweep(e, cfg)
	}
	if cfg.given["shards"] {
		return hint.Errorf("add --emit slurm or --emit k8s; a shard alone is --shard 3/8", "--shards is for --emit")
	}
	if s.Shard, err = e.shardOf(cfg.shard, cfg.out); err != nil {
		return err
	}
	if s.Shard != nil {
		s.Out = filepath.Join(cfg.out, s.Shard.Folder())
	}
	kinds, err := sweepKinds(e, cfg, s)
	found, lost := []*report.Comparison(nil), error(nil)
	for _, k := range kinds {
		e.Saved = cmp.Or(e.Saved, k.Saved)
		if k.result != nil {
			found, lost = append(found, k.result.Found...), cmp.Or(lost, k.result.Lost)
		}
	}
	if len(found) == 0 {
		return cmp.Or(lost, err)
	}
	steps, stepErr := cfg.Steps()
	if stepErr != nil { // of a file that has changed meanwhile
		return stepErr
	}
	problems := 0
	for _, c := range found {
		c.SetSteps(steps)
		problems += len(c.Rows)
	}
	var names []string
	for _, k := range kinds {
		names = append(names, k.info().Name)
		if k.result != nil && len(k.result.Found) > 0 && cfg.format != report.FormatCSV {
			last := k.result.Found[len(k.result.Found)-1]
			last.Next = nextOf(&k.SweepTask, last, cfg.kernels)
		}
	}
	if len(kinds) > 1 {
		for _, k := range kinds {
			if k.result != nil {
				for _, c := range k.result.Found {
					c.Device = k.info().Name
				}
			}
		}
	}
	shown := report.RenderAll(e.out, found, cfg.format)
	if shown == nil && lost == nil {
		shown = e.writePage(cfg.html, func() *report.Page {
			title := "Sweep of " + console.Count(problems, "problem") + " on " + strings.Join(names, " and ")
			page := found[0].Page(title)
			for _, c := range found[1:] {
				page.Append(c.Page(title))
			}
			return page
		})
	}
	return cmp.Or(shown, lost, err)
}

// A sweptKind is the sweep of one kind of device.
type sweptKind struct {
	lab.SweepTask
	result *lab.SweepResult // nil where it found nothing
}

func (k *sweptKind) info() kernels.DeviceInfo { return k.Devices[0].Info() }

// sweepKinds sweeps on each kind of device that is opened, at the same time. The kinds are in the order of
// their names. With --dry-run it lays out only.
func sweepKinds(e *env, cfg *sweepConfig, asked *lab.SweepTask) (kinds []*sweptKind, err error) {
	var mu sync.Mutex // of what the kinds share: the flags, and what the lab has read
	layOut := func(k *sweptKind) error {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, k)
		info, err := k.info(), error(nil)
		if k.Problems, err = cfg.problemsOn(k.Devices[0], true); err != nil {
			return err
		}
		k.Options = sweep.RunOptions{Run: e.NewRun(info, cfg.protocol(info)), Seed: cfg.seed, RetryFailed: cfg.retry}
		return e.LayOut(&k.SweepTask)
	}
	err = cfg.openEach(e, func(g *lab.DeviceGroup) (err error) {
		k := &sweptKind{SweepTask: *asked}
		k.Devices, k.Joining, k.Search = g.Devices, g.Joining, cfg.search.SearchPlan
		k.Beside = len(cfg.Workers) > 1
		if asked.Shard != nil { // each kind counts its own problems
			shard := *asked.Shard
			k.Shard = &shard
		}
		if err := layOut(k); err != nil || cfg.dry || len(k.Tasks) == 0 { // of more shards than problems
			return err
		}
		k.result, err = e.Sweep(&k.SweepTask)
		return err
	})
	slices.SortFunc(kinds, func(a, b *sweptKind) int { return strings.Compare(a.info().ID, b.info().ID) })
	return kinds, err
}

// emitSweep prints a sweep in shards as a scheduler's job.
func emitSweep(e *env, cfg *sweepConfig) error {
	for _, name := range []string{"shard", "dry-run", "html", "worker"} {
		if cfg.given[name] {
			return hint.Errorf("leave it out: --emit prints a job and measures nothing", "--%s and --emit exclude each other", name)
		}
	}
	cfg.Given = cfg.given
	onCPU := cfg.Device == "cpu"
	group := "default"
	if onCPU {
		group = "smoke"
	}
	ps, err := cfg.Problems(group)
	if err != nil {
		return err
	}
	times := 1.0
	if cfg.search.Strategy == search.Grid {
		times = 10 // a search measures a tenth of the configs
	}
	j := shard.NewBatchJob(ps, cfg.shards, times, cfg.search.Budget.Time)
	words := e.Command
	for _, flag := range []string{"emit", "shards", "out"} {
		words = shard.Without(words, flag)
	}
	if cfg.Device == "" { // a node whose GPU is gone must not measure its CPU
		words = append(words, "--device", "cuda")
	}
	j.Command, j.Out, j.GPU, j.Quote = words, cfg.out, !onCPU, quoteWords
	j.Merge, j.Program = []string{"normbench", "merge"}, "normbench"
	if cfg.kernels != "" { // the merged table has no entry of kernels that merge does not know
		j.Merge = append(j.Merge, "--kernels", cfg.kernels)
	}
	if strings.ContainsRune(e.program, filepath.Separator) { // it need not be on the PATH
		if j.Program, err = os.Executable(); err != nil {
			return err
		}
	}
	j.Files = cfg.filesRead()
	_, err = io.WriteString(e.out, j.Emit(cfg.emit))
	return err
}

// filesRead lists the files and folders that the flags name, and that a sweep on another host needs too.
func (cfg *sweepConfig) filesRead() (files []string) {
	names := append([]string{cfg.kernels, cfg.Model}, cfg.include.Value()...)
	names = append(names, strings.Split(cfg.Shapes, ",")...)
	for _, ref := range cfg.search.Keep { // such as tuned:FILE
		_, file, _ := strings.Cut(ref, ":")
		names = append(names, file)
	}
	if strings.ContainsRune(cfg.python, filepath.Separator) { // else it is on the PATH
		names = append(names, cfg.python)
	}
	for _, name := range names {
		name, _, _ = strings.Cut(name, "#")
		if _, err := os.Stat(name); err == nil && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	return files
}

// nextOf returns what to do behind a sweep, of kernels in a folder or, at "", of ours: measure its greatest gain
// again, live; where nothing was proven, sweep shapes of one's own; where the timer failed its test, mend that first.
func nextOf(s *lab.SweepTask, c *report.Comparison, kernelsFolder string) string {
	if _, replayed := s.Devices[0].(*replay.Device); replayed {
		return ""
	}
	if slices.ContainsFunc(c.Runs, func(r *record.Run) bool { return r.Failures() != "" }) {
		return "stop what else runs here until `normbench selftest` passes, then sweep into another folder: such times " +
			"prove little"
	}
	with := ""
	if kernelsFolder != "" {
		with = " --kernels " + quoteWord(kernelsFolder)
	}
	family, itself := strings.CutSuffix(c.A, report.OwnDefault)
	if !itself {
		family = ""
	}
	info := s.Devices[0].Info()
	tuned := filepath.Join(s.Out, info.ID, filepath.FromSlash(family), tune.FileName)
	if p := c.BestGain(); p != nil {
		return fmt.Sprintf("`normbench compare %s tuned:%s%s --shapes %dx%d --op %s --pass %s` measures the greatest gain "+
			"again, live", cmp.Or(family, "base"), quoteWord(tuned), with, p.M, p.N, p.Op, p.Pass)
	}
	if itself {
		with = " --family " + family + with
	}
	next := "`normbench sweep" + with + " --shapes 4096x8192 --op " + string(s.Problems[0].Op) + "` tunes a shape of your own"
	if info.Kind == kernels.KindCPU {
		next += "; on a GPU, with a build of `make cuda`, add --device cuda"
	}
	return next
}

// searchFlags are the flags of a search.
type searchFlags struct {
	lab.SearchPlan
	keep  cli.StringSlice
	limit string
}

// flags has no strategy's own.
func (p *searchFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Destination: &p.Strategy, Name: "strategy",
			Usage: strings.Join(search.Names(), ", ") + ": how to search. All but grid measure a part " +
				"of the space, then the best of it again", Value: search.Auto},
		&cli.StringFlag{Destination: &p.limit, Name: "budget",
			Usage: "limit of a search: wall `TIME` such as 5m, or configs such as 300configs or 10%"},
		&cli.IntFlag{Destination: &p.Finals, Name: "finals",
			Usage:       "number of variants that a search measures again, 1 to 32",
			DefaultText: "8 on a GPU, 4 on a cpu",
			Action:      checkRange("finals", 1, 32, "use 1 to 32; 8 to 16 are worth their time")},
		&cli.IntFlag{Destination: &p.Rounds, Name: "rounds",
			Usage: "interleaved rounds of the finals, 6 to 100", DefaultText: "24",
			Action: checkRange("rounds", 6, 100, "use 6 to 100; of fewer than 6 there is no interval")},
		&cli.StringSliceFlag{Destination: &p.keep, Name: "keep", Category: catWhat,
			Usage: "`REF` that a search always measures, such as tuned:FILE; may repeat"},
	}
}

// check reads the budget, and refuses flags of a search beside a grid.
func (p *searchFlags) check(given map[string]bool) (err error) {
	if p.Budget, err = search.ParseBudget(p.limit); err != nil {
		return err
	}
	p.Keep = p.keep.Value()
	for _, name := range []string{"budget", "finals", "rounds", "keep"} {
		if given[name] && p.Strategy == search.Grid {
			return hint.Errorf("leave it out, or choose another strategy",
				"--%s is for a search, and --strategy grid measures all", name)
		}
	}
	return nil
}
