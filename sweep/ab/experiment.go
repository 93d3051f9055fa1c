package ab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/families"
	"normbench/sweep/record"
	"normbench/sweep/verdict"
)

// Schema is the version of the files that matches are kept in.
const Schema = 1

// An Experiment is one live compare: what it was asked, and what it found.
type Experiment struct {
	Schema  int                 `json:"schema"`
	Run     record.Run          `json:"run"`
	A       string              `json:"a"` // the operands, as written
	B       string              `json:"b"`
	Rule    verdict.Rule        `json:"rule"`
	Duels   []*DuelResult       `json:"duels"`
	Judged  []verdict.Judgement `json:"judged"` // of the duels that are ok, in their order
	Summary verdict.Aggregate   `json:"summary"`
	Gate    []Confirmation      `json:"gate,omitempty"`
	Kernels string              `json:"kernels,omitempty"` // families.Hash
	Among   []string            `json:"among,omitempty"`   // that peer:best was among, where not all
	Peers   []string            `json:"peers,omitempty"`   // a line for each peer in it, with its versions
	Resumed []record.Run        `json:"resumed,omitempty"` // that went on with it
	Policy  GatePolicy          `json:"policy,omitzero"`
	Asked   int                 `json:"asked,omitempty"` // cells that were asked for
}

// A GatePolicy is what a gate asks of an experiment.
type GatePolicy struct {
	Gate   bool `json:"gate,omitempty"`   // no cell is slower, confirmed by a second run
	Strict bool `json:"strict,omitempty"` // and none is inconclusive
}

// A Confirmation is what a second run, on a device opened anew, said of a cell that looked slower.
type Confirmation struct {
	Problem   kernels.Problem   `json:"problem"`
	Confirmed bool              `json:"confirmed"`
	Status    kernels.Status    `json:"status,omitempty"`
	Again     verdict.Judgement `json:"again"`
}

// String says what the second run found, and why it is no confirmation.
func (g *Confirmation) String() string {
	s := "confirmed by a fresh worker: "
	if !g.Confirmed {
		s = "not " + s
	}
	if x := g.Again.Speedup(); x != "" {
		s += x + ", "
	}
	s += string(g.Again.Verdict)
	if g.Again.Reason != "" {
		s += ": " + g.Again.Reason
	}
	return s
}

// Runs are the run itself and those that went on with it.
func (m *Experiment) Runs() []*record.Run {
	runs := []*record.Run{&m.Run}
	for i := range m.Resumed {
		runs = append(runs, &m.Resumed[i])
	}
	return runs
}

// Decide judges all duels that are ok.
func (m *Experiment) Decide() {
	var cells []verdict.PairedRounds
	for _, d := range m.Duels {
		if d.Status == kernels.StatusOK {
			cells = append(cells, d.PairedRounds())
		}
	}
	m.Judged = verdict.Judge(cells, m.Rule)
	m.Summary = verdict.Summarize(m.Judged)
}

// Keep drops the duels of other problems than those wanted. What is left is judged again, because
// verdicts depend on the number of cells.
func (m *Experiment) Keep(wanted func(kernels.Problem) bool) {
	all := len(m.Duels)
	m.Duels = slices.DeleteFunc(m.Duels, func(d *DuelResult) bool { return !wanted(d.Problem) })
	if len(m.Duels) < all {
		m.Asked -= all - len(m.Duels)
		m.Decide()
		m.Gate = slices.DeleteFunc(m.Gate, func(g Confirmation) bool { return !wanted(g.Problem) })
	}
}

// Forget drops the cells that are inconclusive, or whose second run was, so that a resume measures them
// again.
func (m *Experiment) Forget() {
	unclear := map[kernels.Problem]bool{}
	for _, j := range m.Judged {
		unclear[j.Problem] = j.Verdict == verdict.Inconclusive
	}
	for _, g := range m.Gate {
		if !g.Confirmed && g.Again.Verdict == verdict.Inconclusive {
			unclear[g.Problem] = true
		}
	}
	m.Duels = slices.DeleteFunc(m.Duels, func(d *DuelResult) bool { return unclear[d.Problem] })
	m.Gate = nil
	m.Decide()
}

// Parse reads the file of an experiment.
func Parse(data []byte) (*Experiment, error) {
	var m Experiment
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	makePrintable(reflect.ValueOf(&m).Elem())
	if len(m.Duels) > 0 && m.Schema > Schema {
		return nil, hint.Errorf("update normbench",
			"schema %d is newer than %d, the newest that this normbench reads", m.Schema, Schema)
	}
	ok := 0
	for i, d := range m.Duels {
		switch {
		case d == nil:
			return nil, fmt.Errorf("duel %d is null", i+1)
		case d.Status != kernels.StatusOK:
			continue
		case len(d.Rounds) == 0:
			return nil, fmt.Errorf("%s has no rounds", d.Problem)
		}
		ok++
	}
	switch {
	case len(m.Duels) == 0 || m.Run.ID == "":
		return nil, fmt.Errorf("it has no run with duels")
	case kernels.CheckID(m.Run.Device.ID) != nil:
		return nil, kernels.CheckID(m.Run.Device.ID)
	case ok != len(m.Judged):
		return nil, fmt.Errorf("%d duels are ok, and %d are judged", ok, len(m.Judged))
	case m.Summary.Cells > 0 && m.Summary.Worst == nil:
		return nil, fmt.Errorf("its summary of %d cells has no worst", m.Summary.Cells)
	}
	for i := range m.Judged {
		if err := checkVerdict(&m.Judged[i]); err != nil {
			return nil, err
		}
	}
	for i := range m.Gate {
		if err := checkVerdict(&m.Gate[i].Again); err != nil {
			return nil, err
		}
	}
	return &m, m.Rule.CheckValid()
}

// maxText is how many bytes a text of an experiment may have: a compiler may have said more.
const maxText = 8 << 10

// makePrintable makes each text in v one line that can be printed: a file comes from anywhere, and a
// line break in one would print lines that look like the table's own.
func makePrintable(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(kernels.MakePrintable(v.String(), maxText))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			makePrintable(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			makePrintable(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			makePrintable(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if text := v.MapIndex(key); text.Kind() == reflect.String && key.Kind() == reflect.String {
				v.SetMapIndex(key, reflect.Value{})
				clean := func(s string) reflect.Value { return reflect.ValueOf(kernels.MakePrintable(s, maxText)) }
				v.SetMapIndex(clean(key.String()), clean(text.String()))
			}
		}
	}
}

// checkVerdict refuses what is no word of a verdict. A second run that failed has none.
func checkVerdict(j *verdict.Judgement) error {
	for _, v := range []verdict.Verdict{j.Verdict, j.Gate} {
		if !slices.Contains([]verdict.Verdict{verdict.Faster, verdict.Slower, verdict.Same,
			verdict.Inconclusive, ""}, v) {
			return fmt.Errorf("%.40q is no verdict", string(v))
		}
	}
	return nil
}

// Resume has an experiment that ended early go on with a fresh one, whose run is added to the list of
// such runs, and returns the pairs that are left. Cells that are ok stay, unless their operand now
// has another variant, as after a new tuned table. Everything else that influences a cell must be
// the same. Another card of the same model will do, because both arms of a cell ran on one card.
func (m *Experiment) Resume(fresh *Experiment, pairs []Pair) (left []Pair, err error) {
	was, now := m.Run, fresh.Run
	for _, x := range []struct {
		what     string
		was, now any
	}{
		{"BASE", m.A, fresh.A}, {"CANDIDATE", m.B, fresh.B}, {"normbench", was.Tool, now.Tool},
		{"set of kernels", m.Kernels, fresh.Kernels}, {"device", was.Device.ID, now.Device.ID},
		{"driver", was.Device.DriverVersion, now.Device.DriverVersion},
		{"compiler", was.Device.Compiler, now.Device.Compiler},
		{"protocol", was.Protocol, now.Protocol}, {"rule", m.Rule, fresh.Rule},
		{"choice of peers", m.Among, fresh.Among}, {"set of peers", peersIn(was.Env), peersIn(now.Env)},
	} {
		if !reflect.DeepEqual(x.was, x.now) {
			return nil, hint.Errorf("ask for what it was measured with, or leave out --resume",
				"another %s", x.what)
		}
	}
	asked := map[kernels.Problem]Pair{}
	for _, p := range pairs {
		asked[p.Problem] = p
	}
	there := map[kernels.Problem]bool{}
	m.Duels = slices.DeleteFunc(m.Duels, func(d *DuelResult) bool {
		p, ok := asked[d.Problem]
		keep := d.Status == kernels.StatusOK && (!ok || p.has(d.Duel))
		there[d.Problem] = keep
		return !keep
	})
	m.Resumed = append(m.Resumed, now)
	m.Gate, m.Policy = nil, fresh.Policy
	m.Decide()
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return there[p.Problem] }), nil
}

// peersIn are the versions of the peers that were there.
func peersIn(env map[string]string) map[string]string {
	there := map[string]string{}
	for k, v := range env {
		if _, ok := kernels.PeerName(k); ok {
			there[k] = v
		}
	}
	return there
}

// add adds duels, in the order of the pairs and after the cells that are of none, and judges all.
func (m *Experiment) add(pairs []Pair, duels ...*DuelResult) {
	m.Duels = append(m.Duels, duels...)
	place := map[kernels.Problem]int{}
	for i, p := range pairs {
		place[p.Problem] = i + 1
	}
	slices.SortStableFunc(m.Duels,
		func(x, y *DuelResult) int { return cmp.Compare(place[x.Problem], place[y.Problem]) })
	m.Decide()
}

// A Pair is a problem with what A and what B have for it. Which of several variants it is, is
// settled when its turn comes.
type Pair struct {
	Problem kernels.Problem
	Of      [2][]kernels.Variant
}

// has says whether a duel is of variants of the pair.
func (p Pair) has(d Duel) bool {
	d.A.Family = strings.TrimPrefix(d.A.Family, families.Baseline)
	return slices.Contains(p.Of[0], d.A) && slices.Contains(p.Of[1], d.B)
}
