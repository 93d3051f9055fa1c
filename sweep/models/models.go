package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"normbench"
	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/internal/yamldoc"
	"normbench/kernels"
)

// A Model has the figures of a model's config and its architecture, from which Step computes its norms.
type Model struct {
	Name   string
	Source string // the public file of the figures, or the config that was read
	kind   string // its model_type
	arch   *architecture
	config map[string]int64
	lists  map[string][]string // lists of the config, whose entries figures count
	parts  []string            // keys of what a config has and its architecture's norms have not
}

// An architecture lists the norms that its models have, as expressions of their figures.
type architecture struct {
	name    string
	types   []string          // values of model_type
	figures map[string][]expr // figures that it names in another way than most
	norms   []norm
}

// A norm is an entry of an architecture's norms; the head of models.yaml describes its fields.
type norm struct {
	name                       string
	op, in                     string
	options, when              []string
	pass                       kernels.Pass // the only one that runs, or "" for both
	columns, rows, calls, sums expr
}

const (
	// Where a norm stands decides its rows on a rank; see rowsOnRank.
	inStream    = "stream"
	inHeads     = "heads"
	inHead      = "head"
	inAttention = "attention"
)

// figures says how to compute a figure from a config, unless the architecture says it.
var figures = map[string][]expr{
	"hidden": {"hidden_size"}, "layers": {"num_hidden_layers"}, "heads": {"num_attention_heads"},
	"kv_heads": {"num_key_value_heads", "heads"}, "head_dim": {"head_dim", "hidden/heads"},
}

// A Catalog is models.yaml, read and checked.
type Catalog struct {
	models        []*Model
	architectures []*architecture
}

// Default returns the models.yaml that is embedded in the program.
func Default() *Catalog { return builtin() }

var builtin = sync.OnceValue(func() *Catalog {
	f, err := parse("models.yaml", []byte(normbench.ModelsYAML))
	if err != nil {
		panic(err) // the file is part of the program; TestEachModelHasNormsAndASource reads it
	}
	return f
})

// Models lists the models of the file, in its order.
func (f *Catalog) Models() []*Model { return slices.Clone(f.models) }

// Architecture returns the name of m's architecture.
func (m *Model) Architecture() string { return m.arch.name }

// uncounted are keys of a config that stand for modules beside the layers, whose norms no architecture has.
var uncounted = []string{"vision_config", "audio_config", "num_nextn_predict_layers", "mtp_num_hidden_layers",
	"num_mtp_modules"}

const fileHelp = "models.yaml says at its head what stands in it"

// parse reads and checks the text of models.yaml; name is the file's in errors.
func parse(name string, data []byte) (*Catalog, error) {
	body, err := yamldoc.Document(name, data, fileHelp)
	if err != nil {
		return nil, err
	}
	var file struct{ Architectures, Models yamldoc.Value }
	if err := body.Decode(&file); err != nil {
		return nil, err
	}
	f := &Catalog{}
	entries, err := file.Architectures.Entries(fileHelp)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		a := &architecture{name: e.Key.Text}
		if err := a.read(e.Value); err != nil {
			return nil, err
		}
		f.architectures = append(f.architectures, a)
	}
	if entries, err = file.Models.Entries(fileHelp); err != nil {
		return nil, err
	}
	for _, e := range entries {
		m, err := f.model(e)
		if err != nil {
			return nil, err
		}
		f.models = append(f.models, m)
	}
	return f, nil
}

// read reads an architecture from its YAML.
func (a *architecture) read(v yamldoc.Value) error {
	var of struct {
		Types   []string
		Figures yamldoc.Value `yaml:"optional"`
		Norms   []struct {
			Norm              yamldoc.Word
			Op                string         `of:"rmsnorm,layernorm,l2norm,rmsnormgated"`
			Options           []yamldoc.Word `yaml:"optional"`
			Columns           yamldoc.Value
			Rows, Calls, Sums yamldoc.Value `yaml:"optional"`
			In                string        `yaml:"optional" of:"stream,heads,head,attention"`
			Pass              string        `yaml:"optional" of:"fwd,bwd"`
			If                []string      `yaml:"optional"`
		}
	}
	if err := v.Decode(&of); err != nil {
		return err
	}
	a.types, a.figures = of.Types, map[string][]expr{}
	if of.Figures.Exists() {
		entries, err := of.Figures.Entries(fileHelp)
		if err != nil {
			return err
		}
		for _, e := range entries {
			items, err := e.Value.Items(fileHelp, false)
			if err != nil {
				return err
			}
			for _, item := range items {
				x, err := readExpr(item, "")
				if err != nil {
					return err
				}
				a.figures[e.Key.Text] = append(a.figures[e.Key.Text], x)
			}
		}
	}
	for _, of := range of.Norms {
		n := norm{name: of.Norm.Text, op: of.Op, in: cmp.Or(of.In, inStream), pass: kernels.Pass(of.Pass), when: of.If}
		for _, o := range of.Options {
			if !slices.Contains([]string{"bias", "zc", "noweight", "gatefirst"}, o.Text) {
				return o.Errorf("use bias, zc, noweight or gatefirst", "unknown option %q", o.Text)
			}
			n.options = append(n.options, o.Text)
		}
		for _, f := range []struct {
			to        *expr
			of        yamldoc.Value
			otherwise expr
		}{{&n.columns, of.Columns, ""}, {&n.rows, of.Rows, "1"}, {&n.calls, of.Calls, "1"},
			{&n.sums, of.Sums, "0"}} {
			var err error
			if *f.to, err = readExpr(f.of, f.otherwise); err != nil {
				return err
			}
		}
		a.norms = append(a.norms, n)
	}
	return nil
}

// model reads an entry of the models, and computes a step of it to check the entry.
func (f *Catalog) model(e yamldoc.Field) (*Model, error) {
	var of struct {
		Source yamldoc.Word
		Config yamldoc.Value
	}
	if err := e.Value.Decode(&of); err != nil {
		return nil, err
	}
	entries, err := of.Config.Entries(fileHelp)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: e.Key.Text, Source: of.Source.Text, config: map[string]int64{}}
	for _, c := range entries {
		switch text, err := c.Value.Scalar(fileHelp, "a figure"); {
		case err != nil:
			return nil, err
		case c.Key.Text == "model_type":
			m.kind = text
			if m.arch, err = f.architecture(text, m.Name); err != nil {
				return nil, c.Key.Errorf(hint.Of(err), "%v", err)
			}
		case c.Value.TypeName() == yamldoc.Truth:
			m.config[c.Key.Text] = truth(text == "true")
		default:
			n, err := c.Value.Int(fileHelp, 0, math.MaxInt32)
			if err != nil {
				return nil, err
			}
			m.config[c.Key.Text] = int64(n)
		}
	}
	if m.arch == nil {
		return nil, of.Config.Errorf(fileHelp, "has no model_type")
	}
	_, err = m.Step(StepQuery{Tokens: 1, TP: 1, SP: 1, Passes: []kernels.Pass{kernels.Fwd}})
	return m, err
}

// truth converts a truth value of a config to a number, as expressions know only numbers.
func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// architecture finds the architecture that lists a model_type. The error says of which model or file.
func (f *Catalog) architecture(kind, of string) (*architecture, error) {
	var types []string
	for _, a := range f.architectures {
		if slices.Contains(a.types, kind) {
			return a, nil
		}
		types = append(types, a.types...)
	}
	return nil, hint.Errorf("run it under `normbench capture`, or write its norms to a file for --shapes: step: "+
		"{problems: [{problem: rmsnorm/fwd/8192x4096/bf16, calls: 65}]}; known are "+strings.Join(types, ", "),
		"%s: architecture %q is not known", of, kind)
}

const findHelp = "name a model of `normbench list models`, a config.json, or a folder that has one"

// Find looks up a model by its name in models.yaml, or reads a config.json or a folder with one.
func (f *Catalog) Find(arg string) (*Model, error) {
	var names []string
	for _, m := range f.models {
		if m.Name == arg {
			return m, nil
		}
		names = append(names, m.Name)
	}
	info, err := os.Stat(arg)
	switch {
	case err != nil && (textfile.Ext(arg) == ".json" || strings.ContainsRune(arg, filepath.Separator)):
		return nil, hint.Errorf(findHelp, "model %s: %w", arg, durable.Cause(err))
	case err != nil:
		return nil, hint.Errorf(hint.DidYouMean(arg, names, findHelp), "unknown model %q", arg)
	case info.IsDir():
		arg = filepath.Join(arg, "config.json")
	}
	text, err := textfile.ReadAny(arg, textfile.Small)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), findHelp), "model %s: %w", arg, durable.Cause(err))
	}
	return f.readConfig(arg, text)
}

// readConfig reads a config.json and checks that its main figures are there. Of a model for text and
// pictures it takes the text's figures.
func (f *Catalog) readConfig(name string, text []byte) (*Model, error) {
	var top map[string]any
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, hint.Errorf(findHelp, "%s is no config of a model: %w", name, err)
	}
	if nested, ok := top["text_config"].(map[string]any); ok {
		for k, v := range nested {
			top[k] = v
		}
	}
	kind, _ := top["model_type"].(string)
	if class, ok := top["_class_name"].(string); ok && kind == "" {
		return nil, hint.Errorf("run it under `normbench capture`", "%s is a config of diffusers (%s), which are not known",
			name, class)
	}
	if kind == "" {
		return nil, hint.Errorf("add \"model_type\": \"llama\", or what it is", "%s has no model_type", name)
	}
	m := &Model{Name: modelName(name), Source: name, kind: kind, config: map[string]int64{}}
	var err error
	if m.arch, err = f.architecture(kind, name); err != nil {
		return nil, err
	}
	if err := m.readFigures(top); err != nil {
		return nil, err
	}
	for _, key := range uncounted {
		if _, nested := top[key].(map[string]any); nested || m.config[key] > 0 {
			m.parts = append(m.parts, key)
		}
	}
	for _, figure := range []string{"hidden", "layers", "heads"} {
		if n, err := m.figure(figure); err != nil {
			return nil, err
		} else if n < 1 || n > math.MaxInt32 {
			return nil, hint.Errorf("see what the model's own config.json says", "%s: %s is %d", name,
				m.configKey(figure), n)
		}
	}
	return m, nil
}

// readFigures takes the numbers, truth values and lists of a config. What else it has is no figure.
func (m *Model) readFigures(top map[string]any) error {
	m.lists = map[string][]string{}
	for k, v := range top {
		switch v := v.(type) {
		case bool:
			m.config[k] = truth(v)
		case float64:
			if v == math.Trunc(v) && math.Abs(v) <= math.MaxInt32 {
				m.config[k] = int64(v)
			}
		case []any:
			for _, entry := range v { // an empty list says as little as none
				m.lists[k] = append(m.lists[k], strings.ToLower(fmt.Sprint(entry)))
			}
		case string:
			if strings.HasSuffix(k, "_pattern") { // such as "M-M*": a letter for each layer
				m.lists[k] = strings.Split(strings.ToLower(v), "")
			}
		case map[string]any:
			if k != "per_layer_config" {
				continue
			}
			if err := m.readOverrides(v); err != nil {
				return err
			}
		}
	}
	if kinds := m.lists["layer_types"]; len(kinds) > 0 {
		m.lists["own_kv_layer_types"] = kinds[:max(0, len(kinds)-int(m.config["num_kv_shared_layers"]))]
	}
	return nil
}

// readOverrides takes the figures that some layers have in place of the config's, as per_layer_ and the key. They have
// to be the same in all these layers.
func (m *Model) readOverrides(layers map[string]any) error {
	for _, layer := range layers {
		values, _ := layer.(map[string]any)
		for k, v := range values {
			n, _ := v.(float64)
			k = "per_layer_" + k
			if old, ok := m.config[k]; ok && old != int64(n) {
				return hint.Errorf("run it under `normbench capture`", "%s: per_layer_config has layers of %d and of %d as %s",
					m.Source, min(old, int64(n)), max(old, int64(n)), strings.TrimPrefix(k, "per_layer_"))
			}
			m.config[k] = int64(n)
		}
	}
	return nil
}

// count counts the entries of a list that name says, as models.yaml's head has it: LIST_ENTRY, or LIST_length for all.
func (m *Model) count(name string) (n int64, ok bool) {
	for key, list := range m.lists {
		entry, found := strings.CutPrefix(name, key+"_")
		if !found {
			continue
		}
		for _, e := range list {
			if e == entry || entry == "length" {
				n++
			}
		}
		return n, true
	}
	return 0, false
}

// modelName makes a short name of a config's path: the folder of a config.json, else the file's name.
func modelName(file string) string {
	if abs, err := filepath.Abs(file); err == nil && filepath.Base(file) == "config.json" {
		return filepath.Base(filepath.Dir(abs))
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// expressionsOf lists the expressions that may give a figure, none where the figure is a key of the
// config.
func (m *Model) expressionsOf(name string) []expr {
	if list, ok := m.arch.figures[name]; ok {
		return list
	}
	return figures[name]
}

// configKey finds the key of the config that a figure is read from, for messages.
func (m *Model) configKey(name string) string {
	if list := m.expressionsOf(name); len(list) > 0 && string(list[0]) != name {
		return m.configKey(string(list[0]))
	}
	return name
}

// errMissing marks the error of a config that lacks a figure.
var errMissing = errors.New("missing")

// figure computes a figure of m: by the first of its expressions whose keys the config has.
func (m *Model) figure(name string) (int64, error) {
	for _, x := range m.expressionsOf(name) {
		if string(x) == name {
			if n, ok := m.config[name]; ok {
				return n, nil
			}
			continue
		}
		if n, err := m.value(x); !errors.Is(err, errMissing) {
			return n, err
		}
	}
	if len(m.expressionsOf(name)) == 0 {
		if n, ok := m.config[name]; ok {
			return n, nil
		}
		if n, ok := m.count(name); ok {
			return n, nil
		}
	}
	key := m.configKey(name)
	return 0, hint.Errorf("add \""+key+"\": and its number", "%w", &missingError{m.Source, key})
}

// A missingError is errMissing with the name of the missing key.
type missingError struct{ file, key string }

func (e *missingError) Error() string        { return e.file + " has no " + e.key }
func (e *missingError) Is(target error) bool { return target == errMissing }

// An expr is a sum of products of numbers and figures: "layers-1", "heads*head_dim".
type expr string

// readExpr reads and checks an expr; it returns otherwise where the value is not there.
func readExpr(v yamldoc.Value, otherwise expr) (expr, error) {
	if !v.Exists() {
		return otherwise, nil
	}
	text, err := v.Scalar(fileHelp, "a sum or product of figures")
	if err != nil {
		return "", err
	}
	for _, word := range strings.FieldsFunc(text, isOperator) {
		if strings.ContainsFunc(word, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
		}) {
			return "", v.Errorf("write names and numbers with +, -, * and / between", "malformed %q", text)
		}
	}
	return expr(text), nil
}

// isOperator says whether r is an operator of an expr.
func isOperator(r rune) bool { return strings.ContainsRune("+-*/", r) }

// value computes an expr with m's figures. A quotient must be a whole number.
func (m *Model) value(x expr) (int64, error) {
	sum, sign := int64(0), int64(1)
	for rest := string(x); ; {
		end := strings.IndexAny(rest, "+-")
		term := rest
		if end >= 0 {
			term = rest[:end]
		}
		n, err := m.product(term)
		if err != nil {
			return 0, err
		}
		if sum += sign * n; end < 0 {
			return sum, nil
		}
		if sign = 1; rest[end] == '-' {
			sign = -1
		}
		rest = rest[end+1:]
	}
}

// product computes one term of an expr, which has no sums.
func (m *Model) product(term string) (int64, error) {
	total, divide := int64(1), false
	for rest := term; ; {
		end := strings.IndexAny(rest, "*/")
		word := rest
		if end >= 0 {
			word = rest[:end]
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			if n, err = m.figure(word); err != nil {
				return 0, err
			}
		}
		switch {
		case !divide:
			total *= n
		case n == 0 || total%n != 0:
			return 0, hint.Errorf("see what the model's own config.json says", "%s: %s is no whole number",
				m.Source, term)
		default:
			total /= n
		}
		if end < 0 {
			return total, nil
		}
		divide, rest = rest[end] == '/', rest[end+1:]
	}
}
