// Package shard cuts the problems of a command into parts, for as many machines.
//
// A part is a function of the command alone. Whatever a machine has recorded before, the parts do not
// overlap, and together they are all.
package shard

import (
	"fmt"
	"strconv"
	"strings"

	"normbench/internal/hint"
	"normbench/sweep/record"
)

// Whole is the shard of a command that measures all.
const Whole = "1/1"

// maxShards is more than a scheduler takes.
const maxShards = 100_000

// Parse reads INDEX/COUNT, such as 3/8. It returns nil for 1/1, which is no part.
func Parse(text string) (*record.Shard, error) {
	index, count, ok := strings.Cut(text, "/")
	i, bad := strconv.Atoi(index)
	n, worse := strconv.Atoi(count)
	if !ok || bad != nil || worse != nil {
		return nil, hint.Errorf("write --shard 3/8, the third of eight", "malformed --shard %q", text)
	}
	return newShard(i, n, "--shard "+text)
}

// newShard refuses an index that is not among the shards.
func newShard(index, count int, name string) (*record.Shard, error) {
	s := &record.Shard{Index: index, Count: count}
	switch {
	case count < 1 || count > maxShards:
		return nil, hint.Errorf(fmt.Sprintf("use 1 to %d shards", maxShards), "%s is out of range", name)
	case !s.IsIn():
		return nil, hint.Errorf(fmt.Sprintf("shards count from 1: use --shard 1/%d to %[1]d/%[1]d", count),
			"%s is out of range", name)
	case count == 1:
		return nil, nil
	}
	return s, nil
}

// A scheduler names its variables: the index of a job among those that are alike, and how many there are.
type scheduler struct {
	index, count string
	first        int    // the least index
	firstOf      string // the variable with the least index, in place of first
	step         string // the variable with the distance of two indices, "" for 1
}

var schedulers = []scheduler{
	{index: "SLURM_ARRAY_TASK_ID", count: "SLURM_ARRAY_TASK_COUNT", firstOf: "SLURM_ARRAY_TASK_MIN",
		step: "SLURM_ARRAY_TASK_STEP"},
	{index: "JOB_COMPLETION_INDEX", count: "JOB_COMPLETIONS"},  // an Indexed Job of Kubernetes, which sets the index alone
	{index: "CI_NODE_INDEX", count: "CI_NODE_TOTAL", first: 1}, // GitLab
	{index: "CIRCLE_NODE_INDEX", count: "CIRCLE_NODE_TOTAL"},
	{index: "BUILDKITE_PARALLEL_JOB", count: "BUILDKITE_PARALLEL_JOB_COUNT"},
}

// Variables lists those that FromEnv reads.
func Variables() (names []string) {
	for _, x := range schedulers {
		names = append(names, x.index, x.count)
		for _, name := range []string{x.firstOf, x.step} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// explicit is the way out where a scheduler's variables do not say which shard this is.
const explicit = "give --shard INDEX/COUNT; --shard " + Whole + " measures all here"

// FromEnv reads the shard from a scheduler's variables. It returns nil where there are none, or one job alone. by is
// the variable with the index. It refuses variables that say half of it, or that two schedulers set
// differently.
func FromEnv(getenv func(string) string) (s *record.Shard, by string, err error) {
	for _, x := range schedulers {
		found, err := x.shard(getenv)
		switch {
		case err != nil:
			return nil, "", err
		case found == nil:
		case s != nil && *found != *s:
			return nil, "", hint.Errorf(explicit, "%s says shard %s, and %s says %s", by, s, x.index, found)
		case s == nil:
			s, by = found, x.index
		}
	}
	return s, by, nil
}

// shard returns the shard that a scheduler's variables name, nil for none.
func (x *scheduler) shard(getenv func(string) string) (*record.Shard, error) {
	if getenv(x.index) == "" {
		return nil, nil
	}
	if getenv(x.count) == "" {
		return nil, hint.Errorf(fmt.Sprintf("set %s to how many there are, or %s", x.count, explicit),
			"%s is set, and %s is not", x.index, x.count)
	}
	var bad error
	number := func(name string, otherwise int) int {
		text := getenv(name)
		if name == "" || text == "" {
			return otherwise
		}
		n, err := strconv.Atoi(text)
		if err != nil && bad == nil {
			bad = hint.Errorf(explicit, "%s is %q, and no number", name, text)
		}
		return n
	}
	index, count := number(x.index, 0), number(x.count, 0)
	first, step := number(x.firstOf, x.first), max(number(x.step, 1), 1)
	name := fmt.Sprintf("%s=%d of %d", x.index, index, count)
	switch at := index - first; {
	case bad != nil:
		return nil, bad
	case count == 1:
		return nil, nil
	case at < 0 || at%step != 0 || at/step >= count: // an array of a list, as 1,3,7
		return nil, hint.Errorf("number the jobs without gaps, or "+explicit,
			"%s does not say which shard this is: indices begin with %d", name, first)
	default:
		return newShard(at/step+1, count, name)
	}
}

// Command returns the command that makes a shard, from that of any shard of it.
func Command(words []string, s *record.Shard) []string {
	return append(Without(words, "shard"), "--shard", s.String())
}

// Without returns the words of a command without a flag and its value.
func Without(words []string, flag string) (kept []string) {
	for i := 0; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(strings.TrimPrefix(words[i], "-"), "-")
		switch {
		case !isFlag && !strings.HasPrefix(words[i], "-"):
			kept = append(kept, words[i])
		case name == flag:
			i++
		case !strings.HasPrefix(name, flag+"="):
			kept = append(kept, words[i])
		}
	}
	return kept
}
