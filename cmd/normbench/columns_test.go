package main

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/kernels/devices/cpu"
)

// In every command csv's header, json's keys and what --columns takes are the same names, for text too, and
// json is one object that says of which schema, tool and device it is.
func TestAColumnHasOneNameInEveryFormat(t *testing.T) {
	t.Chdir("../..")
	t.Setenv(cpu.CacheVariable, smallCache)
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for _, c := range []struct {
		args, device string
		columns      string // some of the names, not all of which people see
	}{
		{"list families", "", "family,pass"},
		{"list presets", "", "preset,rule"},
		{"list knobs", "", "key,on_cpu"},
		{"list shapes --shapes te", "", "group,m,n"},
		{"list models", "", "model,norms_in_forward"},
		{"list models --model llama3-8b", "", "norm,calls,bytes"},
		{"list devices", "", "device,cache_bytes"},
		{"list configs --family rms_bwd/reg_persist --problem rmsnorm/bwd/4096x8192/bf16 --device h200",
			"nvidia-h200", "runs,config"},
		{"map show tuned:results/nvidia-h200/tuned.json --widths 4096 --op rmsnorm --pass bwd --dtype bf16",
			"nvidia-h200", "m_from,m_to,config"},
		{"map fill results/nvidia-h200/learn", "nvidia-h200", "class,align_bytes,regret_percent"},
		{"explain rmsnorm/bwd/4096x8192/bf16", "nvidia-h200", "problem,match,scratch"},
		{"report results/nvidia-h200 --op rmsnorm --pass bwd --shapes quack", "nvidia-h200",
			"problem,b_us,b_variant,verdict"},
		{"report results/nvidia-h200/peers/rmsnorm-bwd.json.gz", "nvidia-h200", "problem,b_us,b_gbps,verdict,peer"},
		{"compare results/nvidia-h200#base results/nvidia-h100-80gb-hbm3#base --op rmsnorm --pass bwd",
			"nvidia-h100-80gb-hbm3,nvidia-h200", "problem,b_us,verdict"},
		{"verify base --host-only --shapes 3x33 --op rmsnorm --pass fwd", "cpu", "problem,bytes,verdict"},
		{"bench base --shapes 8x64 --op rmsnorm --pass fwd --samples 1 --warm", "cpu", "problem,us,gbps"},
	} {
		if !assert.All && strings.HasPrefix(c.args, "map fill") {
			continue // it takes seconds
		}
		words := strings.Fields(c.args)
		get := func(more ...string) string {
			code, out, err := normbench(slices.Concat(words, more))
			assert.Must(t, code == 0, "%s %s: %d, %s", c.args, more, code, err)
			return out
		}
		rows, err := csv.NewReader(strings.NewReader(get("--format", "csv"))).ReadAll()
		assert.Must(t, err == nil && len(rows) > 1, "%s: %v, %d rows", c.args, err, len(rows))
		for _, name := range rows[0] {
			assert.That(t, snake.MatchString(name), "%s: column %q", c.args, name)
		}
		var got struct {
			Schema int
			Tool   string
			Device *string
			Rows   []map[string]any
		}
		assert.NoError(t, json.Unmarshal([]byte(get("--format", "json")), &got), c.args)
		assert.Must(t, got.Schema == 1 && strings.HasPrefix(got.Tool, "normbench") && len(got.Rows) == len(rows)-1,
			"%s: schema %d, tool %q, %d rows", c.args, got.Schema, got.Tool, len(got.Rows))
		device := ""
		if got.Device != nil {
			device = *got.Device
		}
		assert.That(t, strings.HasPrefix(device, c.device) && (device == "") == (c.device == ""), "%s: device %q",
			c.args, device)
		header := slices.Compact(slices.Sorted(slices.Values(rows[0])))
		assert.Same(t, slices.Sorted(maps.Keys(got.Rows[0])), header, c.args)
		want := strings.Split(c.columns, ",")
		rows, err = csv.NewReader(strings.NewReader(get("--columns", c.columns, "--format", "csv"))).ReadAll()
		assert.Must(t, err == nil && slices.Equal(rows[0], want), "%s: %v, %q", c.args, err, rows[0])
		table := get("--columns", c.columns, "--format", "markdown")
		lines := regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(table, -1)
		assert.That(t, strings.Contains(table, rows[1][0]) && slices.ContainsFunc(lines, func(line string) bool {
			return strings.Count(line, "|") == len(want)+1
		}), "%s: no table with %q in %s", c.args, rows[1][0], table)
		get("--columns", c.columns) // text
	}
	code, _, errs := normbench(strings.Fields("list devices --columns nope"))
	assert.That(t, code == exitTrouble && strings.Contains(errs,
		"the columns are device, name, arch, sms, cache_bytes, "), "%s", errs)
}

// The columns that docs/formats.md explains are those that csv has, of recorded and of live comparisons, but for B's,
// which are as A's.
func TestPageOfFormatsExplainsEachColumn(t *testing.T) {
	t.Chdir("../..")
	have := map[string]bool{}
	for _, args := range []string{"report results/nvidia-h200 --shapes 8192x4096",
		"report results/nvidia-h200/peers/rmsnorm-bwd.json.gz --shapes 8192x4096"} {
		code, out, err := normbench(append(strings.Fields(args), "--format", "csv"))
		assert.Must(t, code == 0, "%s: %d, %s", args, code, err)
		head, _, _ := strings.Cut(out, "\n")
		for _, name := range strings.Split(head, ",") {
			have[name] = true
		}
	}
	_, page, _ := strings.Cut(string(assert.File(t, "docs/formats.md")), "\n| column | meaning |\n")
	page, _, _ = strings.Cut(page, "\n\n")
	explained := map[string]bool{}
	for line := range strings.Lines(page) {
		for _, name := range quoted.FindAllString(strings.Split(line, "|")[1], -1) {
			name = strings.Trim(name, "`")
			explained[name] = true
			assert.That(t, have[name] || name == "again_*", "there is no column %s", name)
		}
	}
	for name := range have {
		a := name
		if rest, is := strings.CutPrefix(name, "b"); is && (rest == "" || rest[0] == '_') {
			a = "a" + rest
		}
		assert.That(t, explained[a] || strings.HasPrefix(name, "again_"), "docs/formats.md does not explain %s", name)
	}
}
