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

var errNoEnd = errors.New("an asm statement without an end")

// asm reads what stands between the parentheses of an asm statement: instructions, in one
// line, and the operands' expressions.
func asm(text string) (instructions string, operands []string, rest string, err error) {
	var all strings.Builder
	section, i := 0, 0
	for i < len(text) {
		switch c := text[i]; {
		case c == '"':
			end := endOfString(text, i)
			if end >= len(text) {
				return "", nil, "", errors.New("a string without an end in an asm statement")
			}
			if section == 0 {
				all.WriteString(strings.ReplaceAll(text[i+1:end], `\n`, " "))
			}
			i = end + 1
		case c == ':':
			section++
			i++
		case c == '(':
			end := endOfParentheses(text, i)
			if end < 0 {
				return "", nil, "", errNoEnd
			}
			if section > 0 && section < 3 {
				operands = append(operands, text[i+1:end])
			}
			i = end + 1
		case c == ')':
			return oneLine(all.String()), operands, text[i+1:], nil
		default:
			i++
		}
	}
	return "", nil, "", errNoEnd
}

// endOfString is where the string that begins at i ends; len(text) or more where it does not.
func endOfString(text string, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfParentheses is where those that open at i are closed; negative where they are not.
func endOfParentheses(text string, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
