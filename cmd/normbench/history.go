package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/report"
	"normbench/report/history"
	"normbench/sweep/record"
)

// A historyConfig is what the flags of history and of history add ask for.
type historyConfig struct {
	commonFlags
	file, commit string
	since        int
}

func (cfg *historyConfig) fileFlag() cli.Flag {
	return &cli.StringFlag{Destination: &cfg.file, Name: "file", Category: catWhere,
		Usage: "`FILE` that keeps the history", Value: history.FileName}
}

// historyTableFlags returns the flags of tables, with the formats of other servers.
func (cfg *historyConfig) historyTableFlags() []cli.Flag {
	flags := cfg.tableFlags()
	for _, f := range flags {
		if f, ok := f.(*cli.StringFlag); ok && f.Name == "format" {
			f.Usage = "text, markdown, csv or json; or, for other servers, " + strings.Join(history.ExportFormats(), " or ")
		}
	}
	return flags
}

func historyCommand(e *env) *cli.Command {
	cfg := &historyConfig{}
	c := e.command(&cli.Command{
		Name:  "history",
		Usage: "say what moved over the last commits, and why",
		Description: "`history add` keeps runs in a file; this prints what moved between them. The arms of a run " +
			"name the cause. If all moved alike, it is the machine; if the stream alone, memory or a clock; if one " +
			"peer alone, that peer; if ours moved against the stream, a kernel, in that range of commits. Where two " +
			"copies of one kernel differ more than before, it is noise; a new protocol is another method; with fewer " +
			"than 10 rounds the cause is unknown. Each commit is compared with up to 8 before it. The " +
			"exit status is 0 whatever moved. bmf (Bencher) and github-action-benchmark write the newest run for " +
			"other servers.",
		Flags: append([]cli.Flag{cfg.fileFlag(),
			&cli.IntFlag{Destination: &cfg.since, Name: "since", Category: catWhat, DefaultText: "all",
				Usage:  "look at the last `N` commits of each device",
				Action: checkRange("since", 1, 1_000_000, "give a number of commits")},
			cfg.htmlFlag()}, cfg.historyTableFlags()...),
	}, &cfg.commonFlags, func() error { return showHistory(e, cfg) })
	c.Subcommands = []*cli.Command{historyAddCommand(e)}
	return c
}

func historyAddCommand(e *env) *cli.Command {
	cfg := &historyConfig{}
	cfg.commonFlags.only = "one RESULT"
	return e.command(&cli.Command{
		Name:      "add",
		Usage:     "add what a run measured to a history",
		ArgsUsage: "RESULT",
		Description: "RESULT is the file of a live compare, a records file or a results folder. The line of a run " +
			"has its medians per problem: the stream, the base, ours and each peer. A run that is there is not added again.",
		Flags: []cli.Flag{cfg.fileFlag(),
			&cli.StringFlag{Destination: &cfg.commit, Name: "commit", Category: catWhat,
				Usage: "`COMMIT` that was measured", DefaultText: "that of the normbench that measured it"}},
	}, &cfg.commonFlags, func() error { return addHistory(e, cfg) })
}

func addHistory(e *env, cfg *historyConfig) error {
	runs, err := historyRuns(e, cfg.operands[0], cfg.commit)
	if err != nil {
		return err
	}
	added, notes, err := history.Add(cfg.file, runs)
	e.NoteOnce(notes...)
	if err != nil {
		return err
	}
	text := console.Count(added, "run") + " added to " + cfg.file
	if n := len(runs) - added; n > 0 {
		text += ", " + console.Count(n, "run") + " there already"
	}
	_, err = e.out.Write([]byte(text + "\n"))
	return err
}

// historyRuns returns the lines of a result.
func historyRuns(e *env, path, commit string) ([]history.Snapshot, error) {
	const help = "give the file of a live compare, a records file or a results folder"
	if strings.Contains(path, "#") || strings.HasPrefix(path, "tuned:") {
		return nil, hint.Errorf(help, "%s is an operand, and history add takes a whole file or folder", path)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, hint.Errorf(help, "no result at %s: %w", path, durable.Cause(err))
	}
	if textfile.Ext(path) == ".json" {
		l, err := report.ReadLive(path)
		if err != nil {
			return nil, err
		}
		return history.LiveRuns(l, commit)
	}
	ours, err := e.Side(path)
	if err != nil {
		return nil, err
	}
	sides := map[string]report.Side{history.Ours: ours}
	if sides[history.Base], err = e.Side(path + "#base"); err != nil {
		return nil, err
	}
	peers := map[string]bool{}
	if _, err := record.Read(path, func(r *record.Record, _ *record.Run) error {
		if name, ok := kernels.PeerName(r.Family); ok {
			peers[name] = true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for name := range peers {
		if sides[history.PeerArm+name], err = e.Side(path + "#peer:" + name); err != nil {
			return nil, err
		}
	}
	return history.SideRuns(sides, commit)
}

func showHistory(e *env, cfg *historyConfig) error {
	if len(cfg.operands) > 0 {
		return hint.Errorf("`normbench history add RESULT` adds a run; --file names the history",
			"history takes no operands, got %q", cfg.operands[0])
	}
	f, err := history.Read(cfg.file)
	if err != nil {
		return err
	}
	e.NoteOnce(f.Notes...)
	if slices.Contains(history.ExportFormats(), cfg.format) {
		if cfg.html != "" || cfg.since > 0 {
			return hint.Errorf("leave out --html and --since", "%s has the newest run alone", cfg.format)
		}
		return history.Export(e.out, f, cfg.format)
	}
	v := history.NewView(f, cfg.since, history.DefaultRule())
	if err := report.RenderTable(e.out, v.Table(), cfg.format); err != nil {
		return err
	}
	return e.writePage(cfg.html, v.Page)
}
