package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"normbench/kernels"
	"normbench/sweep/record"
)

// What a search of a problem takes beside its launches: it compiles and checks, and a backward has more of that.
const (
	searchTime   = 700 * time.Millisecond
	backwardTime = 250 * time.Millisecond
)

// Predict returns what a search of a problem takes on a GPU of 4 TB/s, with some 3000 launches. It looks at the problem
// alone, so that every machine predicts the same. On others it is right in proportion.
func Predict(p kernels.Problem) time.Duration {
	took := searchTime + time.Duration(p.Bytes()*3000/4000) // ns
	if p.Pass == kernels.Bwd {
		took += backwardTime
	}
	return took
}

// PredictAll returns what problems take together.
func PredictAll(ps []kernels.Problem) (sum time.Duration) {
	for _, p := range ps {
		sum += Predict(p)
	}
	return sum
}

// Split cuts problems into shards that are predicted to take the same time. A problem is of one shard, and those of a
// shard keep their order. The order of all does not matter: each next problem, the longest first, goes to the
// shard with the least so far.
func Split(ps []kernels.Problem, count int) [][]kernels.Problem {
	longest := slices.SortedFunc(slices.Values(ps), func(a, b kernels.Problem) int {
		return cmp.Or(cmp.Compare(Predict(b), Predict(a)), record.CompareProblems(a, b), cmp.Compare(a.String(), b.String()))
	})
	load, of := make([]time.Duration, count), map[kernels.Problem]int{}
	for _, p := range longest {
		if _, twice := of[p]; twice {
			continue
		}
		least := slices.Index(load, slices.Min(load))
		of[p] = least
		load[least] += Predict(p)
	}
	shards := make([][]kernels.Problem, count)
	for _, p := range ps {
		shards[of[p]] = append(shards[of[p]], p)
	}
	return shards
}

// Of returns the problems of a shard.
func Of(s *record.Shard, ps []kernels.Problem) []kernels.Problem {
	return Split(ps, s.Count)[s.Index-1]
}

// Plan returns the hash by which shards of one command know each other: of all its problems, in any order, and of what else
// its flags ask for.
func Plan(ps []kernels.Problem, asked ...string) string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, p.String())
	}
	slices.Sort(lines)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", lines, asked)
	return hex.EncodeToString(h.Sum(nil)[:8])
}
