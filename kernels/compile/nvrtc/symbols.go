package nvrtc

import (
	"bytes"
	"debug/elf"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

var entryRE = regexp.MustCompile(`(?m)^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)\s*\(`)

// Entries returns the symbols of the kernels in a cubin or PTX.
func (b *Binary) Entries() (symbols []string) {
	if !bytes.HasPrefix(b.Cubin, []byte(elf.ELFMAG)) {
		for _, m := range entryRE.FindAllSubmatch(b.Cubin, -1) {
			symbols = append(symbols, string(m[1]))
		}
		return symbols
	}
	f, err := openELF(b.Cubin)
	if err != nil {
		return nil
	}
	defer f.Close()
	// A kernel has a section of its constants, a function that was not inlined has none.
	for _, s := range f.Sections {
		if name, ok := strings.CutPrefix(s.Name, ".text."); ok && f.Section(".nv.constant0."+name) != nil {
			symbols = append(symbols, name)
		}
	}
	return symbols
}

// Find finds the symbol of the kernel that an entry names: by the symbol itself, or by its C++ name with
// or without the namespaces and the template arguments, if only one kernel fits. The error continues the
// name of the file.
func (b *Binary) Find(entry string) (string, error) {
	all := b.Entries()
	if slices.Contains(all, entry) {
		return entry, nil
	}
	if !bytes.HasPrefix(b.Cubin, []byte(elf.ELFMAG)) && b.HasKernel(entry) {
		return entry, nil
	}
	var fit, exact []string
	wantName, wantArgs := splitName(entry)
	for _, symbol := range all {
		name, args := splitName(readableName(symbol))
		if name != wantName && !strings.HasSuffix(name, "::"+wantName) {
			continue
		}
		fit = append(fit, symbol)
		if wantArgs != "" && args == wantArgs {
			exact = append(exact, symbol)
		}
	}
	if len(exact) == 1 {
		return exact[0], nil
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	list := all
	what := "has no kernel " + entry
	if len(fit) > 1 {
		list, what = fit, fmt.Sprintf("has %d kernels %s", len(fit), entry)
	}
	var names []string
	for _, symbol := range list {
		names = append(names, fmt.Sprintf("%s (%s)", symbol, readableName(symbol)))
		if len(names) == 20 && len(list) > 20 {
			names = append(names, fmt.Sprintf("and %d more", len(list)-20))
			break
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s, and no other", what)
	}
	return "", fmt.Errorf("%s, but %s", what, strings.Join(names, ", "))
}

// readableName demangles a symbol, without the types of parameters.
func readableName(symbol string) string {
	return demangle.Filter(symbol, demangle.NoParams, demangle.NoEnclosingParams)
}

var (
	castRE   = regexp.MustCompile(`\((?:unsigned |signed )?(?:int|long|char|short|bool)\)`)
	suffixRE = regexp.MustCompile(`\b(\d+)[uUlL]+\b`)
)

// splitName splits a name from its template arguments, and removes what compilers write differently.
func splitName(text string) (name, args string) {
	text = strings.ReplaceAll(text, "(anonymous namespace)::", "")
	name, args, _ = strings.Cut(text, "<")
	if words := strings.Fields(name); len(words) > 0 { // a return type stands ahead of a template's name
		name = words[len(words)-1]
	}
	args = suffixRE.ReplaceAllString(castRE.ReplaceAllString(args, ""), "$1")
	return strings.TrimPrefix(name, "::"), strings.Join(strings.Fields(args), "")
}
