package lab

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"normbench/internal/console"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/sweep/record"
	"normbench/sweep/shard"
	"normbench/tune"
)

// A MergeTask says which results folders become one.
type MergeTask struct {
	Folders []string // or records files
	Out     string   // the folder of the merged results, which may be one of them
	Partial bool     // shards may be missing
	// Quote writes a command as a shell reads it.
	Quote func(words []string) string
}

// A MergeSummary says what came of a merge.
type MergeSummary struct {
	Files, Records, Problems, Entries, Cards int
	Device                                   kernels.DeviceInfo
	Place                                    durable.Place // of the records
}

// Merge writes what the records of several folders say as the records of one, with the tuned table that a sweep over all
// would have written. It depends on what the records say alone: not on the order of the folders, nor on
// how often one comes, nor on what was merged before.
func (l *Lab) Merge(t *MergeTask) (*MergeSummary, error) {
	step := l.Wait("reading the records")
	defer step.End()
	files, err := recordFiles(t.Folders)
	if err != nil {
		return nil, err
	}
	u, err := record.OpenUnion(files)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	if len(u.Runs) == 0 || u.Records() == 0 {
		return nil, hint.Errorf("a sweep writes some", "%s has no record", files[0])
	}
	l.NoteOnce(u.Notes...)
	if err := l.checkGaps(t, u.Gaps()); err != nil {
		return nil, err
	}
	last := u.Runs[len(u.Runs)-1].Device
	sum := &MergeSummary{Files: len(files), Records: u.Records(), Problems: len(u.Problems()), Device: last,
		Place: durable.Place{Root: t.Out, Name: filepath.Join(last.ID, record.FileName)}}
	var notes []string
	sum.Cards, notes = tune.CompareCards(u.Runs)
	l.Notes(notes)
	if err := checkAmong(sum.Place, files); err != nil {
		return nil, err
	}
	release, err := record.LockFolder(t.Out, last.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	step.Set("making the tuned table")
	folds, err := l.foldAll(t.Out, u)
	if err != nil {
		return nil, err
	}
	for _, f := range folds {
		if err := record.CheckFolder(t.Out, filepath.Join(last.ID, filepath.FromSlash(f.Family()))); err != nil {
			return nil, err
		}
	}
	step.Set("writing %s", sum.Place)
	in, out := io.Pipe()
	go func() { out.CloseWithError(u.Write(out)) }()
	if err := sum.Place.WriteFrom(in); err != nil {
		in.CloseWithError(err)
		return nil, hint.Errorf(cmp.Or(hint.Of(err), durable.Help(err)), "%s: %w", sum.Place, durable.Cause(err))
	}
	for _, f := range folds {
		if err := f.WriteMerged(u.Runs); err != nil {
			return nil, err
		}
		sum.Entries += f.Entries()
	}
	if lacking := sum.Problems - sum.Entries; lacking > 0 {
		l.Notef("%s without an entry: no variant is right, or the kernels are not those of this normbench",
			console.Count(lacking, "problem"))
	}
	return sum, nil
}

// recordFiles lists the records files of folders, each once.
func recordFiles(folders []string) (files []string, err error) {
	seen := map[string]bool{}
	for _, folder := range folders {
		found, err := record.Find(folder)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			whole, err := filepath.Abs(file)
			if err != nil {
				return nil, err
			}
			if !seen[whole] {
				seen[whole], files = true, append(files, file)
			}
		}
	}
	return files, nil
}

// checkGaps refuses shards that are missing, and lists the commands that make them.
func (l *Lab) checkGaps(t *MergeTask, gaps []record.Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	var names, commands []string
	for i := range gaps {
		g := &gaps[i]
		name := fmt.Sprintf("shard %s is missing", &g.Shard)
		if g.Of > 0 {
			name = fmt.Sprintf("shard %s has %d of %d", &g.Shard, g.Done, g.Of)
		}
		names, commands = append(names, name), append(commands, t.Quote(shard.Command(g.Command, &g.Shard)))
		l.Notef("%s: %s", name, commands[i])
	}
	other := slices.IndexFunc(gaps, func(g record.Gap) bool { return g.Plan != gaps[0].Plan })
	switch {
	case t.Partial:
		return nil
	case other > 0:
		return hint.Errorf("merge the shards of each command by themselves, all of them",
			"there are shards of two commands: %s, and %s", t.Quote(gaps[0].Command), t.Quote(gaps[other].Command))
	case len(gaps) > 1:
		return hint.Errorf("their commands are above; --partial merges what there is", "%d of %d shards are missing or not done: %s",
			len(gaps), gaps[0].Count, strings.Join(names, ", "))
	}
	return hint.Errorf(fmt.Sprintf("`%s` makes it; --partial merges what there is", commands[0]), "%s", names[0])
}

// checkAmong refuses to write over records that are not merged.
func checkAmong(p durable.Place, files []string) error {
	there, err := os.Stat(p.String())
	if err != nil {
		return nil
	}
	for _, file := range files {
		if st, err := os.Stat(file); err == nil && os.SameFile(there, st) {
			return nil
		}
	}
	return hint.Errorf("name its folder too, or choose another --out", "%s is there, and is none of what is merged", p)
}

// foldAll makes the tuned tables of a union: of all families, and of each that was swept against itself.
func (l *Lab) foldAll(out string, u *record.Union) ([]*tune.Fold, error) {
	last := u.Runs[len(u.Runs)-1]
	protocol := last.Protocol
	for _, r := range u.Runs {
		if r.Protocol.Phase == record.PhaseFinal {
			protocol = r.Protocol
		}
	}
	var mu sync.Mutex
	folds := map[string]*tune.Fold{}
	err := u.EachProblem(func(f *record.File) error {
		mu.Lock()
		defer mu.Unlock()
		for _, family := range f.Contests() {
			fold, ok := folds[family]
			if !ok {
				registry := l.Registry
				if family != "" {
					against, err := l.Registry.Against(family)
					if err != nil {
						l.NoteOnce(fmt.Sprintf("no tuned table of %s: %s", family, console.OneLine(err.Error())))
						folds[family] = nil
						continue
					}
					registry = against
				}
				var err error
				fold, err = tune.NewFold(registry, f, nil, &tune.TunedTable{Schema: tune.Schema, Device: last.Device,
					BaseOf: family, Protocol: protocol}, tablePlace(out, last.Device, family))
				if err != nil {
					return err
				}
				folds[family] = fold
			}
			if fold != nil {
				fold.AddMerged(f)
			}
		}
		return nil
	})
	var list []*tune.Fold
	for _, f := range folds {
		if f != nil {
			list = append(list, f)
		}
	}
	return list, err
}
