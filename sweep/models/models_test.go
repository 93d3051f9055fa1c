package models

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
)

// lines are a step's calls, one to a line.
func lines(s *Step) string {
	var list []string
	for _, c := range s.Calls {
		list = append(list, fmt.Sprintf("%s: %v of %s", c.Norm, c.Count, c.Problem))
	}
	return strings.Join(list, "\n")
}

func forward(tokens, tp, sp int64) StepQuery {
	return StepQuery{Tokens: tokens, TP: tp, SP: sp, Passes: []kernels.Pass{kernels.Fwd}, DType: kernels.BF16,
		Weight: kernels.BF16}
}

// Each of 53 models has norms, and names a file of a public repository.
func TestEachModelHasNormsAndASource(t *testing.T) {
	cited := regexp.MustCompile(`^[A-Za-z-]+/[A-Za-z]+, [a-z0-9_/]+\.py(, \S+)?$`)
	list := Default().Models()
	assert.Equal(t, len(list), 53)
	for _, m := range list {
		layers, hidden, calls := m.Size()
		assert.That(t, layers > 0 && hidden > 0 && calls > layers, "%s: %d layers of %d with %d norms",
			m.Name, layers, hidden, calls)
		assert.That(t, cited.MatchString(m.Source), "%s: figures of %q", m.Name, m.Source)
	}
}

// The widths of models are those of their norms, shares of their hidden sizes and heads: testdata/widths.txt.
func TestWidthsAreOfNormsSharesAndHeads(t *testing.T) {
	assert.Lines(t, "testdata/widths.txt", func(name string) string {
		m, err := Default().Find(name)
		assert.NoError(t, err)
		return strings.Trim(fmt.Sprint(m.Widths()), "[]")
	})
	all, hidden := Default().Widths()
	for _, n := range []int64{128, 360, 2880, 16384} { // a head, a share and two hidden sizes
		assert.That(t, slices.Contains(all, n), "no width %d in %v", n, all)
	}
	assert.That(t, slices.IsSorted(all) && slices.Contains(hidden, 2880) && !slices.Contains(hidden, 360), "%v", hidden)
}

// Ranks have the norms that testdata/parallel.txt derives by hand.
func TestRanksHaveTheirShareOfNorms(t *testing.T) {
	assert.Cases(t, "testdata/parallel.txt", func(input string) string {
		var name string
		a := forward(0, 0, 0)
		_, err := fmt.Sscanf(input, "%s tokens=%d tp=%d sp=%d", &name, &a.Tokens, &a.TP, &a.SP)
		assert.NoError(t, err, input)
		m, err := Default().Find(name)
		assert.NoError(t, err)
		s, err := m.Step(a)
		assert.NoError(t, err)
		back := a
		back.Passes = []kernels.Pass{kernels.Bwd}
		b, err := m.Step(back)
		assert.NoError(t, err)
		assert.Equal(t, strings.ReplaceAll(lines(b), "/bwd/", "/fwd/"), lines(s), name)
		return lines(s)
	})
}

// A config.json gives its norms, or one line that says what it lacks: testdata/configs.txt.
func TestConfigGivesItsNormsOrSaysWhatItLacks(t *testing.T) {
	assert.Cases(t, "testdata/configs.txt", func(input string) string {
		m, err := Default().readConfig("config.json", []byte(input))
		var s *Step
		if err == nil {
			s, err = m.Step(forward(8, 1, 1))
		}
		if err != nil {
			return fmt.Sprintf("%v\nhint: %s", err, hint.Of(err))
		}
		return lines(s)
	})
}

// Of norms that each head has for itself a rank runs those of its heads.
func TestRankRunsTheNormsOfItsHeads(t *testing.T) {
	m, err := Default().readConfig("config.json", []byte(`{"model_type": "stablelm", "hidden_size": 64,
		"num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2, "qk_layernorm": true}`))
	assert.NoError(t, err)
	for ranks, want := range map[int64]string{
		1: "q of one head: 24 of layernorm/fwd/16x8/bf16\nk of one head: 6 of layernorm/fwd/16x8/bf16",
		4: "q of one head: 6 of layernorm/fwd/16x8/bf16\nk of one head: 3 of layernorm/fwd/16x8/bf16",
	} {
		s, err := m.Step(forward(16, ranks, ranks))
		assert.NoError(t, err)
		assert.That(t, strings.Contains(lines(s), want), "tp %d: %s", ranks, lines(s))
	}
}

// A step names the parts of a config whose norms are not among its calls.
func TestStepNamesWhatIsLeftOut(t *testing.T) {
	const text = `"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4`
	for config, want := range map[string]string{
		`{` + text + `, "num_nextn_predict_layers": 0}`:                          "",
		`{"vision_config": {"hidden_size": 32}, "text_config": {` + text + `}}`:  "vision_config",
		`{` + text + `, "num_nextn_predict_layers": 1, "audio_config": {"a":1}}`: "audio_config num_nextn_predict_layers",
	} {
		m, err := Default().readConfig("config.json", []byte(config))
		assert.NoError(t, err)
		s, err := m.Step(forward(8, 1, 1))
		assert.NoError(t, err)
		assert.Equal(t, strings.Join(s.LeftOut, " "), want, config)
	}
}

// A folder stands for its config.json, whose model is named after the folder.
func TestFolderStandsForItsConfig(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	assert.Write(t, filepath.Join(dir, "config.json"),
		`{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}`)
	for _, arg := range []string{dir, filepath.Join(dir, "config.json")} {
		m, err := Default().Find(arg)
		assert.NoError(t, err)
		assert.Equal(t, m.Name, "mine")
	}
	_, err := Default().Find("qwen3-8")
	assert.Refused(t, err, `unknown model "qwen3-8"`)
	assert.That(t, strings.Contains(hint.Of(err), "did you mean qwen3-8b?"), "%s", hint.Of(err))
	_, err = Default().Find(filepath.Join(dir, "nosuch.json"))
	assert.Refused(t, err, "no such file")
	assert.NoError(t, os.Remove(filepath.Join(dir, "config.json")))
	_, err = Default().Find(dir)
	assert.Refused(t, err, "no such file")
}

// --residual fuses the sums in front of norms: that of the first layer has none, nor have norms behind
// attention and MLP.
func TestResidualFusesTheSumsInFront(t *testing.T) {
	of := func(name string) (string, error) {
		m, err := Default().Find(name)
		assert.NoError(t, err)
		a := forward(4, 1, 1)
		a.Residual = true
		s, err := m.Step(a)
		if err != nil {
			return "", err
		}
		return lines(s), nil
	}
	got, err := of("llama3-8b")
	assert.NoError(t, err)
	assert.Equal(t, got, "before attention: 1 of rmsnorm/fwd/4x4096/bf16\n"+
		"before attention: 31 of rmsnorm/fwd/4x4096/bf16+residual\n"+
		"before MLP: 32 of rmsnorm/fwd/4x4096/bf16+residual\n"+
		"final: 1 of rmsnorm/fwd/4x4096/bf16+residual")
	got, err = of("gemma2-9b")
	assert.NoError(t, err)
	assert.Equal(t, strings.Count(got, "+residual"), 3)
	_, err = of("bert-base")
	assert.Refused(t, err, "no norm of bert-base stands right behind a sum")
}

// Ranks that cannot share a model are refused.
func TestRanksThatCannotShareAreRefused(t *testing.T) {
	for _, c := range []struct {
		model          string
		tokens, tp, sp int64
		says           string
	}{
		{"llama3-8b", 8192, 3, 1, "--tp 3 does not divide the 32 heads of llama3-8b"},
		{"qwen3-32b", 8192, 16, 1, ""},
		{"qwen3-8b", 8192, 4, 2, "--sp 2 is no multiple of --tp 4"},
		{"qwen3-8b", 8190, 1, 4, "--sp 4 does not divide 8190 tokens"},
		{"phi-4", 8192, 4, 1, ""},
	} {
		m, err := Default().Find(c.model)
		assert.NoError(t, err)
		if _, err = m.Step(forward(c.tokens, c.tp, c.sp)); c.says == "" {
			assert.NoError(t, err, c.model)
		} else {
			assert.Refused(t, err, c.says)
		}
	}
}

// A mistake in the file is told with its place.
func TestMistakeInModelsHasItsPlace(t *testing.T) {
	const good = "architectures:\n  a: {types: [t], norms: [{norm: n, op: rmsnorm, columns: hidden}]}\n" +
		"models:\n  m: {source: s, config: {model_type: t, hidden_size: 8, num_attention_heads: 1}}\n"
	_, err := parse("f.yaml", []byte(good))
	assert.NoError(t, err)
	for _, c := range [][3]string{
		{"op: rmsnorm", "op: groupnorm", `f.yaml:2:41: architectures.a.norms[0].op: unknown op "groupnorm"`},
		{"columns: hidden", "columns: hidden^2", `malformed "hidden^2"`},
		{"columns: hidden", "columns: width", "s has no width"},
		{"columns: hidden", "columns: hidden, options: [fp8]", `unknown option "fp8"`},
		{"model_type: t", "model_type: u", `m: architecture "u" is not known`},
		{"hidden_size: 8", "hidden_size: wide", "is a text, not a whole number"},
		{"source: s, ", "", "models.m.source: is missing"},
	} {
		_, err := parse("f.yaml", []byte(strings.Replace(good, c[0], c[1], 1)))
		assert.Error(t, err, c[2])
	}
}
