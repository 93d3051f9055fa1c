package manifest_test

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"normbench/internal/assert"
	"normbench/internal/hint"
	"normbench/kernels"
	"normbench/kernels/devices/devicetest"
	"normbench/kernels/families"
	. "normbench/kernels/families/manifest" // outside of it, as families import it
)

// good is a backward with one of everything.
//
//go:embed testdata/mine.yaml
var good string

//go:embed testdata/mine.cu
var goodSource string

// folder writes files, given as name and text by turns.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		assert.Write(t, filepath.Join(dir, files[i]), files[i+1])
	}
	return dir
}

// What a manifest makes of a problem, with the changes to it below, or why it does not serve it:
// testdata/plans.txt.
func TestAManifestPlansOrSaysWhyNot(t *testing.T) {
	d := devicetest.H200()
	assert.Cases(t, "testdata/plans.txt", func(input string) string {
		lines := strings.Split(input, "\n")
		dir := folder(t, "mine.yaml", assert.Edited(t, good, lines[1:]), "mine.cu", goodSource)
		_, fs, err := Load(families.New(), dir)
		assert.NoError(t, err, hint.Of(err))
		f, p := fs[0], devicetest.Problem(t, lines[0])
		if err := f.CheckServes(p); err != nil {
			return err.Error()
		}
		c := f.Base(p, d)
		assert.That(t, f.Refuse(p, c, d) != nil || f.Space(p, d).Configs[0] == c,
			"%s: %s is not the first of the space", input, c)
		return fmt.Sprintf("%s, %s, from %s, %s: %s\n%s fragile=%t\n%s", f.Name, f.Doc,
			strings.TrimPrefix(f.Origin, dir+"/"), f.Bits, strings.Join(f.Files, " "), c,
			f.Fragile != nil && f.Fragile(c), f.Plan(p, c, d))
	})
}

// Rules and the device refuse with a reason; a number out of its range is a
// Fault, which says where it comes from.
func TestRulesAndDeviceRefuseWithAReason(t *testing.T) {
	assert.Cases(t, "testdata/refuse.txt", func(input string) string {
		lines := strings.Split(input, "\n")
		var problem, config string
		d := devicetest.H200()
		fmt.Sscan(lines[0], &problem, &config, &d.Arch)
		dir := folder(t, "mine.yaml", assert.Edited(t, good, lines[1:]), "mine.cu", goodSource)
		_, fs, err := Load(families.New(), dir)
		assert.NoError(t, err)
		p, f := devicetest.Problem(t, problem), fs[0]
		err = f.Refuse(p, f.Base(p, d).With(devicetest.Config(t, config).Settings()...), d)
		switch err.(type) {
		case nil:
			return "ok"
		case *Fault:
			return "fault: " + strings.TrimPrefix(err.Error(), dir+"/")
		}
		return err.Error()
	})
}

// Whatever is wrong with a manifest is one line with file, line, column and
// field, and a hint.
func TestMistakesInAManifestHaveTheirPlace(t *testing.T) {
	load := func(text string) string {
		dir := folder(t, "mine.yaml", text, "mine.cu", goodSource)
		_, _, err := Load(families.New(), dir)
		return strings.ReplaceAll(assert.Refusal(t, err), dir+string(filepath.Separator), "")
	}
	assert.Cases(t, "testdata/errors.txt", func(input string) string {
		return load(assert.Edited(t, good, strings.Split(input, "\n")))
	})
	// more than 40000 configs, more than 2000 to try, and expressions, nesting and texts without end
	for _, test := range []struct{ old, new, want string }{
		{"v: [0, 8]", "v: [" + numbers(200) + "]\n  cr: [" + numbers(200) + "]",
			"mine.yaml:10:3: knobs.cr: the knobs make more than 40000 configs"},
		{"v: [0, 8]", "v: [0, 8]\n  cr: [" + numbers(60) + "]\n  cl: [" + numbers(60) + "]",
			"base.cl: is missing, and there are more than 2000 configs to try"},
		{"  v: 0\n  k: max(2, 2048 / (w * 32) / 8)\n", "  v: [" + numbers(60) + "]\n  k: [" +
			numbers(60) + "]\n", "base.k: more than 2000 configs to try"},
		{`"N > 1024 ? 8 : 4"`, `"` + strings.Repeat("1+", 600) + `1"`,
			"mine.yaml:12:6: base.w: an expression of 1201 bytes, more than 1000"},
		// what is no YAML package yamldoc tests
		{good, "just text", "mine.yaml:1:1: the file: is a text, not a mapping"},
	} {
		got := load(strings.Replace(good, test.old, test.new, 1))
		assert.That(t, strings.Contains(got, test.want), "%.60q: %s, want %s", test.new, got, test.want)
	}
}

// numbers is 0, 1, ... n-1 with commas.
func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return strings.Join(list, ", ")
}

// What cmd/normbench/testdata/script/kernels_dir.txtar does not show of folders.
func TestSourcesThatCannotBeFollowedAreRefused(t *testing.T) {
	for _, test := range []struct{ source, header, want string }{
		{`#include "gone.cuh"`, "", `a.yaml:31:13: launches[1].source: mine.cu includes "gone.cuh", which is nowhere`},
		{"\xef\xbb\xbf#include \"gone.cuh\"", "", `mine.cu includes "gone.cuh", which is nowhere`},
		{"\xef\xbb\xbf#include \"a.cuh\"", "\xef\xbb\xbf#include \"gone.cuh\"\n",
			`mine.cu includes "gone.cuh", which is nowhere`},
		{"#include HEADER", "", "mine.cu includes #include HEADER, which names no file to follow"},
		{strings.Repeat("//\n", 1<<20/3), "", "mine.cu has 1.0 MiB, more than 1.0 MiB"},
	} {
		_, _, err := Load(families.New(), folder(t, "a.yaml", good, "mine.cu", test.source+"\n"+goodSource,
			"a.cuh", test.header))
		assert.Refused(t, err, test.want)
	}
	_, _, err := Load(families.New(), filepath.Join(folder(t, "mine.yaml", good), "mine.yaml"))
	assert.Refused(t, err, "mine.yaml is no folder")
	r, fs, err := Load(families.New(), folder(t, "a.yaml", good, "b.yaml",
		strings.Replace(good, "mine/bwd", "mine/bwd2", 1), "mine.cu", goodSource, "notes.txt", "no"))
	assert.Must(t, err == nil && len(fs) == 2 && fs[0].Name == "mine/bwd", "two manifests: %v, %v", fs, err)
	f, err := r.Lookup("mine/bwd2")
	assert.That(t, err == nil && f == fs[1], "the registry has %v, %v", f, err)
}

// sourceHash is the identity of a folder's first family.
func sourceHash(t *testing.T, dir string) string {
	t.Helper()
	r, fs, err := Load(families.New(), dir)
	assert.NoError(t, err)
	h, err := families.NewIdentity(r, kernels.KindCUDA).Source(fs[0])
	assert.NoError(t, err)
	return h
}

// A user's source includes normbench's header unless the folder has one of that
// name; a change of their code changes the hash.
func TestChangedSourceChangesTheHash(t *testing.T) {
	const hidden = "/*\n*/ #inc\\\nlude \"a.h\"\n" // from who looks for lines
	hash := func(source string, files ...string) string {
		return sourceHash(t, folder(t, append(files, "mine.yaml", good, "mine.cu", source)...))
	}
	seen := map[string]bool{}
	for _, files := range [][]string{
		{goodSource},
		{goodSource + "int more;\n"},
		{goodSource, "common.cuh", "int mine;"},
		{`#include "a.h"` + "\n" + goodSource, "a.h", `#include "b.h"`, "b.h", "int b;"},
		{hidden + goodSource, "a.h", "extern \"C\" __global__ void c() {}"},
		{hidden + goodSource, "a.h", "extern \"C\" __global__ void d() {}"},
		{`#  include	"a.h" // blanks` + "\n" + goodSource, "a.h", "int a;"},
	} {
		h := hash(files[0], files[1:]...)
		assert.That(t, !seen[h], "%.40q has the hash of other files", files)
		seen[h] = true
		assert.Equal(t, hash(files[0], files[1:]...), h, "the folder's name changes the hash")
	}
	plain := sourceHash(t, folder(t, "mine.yaml", good+"#\n", "mine.cu", goodSource+"// a comment\n"))
	assert.Equal(t, hash(goodSource), plain, "comments change the hash")
	r, _, err := Load(families.New(), folder(t, "mine.yaml", good, "mine.cu", goodSource))
	assert.NoError(t, err)
	ours, err1 := families.File("common.cuh")
	theirs, err2 := r.File(Prefix + "common.cuh")
	assert.That(t, err1 == nil && err2 == nil && ours == theirs, "common.cuh: %v, %v", err1, err2)
}

// What a source includes of the user's include folders is part of its hash.
func TestHashHasWhatASourceIncludes(t *testing.T) {
	headers := t.TempDir()
	t.Setenv("NORMBENCH_INCLUDE", filepath.Join(t.TempDir(), "none")+string(filepath.ListSeparator)+
		headers)
	dir := folder(t, "mine.yaml", good, "mine.cu", "#include \"near.h\"\n"+goodSource, "near.h",
		"#include <sub/far.h>\n#include <nowhere.h>\n")
	seen := map[string]bool{}
	for _, text := range []string{"int a;", "int b;", "int a;"} {
		for name, text := range map[string]string{"far.h": "#include \"deep.h\"", "deep.h": text} {
			assert.Write(t, filepath.Join(headers, "sub", name), text)
		}
		seen[sourceHash(t, dir)] = true
	}
	assert.Equal(t, len(seen), 2, "hashes of two texts")
}

// Folders that a Loader is given are searched as those of the environment, and before them.
func TestFoldersOfALoaderComeFirst(t *testing.T) {
	dir := folder(t, "mine.yaml", good, "mine.cu", "#include <near.h>\n"+goodSource)
	headers, others := folder(t, "near.h", "int a;"), folder(t, "near.h", "int b;")
	load := func(environment string, include ...string) *kernels.Family {
		t.Setenv("NORMBENCH_INCLUDE", environment)
		_, fs, err := Loader{Include: include}.Load(families.New(), dir)
		assert.NoError(t, err)
		return fs[0]
	}
	f := load(others, headers)
	assert.That(t, f.Version == load(headers).Version && f.Version != load(others).Version,
		"the hash is not that of the folder given")
	p := devicetest.Problem(t, fmt.Sprintf("%s/%s/64x1024/bf16", f.Op, f.Pass))
	for _, l := range f.Plan(p, f.Base(p, devicetest.H200()), devicetest.H200()).Launches {
		assert.That(t, !strings.HasPrefix(l.Source, Prefix) || slices.Equal(l.Include, []string{headers, others}),
			"%s looks in %v, want %s ahead of %s", l.Entry, l.Include, headers, others)
	}
}

// A file of one line includes a kernel of a folder that $NORMBENCH_INCLUDE names. Where no folder has it, the file is
// named that is not there.
func TestKernelOfIncludedFile(t *testing.T) {
	dir := folder(t, "mine.yaml", good, "mine.cu", "#include <repository/mine.cu>\n")
	for _, environment := range []string{"", folder(t, "repository/mine.cu", goodSource)} {
		t.Setenv("NORMBENCH_INCLUDE", environment)
		_, _, err := Load(families.New(), dir)
		if environment != "" {
			assert.NoError(t, err)
			continue
		}
		assert.Error(t, err, `mine.cu includes "repository/mine.cu", which is nowhere`)
	}
}

// The files that the pages show stand in examples, and the manifest with every field is one.
func TestManifestsOfThePagesLoad(t *testing.T) {
	page := func(name string) string { return string(assert.File(t, "../../../docs/"+name+".md")) }
	for file, text := range map[string]string{"cuda/rms_block.cu": page("cuda"), "cuda/rms_block.yaml": page("cuda"),
		"triton/rms_forward.yaml": page("triton"), "triton/rms.py": page("triton"), "python/rms.py": page("python")} {
		example := string(assert.File(t, "../../../examples/"+file))
		first, _, _ := strings.Cut(example, "\n\n\n@triton.jit\ndef rms_backward")
		assert.That(t, strings.Contains(text, strings.TrimRight(first, "\n")+"\n```\n"),
			"examples/%s does not stand in its page", file)
	}
	blocks := strings.Split(page("manifest"), "```yaml\n")
	assert.Must(t, len(blocks) == 3, "%d manifests", len(blocks)-1)
	shown, _, _ := strings.Cut(blocks[1], "```")
	launch, _, _ := strings.Cut(blocks[2], "```")
	assert.That(t, strings.Contains(string(assert.File(t, "../../../examples/public/liger/rms_backward.yaml")), launch),
		"examples/public/liger/rms_backward.yaml is another")
	source := "#include \"common.cuh\"\n#include \"reduce.cuh\"\n#include \"pipe.cuh\"\n" +
		"extern \"C\" __global__ void mine_bwd() {}\n"
	_, fs, err := Load(families.New(), folder(t, "shown.yaml", shown, "mine.cu", source))
	assert.NoError(t, err, hint.Of(err))
	p := devicetest.Problem(t, "rmsnorm/bwd/4096x4096/bf16")
	s := fs[0].Space(p, devicetest.H200())
	assert.That(t, fs[0].CheckServes(p) == nil && len(s.Configs) == 18,
		"%v, %+v", fs[0].CheckServes(p), s)
}

// Sources stay in their folder, also through links; what a link inside it points to is read.
func TestSourcesStayInTheirFolder(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.cu")
	assert.Write(t, outside, goodSource)
	dir := folder(t, "mine.yaml", good, "real.cu", goodSource)
	link := filepath.Join(dir, "mine.cu")
	assert.NoError(t, os.Symlink("real.cu", link))
	_, _, err := Load(families.New(), dir)
	assert.That(t, err == nil, "a link inside: %v", err)
	rel, err := filepath.Rel(dir, outside)
	assert.NoError(t, err)
	for _, to := range []string{outside, rel, "/dev/zero", "../" + filepath.Base(dir) +
		"/real.cu"} {
		assert.NoError(t, os.Remove(link))
		assert.NoError(t, os.Symlink(to, link))
		_, _, err := Load(families.New(), dir)
		assert.Refused(t, err, "mine.cu: ", "a link to", to)
	}
}
