package shapes

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"normbench/internal/durable"
	"normbench/internal/hint"
	"normbench/internal/textfile"
	"normbench/kernels"
	"normbench/sweep/models"
)

const argHelp = "give a group, FILE#GROUP, FILE, a list such as 4096x8192,256x65536, or several " +
	"with commas between"

var (
	groupRE = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)
	listRE  = regexp.MustCompile(`^[0-9]+([KM]i)?x`)
)

// Select returns the shapes that a command's argument names:
//
//	GROUP       a group of the built-in shapes.yaml
//	FILE#GROUP  a group of another file
//	FILE        all groups of another file
//	MxN,MxN     these shapes; 4Kix8Ki is 4096x8192
//	random:300:seed=7:M=1:4096;N=64:8Ki
//	            so many drawn from a Domain; seed and bounds may be left out
//
// and several of these, with commas between; a shape that comes twice counts once.
// A name that is both a group and a file is the group; ./NAME is the file.
func Select(arg string) ([]Shape, error) {
	all, steps, err := resolve(arg)
	for _, p := range models.Problems(steps) {
		all = append(all, Shape{M: p.M, N: p.N})
	}
	return distinct(all), err
}

// resolve finds the shapes that an argument lists, and apart from them the groups whose problems have
// counts.
func resolve(arg string) (all []Shape, steps []models.Step, err error) {
	for item := range strings.SplitSeq(arg, ",") {
		if item = strings.TrimSpace(item); item == "" && arg != "" {
			return nil, nil, hint.Errorf(argHelp, "malformed shape %q", item)
		}
		list, more, err := resolveItem(item)
		if err != nil {
			return nil, nil, err
		}
		all, steps = append(all, list...), append(steps, more...)
	}
	return distinct(all), steps, nil
}

// resolveItem resolves one item of the argument's list, as Select describes.
func resolveItem(arg string) ([]Shape, []models.Step, error) {
	if i := strings.LastIndexByte(arg, '#'); i >= 0 {
		file, group := arg[:i], arg[i+1:]
		if file == "" || group == "" {
			return nil, nil, hint.Errorf(argHelp, "malformed shapes %q", arg)
		}
		return readGroups(file, group)
	}
	plain := func(list []Shape, err error) ([]Shape, []models.Step, error) { return list, nil, err }
	ext := filepath.Ext(arg)
	if rest, ok := strings.CutPrefix(arg, "random:"); ok {
		return plain(drawRandom(rest))
	}
	switch {
	case arg == "":
		return nil, nil, hint.Errorf(argHelp, "no shapes are given")
	case ext == ".yaml" || ext == ".yml" || strings.ContainsRune(arg, filepath.Separator):
		return readGroups(arg, "")
	case listRE.MatchString(arg):
		return plain(ParseList(arg))
	}
	s, err := Default().Group(arg)
	if err == nil {
		return s, nil, nil
	}
	if _, statErr := os.Stat(arg); statErr == nil {
		return readGroups(arg, "")
	}
	help := hint.Of(err) + "; or " + argHelp
	if list := strings.NewReplacer("X", "x", "×", "x", "*", "x", " ",
		"").Replace(arg); listRE.MatchString(list) {
		help = "did you mean " + list + "? " + argHelp
	}
	return nil, nil, hint.Errorf(help, "unknown shapes %q", arg)
}

// readGroups reads one group of a shapes file, or all groups where only is "".
func readGroups(path, only string) (list []Shape, steps []models.Step, err error) {
	f, err := Load(path)
	if err != nil {
		return nil, nil, err
	}
	names := f.names
	if only != "" {
		names = []string{only}
	}
	for _, name := range names {
		group, err := f.Group(name)
		if err != nil {
			return nil, nil, err
		}
		if s := f.Step(name); s != nil {
			steps = append(steps, *s)
		} else {
			list = append(list, group...)
		}
	}
	return list, steps, nil
}

// Load reads a shapes file. Errors name the file, with line and column where one is at fault.
func Load(path string) (*GroupFile, error) {
	data, err := textfile.Read(path, textfile.Small)
	if err != nil {
		return nil, hint.Errorf(cmp.Or(hint.Of(err), argHelp), "shapes file %s: %w", path,
			durable.Cause(err))
	}
	return Parse(path, data)
}

// ParseList reads shapes such as 4096x8192,4Kix64Ki, rows by columns. It drops repetitions.
func ParseList(s string) ([]Shape, error) {
	const help = "a list is rows by columns with commas between, such as 4096x8192,256x65536"
	var shapes []Shape
	for item := range strings.SplitSeq(s, ",") {
		ms, ns, ok := strings.Cut(strings.TrimSpace(item), "x")
		m, errM := kernels.ParseCount(ms)
		n, errN := kernels.ParseCount(ns)
		switch {
		case errors.Is(errM, strconv.ErrRange) || errors.Is(errN, strconv.ErrRange):
			m = MaxSide + 1
		case !ok || errM != nil || errN != nil:
			return nil, hint.Errorf(help, "malformed shape %q", item)
		}
		if m < 1 || n < 1 || m > MaxSide || n > MaxSide {
			return nil, hint.Errorf(sideHelp, "shape %s is out of range", strings.TrimSpace(item))
		}
		shapes = append(shapes, Shape{M: m, N: n})
	}
	return distinct(shapes), nil
}
