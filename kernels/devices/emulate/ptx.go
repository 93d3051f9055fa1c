package emulate

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed cxx/ptx.txt
var ptx string

// functions are what stands for PTX in cxx/emulate.h, by the instructions of an asm statement.
var functions = func() map[string]string {
	by := map[string]string{}
	for line := range strings.Lines(ptx) {
		if name, instructions, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" && name != "#" {
			by[instructions] = name
		}
	}
	return by
}()

// alignment is that of a declaration, or nothing.
const alignment = `(?:(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)\s+)?`

var (
	asmRE         = regexp.MustCompile(`\basm\s*(?:volatile)?\s*\(`)
	dynamicShared = regexp.MustCompile(`extern\s+(?:volatile\s+)?` + `(` + alignment + `)__shared__\s+(` +
		alignment + `)(?:volatile\s+)?((?:(?:unsigned|signed|typename)\s+)?[\w:]+(?:\s*<[^;<>]*>)?)\s+(?:` +
		alignment + `)(\w+)\s*\[\s*\]\s*;`)
)

// withShared is a source with dynamic shared memory of n bytes. What a function declares are pointers
// to it, so that it ends where the launch says; what the file declares are arrays.
func withShared(text string, n int) string {
	var b strings.Builder
	end := 0
	for _, at := range dynamicShared.FindAllStringSubmatchIndex(text, -1) {
		before := text[:at[0]]
		kind, name := text[at[6]:at[7]], text[at[8]:at[9]]
		b.WriteString(text[end:at[0]])
		if strings.Count(before, "{") > strings.Count(before, "}") {
			fmt.Fprintf(&b, "%s *const %s = (%s *)emulate::dynamicShared();", kind, name, kind)
		} else {
			fmt.Fprintf(&b, "static thread_local %s%s %s[%d / sizeof(%s)];", text[at[2]:at[3]]+text[at[4]:at[5]], kind, name,
				max(n, 16), kind)
		}
		end = at[1]
	}
	b.WriteString(text[end:])
	return b.String()
}

var (
	includeRE = regexp.MustCompile(`(?:#|%:)(?:\s|/\*(?s:.*?)\*/)*(?:include|include_next|import|embed)\b` +
		`(?:[^\S\n]|/\*(?s:.*?)\*/)*(.*)`)
	includedRE = regexp.MustCompile(`^(?:<([^>\n]*)>|"([^"\n]*)")`)
)

// checkIncludes refuses to read files by their absolute path, or from folders above: only a kernel's
// own folder and what a compiler knows are its to read.
func checkIncludes(text string) error {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\\\r\n", ""), "\\\n", "")
	for _, found := range includeRE.FindAllStringSubmatch(text, -1) {
		named := includedRE.FindStringSubmatch(found[1])
		if named == nil {
			return fmt.Errorf("the emulator takes no #include of %s", strings.TrimSpace(found[1]))
		}
		if file := named[1] + named[2]; strings.HasPrefix(file, "/") ||
			slices.Contains(strings.Split(file, "/"), "..") {
			return fmt.Errorf("#include %s is outside of the kernel's folder", named[0])
		}
	}
	return nil
}

// lackingHelp follows the name of what the emulator lacks.
const lackingHelp = " yet; verify on a GPU (--device cuda)"

// missingNameError says of a name that a compiler does not know that the emulator lacks it.
func missingNameError(what string) string {
	for _, re := range []*regexp.Regexp{undeclaredRE, noTypeRE} {
		if found := re.FindStringSubmatch(what); found != nil {
			return fmt.Sprintf("the emulator has no %s%s", found[1], lackingHelp)
		}
	}
	return what
}

// Names of CUDA have two underscores ahead, or are those of its functions and types.
var (
	undeclaredRE = regexp.MustCompile(`^'((?:__|atomic|cuda|cooperative_groups|cg\b)\w*)' ` +
		`(?:was not declared|has not been declared|does not name a type)`)
	noTypeRE = regexp.MustCompile(`^'((?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|dim3)' ` +
		`(?:was not declared|has not been declared|does not name a type)`)
)

// withoutPTX returns a source with a call for each asm statement, of its operands in their order. One that the
// emulator does not have ends the run where a thread comes to it.
func withoutPTX(text string) (string, error) {
	var b strings.Builder
	for {
		at := asmRE.FindStringIndex(text)
		if at == nil {
			b.WriteString(text)
			return b.String(), nil
		}
		instructions, operands, rest, err := asm(text[at[1]:])
		if err != nil {
			return "", err
		}
		b.WriteString(text[:at[0]])
		if f, address := functionOf(instructions); f != "" {
			if address >= 0 && address < len(operands) {
				operands[address] = "emulate::at(" + operands[address] + ")"
			}
			fmt.Fprintf(&b, "emulate::%s(%s)", f, strings.Join(operands, ", "))
		} else { // a kernel may have it for another case
			fmt.Fprintf(&b, "emulate::lacks(%q)", strconv.Quote(instructions))
		}
		text = rest
	}
}

// Loads and stores, as cached as they may be. A predicate may stand ahead of a load, whose values are 0 without it.
var (
	loadRE = regexp.MustCompile(`^ld\.(global(?:\.(?:nc|ca|cg|cs|lu|cv|L[12]::\w+))*|shared)(?:(\.v[24])\.[bus]32|\.[bus](16|32)) ` +
		`(?:%0|\{%0(?:, %\d)*\}), \[%(\d)\];$`)
	storeRE = regexp.MustCompile(`^st\.(global(?:\.(?:wb|cg|cs|wt))?|shared)(?:(\.v[24])\.[bus]32|\.[bus](16|32)) ` +
		`\[%0\], (?:%1|\{%1(?:, %\d)*\});$`)
	predicateRE = regexp.MustCompile(`^\{ ?\.reg \.pred (\w+); setp\.ne\.[bus]32 (\w+), %(\d), 0; ` +
		`(?:mov\.[bu](?:16|32) %\d, 0; )+@(\w+) (ld\.[^;]*\[%(\d)\];) ?\}$`)
)

// functionOf returns the function of emulate.h that stands for instructions, "" without one, and which of its operands
// is an address in shared memory, -1 if none.
func functionOf(instructions string) (name string, address int) {
	if f, ok := functions[instructions]; ok {
		return f, -1
	}
	address = -1
	if m := storeRE.FindStringSubmatch(instructions); m != nil {
		if m[1] == "shared" {
			address = 0
		}
		return "store" + bitsOf(m), address
	}
	load, ifs := instructions, ""
	if m := predicateRE.FindStringSubmatch(instructions); m != nil && m[1] == m[2] && m[1] == m[4] && m[3] > m[6] {
		load, ifs = m[5], "If" // the predicate is the last operand
	}
	m := loadRE.FindStringSubmatch(load)
	if m == nil {
		return "", -1
	}
	if m[1] == "shared" {
		address = int(m[4][0] - '0')
	}
	return "load" + bitsOf(m) + ifs, address
}

// bitsOf returns the bits of a load or a store, whose match has its vector and the bits of an element.
func bitsOf(m []string) string {
	switch m[2] {
	case ".v2":
		return "64"
	case ".v4":
		return "128"
	}
	return m[3]
}

// tokenRE finds what ends a string, operand or section of an asm statement.
var tokenRE = regexp.MustCompile(`"(?:\\.|[^"\\])*"|[():"]`)

// escapes stand for blanks in a string of C++.
var escapes = strings.NewReplacer(`\n`, " ", `\t`, " ", `\r`, " ")

// asm reads what stands between the parentheses of an asm statement: instructions, in one
// line, and the operands' expressions.
func asm(text string) (instructions string, operands []string, rest string, err error) {
	var all strings.Builder
	section, depth, from, end := 0, 0, 0, 0
	for {
		at := tokenRE.FindStringIndex(text[end:])
		if at == nil {
			return "", nil, "", errors.New("an asm statement without an end")
		}
		start := end + at[0]
		end += at[1]
		switch token := text[start:end]; {
		case token == `"`:
			return "", nil, "", errors.New("a string without an end in an asm statement")
		case token == "(":
			if depth++; depth == 1 {
				from = end
			}
		case token == ")" && depth == 0:
			return oneLine(all.String()), operands, text[end:], nil
		case token == ")":
			if depth--; depth == 0 && (section == 1 || section == 2) {
				operands = append(operands, text[from:start])
			}
		case depth > 0:
		case token == ":":
			section++
		case section == 0:
			all.WriteString(escapes.Replace(token[1 : len(token)-1]))
		}
	}
}
