// Package tune turns records into a tuned table: the variant to run for each
// problem, with the evidence for it.
package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/kernels/launchmap"
	"normbench/sweep/record"
)

// Schema is the version of the tables that this package writes, and the newest
// that it reads.
const Schema = 2

// FileName is the tuned table in a results folder.
const FileName = "tuned.json"

// A TunedTable is the tuned table of one device. It has two halves: entries for exact problems, which
// sweeps write, and a map for all others, which `map learn` and `map fill` write. Each command replaces
// only its half.
type TunedTable struct {
	Schema  int                `json:"schema"`
	Tool    string             `json:"tool"` // version of normbench
	Created time.Time          `json:"created"`
	Device  kernels.DeviceInfo `json:"device"`
	// BaseOf is the one family that the table is of: its base is the family's own default, and no
	// other family answers. It is "" in a table of all families.
	BaseOf   string          `json:"base_of,omitempty"`
	Protocol record.Protocol `json:"protocol"` // of the latest sweep; entries that Merge kept may be older
	// Noise is the middle of what two copies of each base differ by in the finals,
	// relatively: no margin below it means anything.
	Noise   float64                `json:"noise,omitempty"`
	Runs    []launchmap.RunSummary `json:"runs,omitempty"` // that measured the entries, the oldest first; schema 1 tables of before have none
	Entries []Entry                `json:"entries"`        // in the order of record.CompareProblems
	// Map is nil where nothing was learned. It has runs, protocol, sources and a checksum of its
	// own.
	Map *launchmap.Map `json:"map,omitempty"`
}

// SummarizeRun makes the run's summary that tables and maps keep.
func SummarizeRun(r *record.Run) launchmap.RunSummary {
	return launchmap.RunSummary{ID: r.ID, Time: r.Time, Tool: r.Tool, Command: r.Command, UUID: r.Device.UUID,
		DriverVersion: r.Device.DriverVersion, FloorUS: r.FloorUS}
}

// addRuns adds those of runs that entries name, and drops those that none names any more.
func (t *TunedTable) addRuns(runs ...*record.Run) {
	all := slices.Clone(t.Runs)
	for _, r := range runs {
		all = append(all, SummarizeRun(r))
	}
	t.Runs = t.keepUsedRuns(all)
}

// keepUsedRuns returns those of runs that entries name, each once, in the order of time.
func (t *TunedTable) keepUsedRuns(runs []launchmap.RunSummary) (kept []launchmap.RunSummary) {
	names := map[string]bool{}
	for i := range t.Entries {
		names[t.Entries[i].Run] = true
	}
	for _, r := range runs {
		if names[r.ID] {
			kept = append(kept, r)
			names[r.ID] = false
		}
	}
	slices.SortStableFunc(kept, func(a, b launchmap.RunSummary) int { return a.Time.Compare(b.Time) })
	return kept
}

// An Entry is the variant to run for a problem, with its evidence.
type Entry struct {
	Problem       kernels.Problem `json:"problem"`
	Family        string          `json:"family"`
	Config        kernels.Config  `json:"config"`
	Source        string          `json:"source"` // hash of the family's source
	MedianUS      float64         `json:"median_us"`
	CIUS          []float64       `json:"ci_us,omitempty"` // 95 % interval of the median, [lo, hi]; none below 6 samples
	Samples       int             `json:"samples"`
	StreamUS      float64         `json:"stream_us,omitempty"`
	StreamPercent float64         `json:"stream_percent,omitempty"` // stream_us / median_us
	Base          *Rival          `json:"base,omitempty"`           // none where it was not measured or failed
	Speedup       float64         `json:"speedup,omitempty"`        // score: base's median over this one's; in finals, of the rounds of both
	SpeedupCI     []float64       `json:"speedup_ci,omitempty"`     // 95 % interval of it, [lo, hi]; in finals only
	RunnerUp      *RunnerUp       `json:"runner_up,omitempty"`
	Default       *Rival          `json:"default,omitempty"`   // in a table of one family: what normbench runs, in the same rounds
	Held          *Rival          `json:"held,omitempty"`      // what the table held before the search, in the same rounds
	SearchUS      float64         `json:"search_us,omitempty"` // what the search had seen of it; median_us is from rounds after it
	Chosen        string          `json:"chosen,omitempty"`    // why it and not another: fastest, or the reason within the band
	// BatchInvariant is set where the problems of the entry's width have one config, whatever their rows: its time
	// over what the problem would have alone.
	BatchInvariant float64 `json:"batch_invariant,omitempty"`
	Noise          float64 `json:"noise,omitempty"`    // what two copies of the base differ by in the same rounds, relatively
	Unstable       bool    `json:"unstable,omitempty"` // its bits change from run to run
	Variants       Counts  `json:"variants"`
	Run            string  `json:"run,omitempty"` // that measured it, of the table's Runs
}

// Variant returns the family and config.
func (e *Entry) Variant() kernels.Variant { return kernels.Variant{Family: e.Family, Config: e.Config} }

// IsProven says whether the entry is the base itself, or is faster than it beyond doubt: the interval of
// the speedup lies above 1, or, in a grid, the interval of its median below the base's median. It is not
// proven where its own median has the base faster.
func (e *Entry) IsProven() bool {
	base := e.Base
	switch {
	case e.Speedup != 0 && e.Speedup < 1 || base != nil && e.MedianUS > base.MedianUS:
		return false
	case len(e.SpeedupCI) == 2:
		return e.SpeedupCI[0] > 1
	case base == nil: // it failed
		return true
	}
	return e.Variant() == kernels.Variant{Family: base.Family, Config: base.Config} || len(e.CIUS) == 2 && e.CIUS[1] < base.MedianUS
}

// A Rival is a variant that the entry's was measured against.
type Rival struct {
	Family   string         `json:"family"`
	Config   kernels.Config `json:"config"`
	MedianUS float64        `json:"median_us"`
	// GainLo is the lower bound at 95 % of how much slower it is than the pick, as
	// a fraction; in finals only.
	GainLo float64 `json:"gain_lo,omitempty"`
}

// A RunnerUp is the fastest variant beside the entry's.
type RunnerUp struct {
	Rival
	MarginPercent float64 `json:"margin_percent"` // how much slower it is; negative where the base won within TieBand
}

// Counts counts the variants among which an entry was picked.
type Counts struct {
	Measured int `json:"measured"`
	OK       int `json:"ok"`
	Failed   int `json:"failed"`
}

// add counts one variant.
func (c *Counts) add(ok bool) {
	if c.Measured++; ok {
		c.OK++
	} else {
		c.Failed++
	}
}

// round rounds to four digits after the point: ratios are not known any better.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// Lookup finds the entry of a problem.
func (t *TunedTable) Lookup(p kernels.Problem) (Entry, bool) {
	i, ok := t.find(p)
	if !ok {
		return Entry{}, false
	}
	return t.Entries[i], true
}

// find finds the index of a problem's entry.
func (t *TunedTable) find(p kernels.Problem) (int, bool) {
	return slices.BinarySearchFunc(t.Entries, p, func(e Entry, p kernels.Problem) int {
		return record.CompareProblems(e.Problem, p)
	})
}

// CheckValid refuses a table that no file may hold. It is called before every write and after every
// read.
func (t *TunedTable) CheckValid() error {
	const help = "`normbench sweep` writes tuned tables, again where one was deleted; this is another file, or was changed by hand"
	switch {
	case t.Schema > Schema:
		return hint.Errorf("update normbench", "schema %d is newer than %d, the newest that this normbench reads", t.Schema, Schema)
	case t.Schema < 1:
		return hint.Errorf(help, "not a tuned table: schema %d does not exist", t.Schema)
	case t.Device.ID == "":
		return hint.Errorf(help, "tuned table without a device")
	case kernels.CheckID(t.Device.ID) != nil:
		return kernels.CheckID(t.Device.ID)
	case t.Created.IsZero():
		return hint.Errorf(help, "tuned table without a time")
	}
	for i := range t.Entries {
		e := &t.Entries[i]
		if err := e.Problem.Validate(); err != nil {
			return err
		}
		if i > 0 {
			switch c := record.CompareProblems(t.Entries[i-1].Problem, e.Problem); {
			case c == 0:
				return hint.Errorf(help, "%s stands twice", e.Problem)
			case c > 0:
				return hint.Errorf(help, "%s is out of order", e.Problem)
			}
		}
		if err := e.checkValid(); err != nil {
			return hint.Errorf(help, "%s: %w", e.Problem, err)
		}
		if t.BaseOf != "" && e.Family != t.BaseOf {
			return hint.Errorf(help, "%s: an entry of %s in a table of %s", e.Problem, e.Family, t.BaseOf)
		}
	}
	if t.Map != nil {
		return t.Map.CheckValid()
	}
	return nil
}

// checkValid refuses an entry with times or intervals that cannot be.
func (e *Entry) checkValid() error {
	time := func(us float64) bool { return us > 0 && !math.IsInf(us, 0) }
	switch {
	case e.Family == "":
		return errors.New("no family")
	case !time(e.MedianUS):
		return fmt.Errorf("a median time of %g us", e.MedianUS)
	case len(e.CIUS) != 0 && (len(e.CIUS) != 2 || !(0 < e.CIUS[0] && e.CIUS[0] <= e.MedianUS && e.MedianUS <= e.CIUS[1]) || !time(e.CIUS[1])):
		return fmt.Errorf("an interval %g us that does not hold the median %g", e.CIUS, e.MedianUS)
	case e.Base != nil && !time(e.Base.MedianUS):
		return fmt.Errorf("a base median time of %g us", e.Base.MedianUS)
	case e.RunnerUp != nil && !time(e.RunnerUp.MedianUS):
		return fmt.Errorf("a runner-up median time of %g us", e.RunnerUp.MedianUS)
	case len(e.SpeedupCI) != 0 && (len(e.SpeedupCI) != 2 || !(0 < e.SpeedupCI[0] && e.SpeedupCI[0] <= e.SpeedupCI[1]) || !time(e.SpeedupCI[1])):
		return fmt.Errorf("an interval %g of its speedup", e.SpeedupCI)
	case e.Default != nil && !time(e.Default.MedianUS):
		return fmt.Errorf("a default median time of %g us", e.Default.MedianUS)
	case e.Held != nil && !time(e.Held.MedianUS):
		return fmt.Errorf("a held median time of %g us", e.Held.MedianUS)
	case e.BatchInvariant != 0 && !time(e.BatchInvariant):
		return fmt.Errorf("a batch-invariant config of %g times the free choice", e.BatchInvariant)
	case e.SearchUS != 0 && !time(e.SearchUS):
		return fmt.Errorf("a search time of %g us", e.SearchUS)
	case e.StreamUS != 0 && !time(e.StreamUS):
		return fmt.Errorf("a stream time of %g us", e.StreamUS)
	}
	return nil
}

// CheckFamily refuses a table that is not of the given family against its own default, or with "" not of
// all families. A nil table passes. name is the table's in the error.
func (t *TunedTable) CheckFamily(name, family string) error {
	of := func(family string) string { return cmp.Or(family, "all families") }
	if t == nil || t.BaseOf == family {
		return nil
	}
	return hint.Errorf("`normbench sweep --family F` and `normbench map learn --family F` write the table of "+
		"a family F as OUT/DEVICE/F/"+FileName, "%s is a table of %s, not of %s", name, of(t.BaseOf), of(family))
}

// Read reads and checks a tuned table. Errors name the file, and the line where one is at fault.
func Read(path string) (*TunedTable, error) {
	if path == "" {
		return nil, hint.Errorf("write tuned:FILE, such as tuned:results/nvidia-h200/tuned.json",
			"tuned: names no file")
	}
	data, err := textfile.Read(path, textfile.Large)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), "`normbench sweep` and `normbench map learn` write one, as "+
			FileName+" in a results folder"), "tuned table %s: %w", path, durable.Cause(err))
	}
	return parse(path, data)
}

// parse reads the text of a tuned table; name is the file's in errors.
func parse(name string, data []byte) (*TunedTable, error) {
	const help = "`normbench sweep`, `normbench map learn` and `normbench map fill` write tuned tables: is this one?"
	var t TunedTable
	err := launchmap.CheckOld(name, data)
	if err != nil {
		return nil, err
	}
	if err = durable.RefuseDuplicates(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err = json.Unmarshal(data, &t); t.Map != nil {
		t.Map.Device = t.Device
	}
	var h struct{ Schema int }
	if err != nil && json.Unmarshal(data, &h) == nil && h.Schema > Schema {
		err = (&TunedTable{Schema: h.Schema}).CheckValid() // what failed is the newer schema's
	} else if err == nil {
		err = t.CheckValid()
	}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return nil, hint.Errorf(help, "%s:%d: %s", name, lineAt(data, syntax.Offset), syntax)
	case errors.As(err, &typ):
		return nil, hint.Errorf(help, "%s:%d: %s is no value for %q", name, lineAt(data, typ.Offset), typ.Value, typ.Field)
	case err != nil:
		return nil, hint.Errorf(cmp.Or(hint.Of(err), help), "%s: %w", name, err)
	}
	return &t, nil
}

// lineAt returns the line, from 1, of the byte before an offset, as JSON's errors point behind the
// fault.
func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(max(offset-1, 0), int64(len(data)))], []byte("\n"))
}

// marshal writes the table as indented JSON with a line for each entry: a diff has a line for a problem,
// and grep finds all of one.
func (t *TunedTable) marshal() ([]byte, error) {
	head := *t
	head.Entries = []Entry{}
	text, err := json.MarshalIndent(head, "", "  ")
	if err != nil || len(t.Entries) == 0 {
		return text, err
	}
	var lines [][]byte
	for i := range t.Entries {
		line, err := json.Marshal(&t.Entries[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	list := fmt.Appendf(nil, "\"entries\": [\n    %s\n  ]", bytes.Join(lines, []byte(",\n    ")))
	return bytes.Replace(text, []byte(`"entries": []`), list, 1), nil
}

// Write checks a tuned table and writes its file in place of an older one: readers see the old file or
// the new one, never half of one, also after a power cut.
func (t *TunedTable) Write(p durable.Place) error {
	data, err := t.Text()
	if err != nil {
		return fmt.Errorf("tuned table %s: %w", p, err)
	}
	if err := p.Write(data); err != nil {
		return fmt.Errorf("tuned table %w", err)
	}
	return nil
}

// Text checks a tuned table and returns the text of its file.
func (t *TunedTable) Text() ([]byte, error) {
	if err := t.CheckValid(); err != nil {
		return nil, err
	}
	data, err := t.marshal()
	return append(data, '\n'), err
}

// Update replaces one half of the table in a file: change gets the table that is there, nil for none,
// and returns the one to write, nil to write none. Others who update a table of the folder wait
// meanwhile.
func Update(p durable.Place, change func(old *TunedTable) (*TunedTable, error)) error {
	release, err := record.HoldFolder(filepath.Dir(p.String()))
	if err != nil {
		return err
	}
	defer release()
	old, err := Read(p.String())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t, err := change(old)
	if err != nil || t == nil {
		return err
	}
	return t.Write(p)
}
