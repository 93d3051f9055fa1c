package textfile

import (
	"bytes"
	"encoding/json"
	"regexp"

	"normbench/internal/hint"
)

// conflict matches a line that git leaves where a merge found no answer.
var conflict = regexp.MustCompile(`(?m)^(<{7}|>{7}) `)

// goBenchmark matches a line of `go test -bench`, or of its head.
var goBenchmark = regexp.MustCompile(`(?m)^(goos: \w+|Benchmark\S*\s+\d+\s+[0-9.e+]+ ns/op\b)`)

const pairsHelp = "`normbench judge` takes rounds in which two sides were measured in turns, as CSV with a,b[,a2]"

// CheckConflict refuses a text in which git has left a conflict.
func CheckConflict(data []byte) error {
	if !bytes.Contains(data, []byte("<<<<<<< ")) && !bytes.Contains(data, []byte(">>>>>>> ")) ||
		!conflict.Match(data) {
		return nil
	}
	return hint.Errorf("of a tuned table, `normbench merge FILE --out FILE` takes both sides; of another file take "+
		"one side whole (`git checkout --ours FILE`, or --theirs), as a merge by hand breaks checksums",
		"it has the conflict markers of git")
}

// Sides returns both sides of a text in which git has left conflicts; conflict is false for any other text.
func Sides(data []byte) (ours, theirs []byte, conflict bool) {
	if CheckConflict(data) == nil {
		return nil, nil, false
	}
	mine, other := true, true
	for line := range bytes.Lines(data) {
		marker, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		switch string(marker) {
		case "<<<<<<<":
			mine, other = true, false
		case "|||||||": // what both come from
			mine, other = false, false
		case "=======":
			mine, other = false, true
		case ">>>>>>>":
			mine, other = true, true
		default:
			if mine {
				ours = append(ours, line...)
			}
			if other {
				theirs = append(theirs, line...)
			}
		}
	}
	return ours, theirs, true
}

// CheckForeign refuses a file of another tool that people give to this one, and says what it is. Readers
// would only say at which byte they stopped.
func CheckForeign(data []byte) error {
	if err := CheckConflict(data); err != nil {
		return err
	}
	if goBenchmark.Match(data[:min(len(data), 1<<16)]) {
		return hint.Errorf("benchstat compares such files; "+pairsHelp, "it is the text of Go's benchmarks")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil
	}
	var has map[string]json.RawMessage
	if json.Unmarshal(data, &has) != nil {
		return nil // its reader says more
	}
	all := func(names ...string) bool {
		for _, name := range names {
			if _, ok := has[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case all("tune_params_keys", "cache"):
		return hint.Errorf("`normbench export --format kt-cache` writes such caches, and nothing here reads them; "+
			pairsHelp, "it is a cache of kernel_tuner")
	case all("devices", "benchmarks"):
		return hint.Errorf(pairsHelp, "it has the results of NVBench")
	case all("model_type") && (all("hidden_size") || all("architectures")):
		return hint.Errorf("`normbench list models --model FILE` lists its norms, and sweep, compare and others take "+
			"--model too", "it is the config of a model of Hugging Face")
	}
	return nil
}
