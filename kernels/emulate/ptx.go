package emulate

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
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

var (
	asmRE         = regexp.MustCompile(`\basm\s*(?:volatile)?\s*\(`)
	dynamicShared = regexp.MustCompile(
		`extern __shared__ ((?:__align__\(\d+\) )?((?:unsigned )?\w+) \w+)\[\];`)
)

// withoutPTX is a source with a call for each asm statement, of its operands in their order.
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
		f, ok := functions[instructions]
		if !ok {
			return "", fmt.Errorf("the emulator has no %q", instructions)
		}
		b.WriteString(text[:at[0]])
		fmt.Fprintf(&b, "emulate::%s(%s)", f, strings.Join(operands, ", "))
		text = rest
	}
}

// tokenRE finds what ends a string, operand or section of an asm statement.
var tokenRE = regexp.MustCompile(`"(?:\\.|[^"\\])*"|[():"]`)

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
			all.WriteString(strings.ReplaceAll(token[1:len(token)-1], `\n`, " "))
		}
	}
}
