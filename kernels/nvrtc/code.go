package nvrtc

import (
	"maps"
	"slices"
	"strings"
)

// A Code is what the machine code of a CUDA file can depend on.
type Code struct {
	Text  string          // the declarations that its kernels reach, those of included files too: CUDA again, a token on each line
	Words map[string]bool // the identifiers in it
}

// A Reader makes Codes of files, each of which it reads once.
type Reader struct {
	read  func(name string) (string, error)
	files map[string]*file
	codes map[string]Code
}

// NewReader returns a Reader of files by name.
func NewReader(read func(name string) (string, error)) *Reader {
	return &Reader{read, map[string]*file{}, map[string]Code{}}
}

// Code is that of a file and of those that it includes, which have the prefix of its name up to
// the last colon. Comments, white space, line breaks, #if 0 and declarations that no kernel reaches are left out.
//
// A declaration is reached by its name, wherever that name occurs: so more may be kept than is
// compiled, but never less. What has no name is always kept, conditions and non-constant variables
// too, and all of a file that cannot be split or that makes names up.
func (r *Reader) Code(name string) (Code, error) {
	if c, ok := r.codes[name]; ok {
		return c, nil
	}
	var items []*item
	u := file{}
	origin := name[:strings.LastIndexByte(name, ':')+1]
	seen := map[string]bool{}
	var include func(name string) error
	include = func(name string) error {
		f, err := r.file(name)
		if err != nil {
			return err
		}
		seen[name] = true
		u.exact, u.whole, u.raw = u.exact || f.exact, u.whole || f.whole, u.raw+f.raw
		for _, x := range f.items {
			if x.include == "" || seen[origin+x.include] { // the second time the line counts
				items = append(items, x)
			} else if err := include(origin + x.include); err != nil {
				return err
			}
		}
		return nil
	}
	if err := include(name); err != nil {
		return Code{}, err
	}
	kept, c := reach(items, u.whole || u.exact), Code{Words: map[string]bool{}}
	var b strings.Builder
	for _, x := range items {
		if kept[x] {
			b.WriteString(x.text)
			for _, w := range x.words {
				c.Words[w] = true
			}
		}
	}
	if c.Text = b.String(); u.exact {
		c.Text = u.raw
	}
	r.codes[name] = c
	return c, nil
}

func (r *Reader) file(name string) (*file, error) {
	f, ok := r.files[name]
	if !ok {
		text, err := r.read(name)
		if err != nil {
			return nil, err
		}
		f = split(text)
		r.files[name] = f
	}
	return f, nil
}

// reach marks the items that kernels lead to, or all.
func reach(items []*item, all bool) map[*item]bool {
	declared, kept := map[string][]*item{}, map[*item]bool{}
	macros := map[string]bool{}
	for _, x := range items {
		for _, n := range x.names {
			declared[n] = append(declared[n], x)
		}
		for _, n := range x.macros {
			macros[n] = true
		}
	}
	seen := map[string]bool{}
	var visit func(x *item)
	visit = func(x *item) {
		if kept[x] {
			return
		}
		kept[x] = true
		for _, w := range x.words {
			if !seen[w] {
				seen[w] = true
				for _, y := range declared[w] {
					visit(y)
				}
			}
		}
	}
	for _, x := range items {
		// A macro in its head may hide what a declaration is.
		if all || x.root || slices.ContainsFunc(x.head, func(w string) bool { return macros[w] }) {
			visit(x)
		}
	}
	// Range loops and structured bindings do not name what they call.
	for _, n := range []string{"begin", "end", "get"} {
		for _, x := range declared[n] {
			visit(x)
		}
	}
	return kept
}

// ---- Declarations -----------------------------------------------------------------

// A file is what is known of one.
type file struct {
	items []*item
	whole bool   // names are made up, or come from where we do not look: all of it counts
	exact bool   // blanks or line numbers reach the code: its text counts
	raw   string // that text
}

// An item is a declaration, or a line of the preprocessor that stands between them.
type item struct {
	text    string   // its tokens
	words   []string // the identifiers in it, those in literals too
	names   []string // those that it may declare
	head    []string // those that stand outside of all brackets
	root    bool     // it counts whether or not it is reached
	macros  []string // those of names that are macros of more than specifiers
	include string   // the file that it includes, whose items stand for it
}

// split finds the declarations of a file.
func split(text string) *file {
	tokens := lex(text)
	f := &file{raw: strings.ReplaceAll(text, "\r\n", "\n")}
	for _, t := range tokens {
		f.exact = f.exact || t.exact()
		f.whole = f.whole || t.makesNames()
	}
	if !f.splitDeclarations(tokens) {
		f.items, f.whole = nil, true
		for _, t := range tokens {
			f.items = append(f.items, newItem([]token{t}))
		}
	}
	return f
}

// A branch is an open conditional: the token that opened it, the depth there, and that at the end of its first branch.
type branch struct {
	at, depth, end int
	otherwise      bool // it had an #else
}

// splitDeclarations says whether all conditionals hold whole declarations, or whole parts of one.
func (f *file) splitDeclarations(tokens []token) bool {
	var open []branch
	depth, start, outside, spaces := 0, 0, 0, 0 // outside: conditionals open where the declaration starts
	for i, t := range tokens {
		inside := start < i
		if !inside {
			outside = len(open)
		}
		switch d := t.directive(); d {
		case "":
		case "if", "ifdef", "ifndef":
			open = append(open, branch{i, depth, -1, false})
		case "else", "elif", "elifdef", "elifndef", "endif":
			if len(open) == 0 {
				return false
			}
			b := &open[len(open)-1]
			if b.end < 0 {
				b.end = depth
			}
			b.otherwise = b.otherwise || d == "else"
			if inside && b.at < start || depth != b.end || d == "endif" && !b.otherwise && depth != b.depth {
				return false
			}
			if d == "endif" {
				open = open[:len(open)-1]
			} else {
				depth = b.depth
			}
		case "include":
			if inside {
				return false
			}
		}
		if t.kind == directive {
			if !inside {
				f.items = append(f.items, newItem(tokens[i:i+1]))
				start = i + 1
			}
			continue
		}
		end := false
		switch t.text {
		case "(", "[":
			depth++
		case "{":
			if depth == 0 && opensSpace(tokens[start:i]) {
				spaces++
				end = true
			} else {
				depth++
			}
		case ")", "]":
			depth--
		case "}":
			if depth == 0 && !inside && spaces > 0 {
				spaces--
				end = true
				break
			}
			depth--
			end = depth == 0 && (i+1 == len(tokens) || tokens[i+1].text != ";") && endsWithBrace(heads(tokens[start:i+1]))
		case ";":
			end = depth == 0
		}
		if depth < 0 || end && len(open) != outside {
			return false
		}
		if end {
			f.items = append(f.items, declaration(tokens[start:i+1]))
			start = i + 1
		}
	}
	return start == len(tokens) && len(open) == 0
}

// opensSpace says whether a brace behind these tokens opens a namespace or a linkage block.
func opensSpace(tokens []token) bool {
	words := func(t token) bool { return t.kind == word || t.text == "::" }
	switch {
	case len(tokens) == 2 && tokens[0].text == "extern":
		return tokens[1].kind == literal
	case len(tokens) > 1 && tokens[0].text == "inline":
		tokens = tokens[1:]
	}
	return len(tokens) > 0 && tokens[0].text == "namespace" && !slices.ContainsFunc(tokens, func(t token) bool { return !words(t) })
}

// heads are the tokens outside of all brackets, each pair of which leaves its opening one.
// Angle brackets are such behind a name up to the first =. ok is false if one stays open.
func heads(tokens []token) (out []token, ok bool) {
	depth, angle, value := 0, 0, false
	for i, t := range tokens {
		if t.kind == directive {
			continue
		}
		switch t.text {
		case ")", "]", "}":
			depth--
			continue
		case "(", "[", "{":
			if depth++; depth > 1 || angle > 0 {
				continue
			}
			if t.text == "(" && i+1 < len(tokens) && slices.Contains([]string{"*", "&", "&&"}, tokens[i+1].text) {
				t.text = "(*"
			}
			out = append(out, t)
			continue
		}
		if depth > 0 {
			continue
		}
		switch {
		case t.text == "<" && !value && i > 0 && tokens[i-1].kind == word:
			if angle++; angle == 1 {
				out = append(out, t)
			}
			continue
		case angle > 0 && t.text == ">":
			angle--
			continue
		case angle > 0 && t.text == ">>":
			angle -= 2
			continue
		case angle > 0:
			continue
		}
		value = value || t.text == "="
		out = append(out, t)
	}
	return out, angle == 0
}

// endsWithBrace says whether a declaration ends with its brace, as a function does.
func endsWithBrace(head []token, ok bool) bool {
	function := false
	for _, t := range head {
		switch t.text {
		case "struct", "class", "union", "enum", "=":
			return false
		case "(":
			function = true
		}
	}
	return ok && function
}

// specifiers are words that declare nothing.
var specifiers = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`__device__ __host__ __forceinline__ __inline__ __noinline__ __launch_bounds__ __align__
		__attribute__ inline static constexpr const volatile mutable noexcept override final alignas decltype sizeof explicit
		requires asm void bool char short int long float double unsigned signed auto template typename extern
		struct class union enum concept`) {
		m[w] = true
	}
	return m
}()

// declaration reads the names of one.
func declaration(tokens []token) *item {
	x := newItem(tokens)
	head, ok := heads(tokens)
	has := map[string]bool{}
	for _, t := range head {
		if t.kind == word {
			has[t.text] = true
			x.head = append(x.head, t.text)
		}
	}
	type_, function, value := has["struct"] || has["class"] || has["union"] || has["enum"] || has["concept"], false, false
	add := func(names ...string) {
		for _, n := range names {
			if !specifiers[n] {
				x.names = append(x.names, n)
			}
		}
	}
	for i, t := range head {
		switch {
		case t.text == "(*" && !value:
			x.root = true // a declarator in parentheses
		case t.text == "=":
			value = true
		case t.text == ",":
			value = has["using"]
		case t.kind != word || value:
		case type_:
			add(t.text)
		default:
			next := i + 1
			if next < len(head) && head[next].text == "<" {
				next++
			}
			if next == len(head) || !strings.Contains("(=[{,;", head[next].text) {
				break
			}
			function = function || head[next].text == "(" && !specifiers[t.text]
			if i > 0 && head[i-1].text == "::" {
				add(x.head...) // a member
			}
			add(t.text)
		}
	}
	if has["enum"] {
		add(x.words...)
	}
	constant := type_ || function || has["typedef"] || has["using"] && slices.ContainsFunc(head, func(t token) bool { return t.text == "=" }) ||
		has["const"] || has["constexpr"] || has["static"]
	x.root = x.root || !ok || !constant || has["__global__"] || has["operator"] || has["static_assert"] || len(x.names) == 0
	return x
}

// newItem is what can be said of a declaration without its grammar, and all of a directive.
func newItem(tokens []token) *item {
	x := &item{}
	var b strings.Builder
	words := map[string]bool{}
	use := func(t *token) {
		switch {
		case t.kind == word:
			words[t.text] = true
		case t.kind == literal && strings.Contains(t.text, `"`): // asm may name what it uses
			for _, w := range strings.FieldsFunc(t.text, func(c rune) bool { return c < 0x80 && !inWord(byte(c)) }) {
				words[w] = true
			}
		}
	}
	for _, t := range tokens {
		t.write(&b)
		use(&t)
		for i := range t.parts {
			use(&t.parts[i])
		}
		switch d := t.directive(); {
		case (d == "define" || d == "undef") && len(t.parts) > 1:
			x.names = append(x.names, t.parts[1].text)
			if slices.ContainsFunc(t.parts[2:], func(p token) bool { return !specifiers[p.text] }) {
				x.macros = append(x.macros, t.parts[1].text)
			}
		case d == "include" && len(t.parts) > 1 && t.parts[1].kind == literal:
			x.include, x.root = strings.Trim(t.parts[1].text, `"`), true
		case t.kind == directive && len(tokens) == 1:
			x.root = true
		}
	}
	x.text, x.words = b.String(), slices.Sorted(maps.Keys(words))
	return x
}

// ---- Tokens -----------------------------------------------------------------------

type kind byte

const (
	punctuator kind = iota
	word
	literal // a number, character or string
	directive
)

// A token is one of C++, or a line of the preprocessor.
type token struct {
	text  string
	kind  kind
	space bool    // blanks are before it
	parts []token // of a directive, without the #
}

// directive is the name of one, "" of other tokens and of a lone #.
func (t *token) directive() string {
	if len(t.parts) == 0 {
		return ""
	}
	return t.parts[0].text
}

// write appends the token as a line.
func (t *token) write(b *strings.Builder) {
	b.WriteString(t.text)
	for i, p := range t.parts {
		if i > 0 && (i != 2 || p.text != "(" || p.space) { // #define F(x) is not #define F (x)
			b.WriteByte(' ')
		}
		b.WriteString(p.text)
	}
	b.WriteByte('\n')
}

// exact says whether a token lets blanks or line numbers reach the code.
func (t *token) exact() bool {
	switch t.text {
	case "__LINE__", "__FILE__", "__BASE_FILE__", "__builtin_LINE", "__builtin_FILE", "__builtin_COLUMN", "source_location", "assert", "__DATE__", "__TIME__", "__TIMESTAMP__":
		return true
	}
	return t.directive() == "line" || slices.ContainsFunc(t.parts, func(p token) bool { return p.text == "#" || p.exact() })
}

// makesNames says whether a token makes identifiers, or brings in those of other folders.
func (t *token) makesNames() bool {
	return t.text == "__COUNTER__" || t.text == "%:" || t.directive() == "include" && (len(t.parts) < 2 || t.parts[1].kind != literal) ||
		slices.ContainsFunc(t.parts, func(p token) bool { return p.text == "##" || p.makesNames() })
}

// A tokenText is a text by its tokens; exact if its blanks or lines count all the same.
type tokenText struct {
	text  string
	exact bool
}

func textOf(text string) tokenText {
	var b strings.Builder
	exact := false
	for _, t := range lex(text) {
		t.write(&b)
		exact = exact || t.exact()
	}
	return tokenText{b.String(), exact}
}

// lex splits a text into tokens. What stands between #if 0 and its end is left out.
func lex(text string) []token {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !strings.Contains(text, `R"`) { // a raw string keeps them
		text = strings.ReplaceAll(text, "\\\n", "")
	}
	tokens := make([]token, 0, len(text)/4)
	fresh, space := true, false // only blanks since the line began; blanks before this token
	line := -1                  // the directive that the line is
	for len(text) > 0 {
		n := 1
		switch c := text[0]; {
		case c == '\n':
			fresh, space, line = true, true, -1
		case strings.IndexByte(" \t\r\f\v", c) >= 0:
			space = true
		case strings.HasPrefix(text, "\\\n"):
			n, space = 2, true
		case strings.HasPrefix(text, "//"):
			if n = strings.IndexByte(text, '\n'); n < 0 {
				n = len(text)
			}
		case strings.HasPrefix(text, "/*"):
			_, rest, _ := strings.Cut(text[2:], "*/")
			n, space = len(text)-len(rest), true
		case fresh && (c == '#' || strings.HasPrefix(text, "%:")):
			n, line, fresh = 1+strings.Count(text[:1], "%"), len(tokens), false
			tokens = append(tokens, token{text: "#", kind: directive})
		default:
			t := first(text)
			n, t.space = len(t.text), space
			if line >= 0 {
				tokens[line].parts = append(tokens[line].parts, t)
			} else {
				tokens = append(tokens, t)
			}
			fresh, space = false, false
		}
		text = text[n:]
	}
	return live(tokens)
}

func inWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

var punctuators = strings.Fields(`<<= >>= ... ->* <=> :: ++ -- -> << >> <= >= == != && || += -= *= /= %= &= |= ^= .* ## <: :> <% %> %:`)

// first is the token that a text begins with.
func first(s string) token {
	digit := func(i int) bool { return i < len(s) && '0' <= s[i] && s[i] <= '9' }
	switch {
	case digit(0) || s[0] == '.' && digit(1):
		n := 1
		for n < len(s) && (inWord(s[n]) || s[n] == '.' || s[n] == '\'' && n+1 < len(s) && inWord(s[n+1]) || (s[n] == '+' || s[n] == '-') && strings.IndexByte("eEpP", s[n-1]) >= 0) {
			n++
		}
		return token{text: s[:n], kind: literal}
	case inWord(s[0]):
		n := 1
		for n < len(s) && inWord(s[n]) {
			n++
		}
		if n < len(s) && (s[n] == '"' || s[n] == '\'') && slices.Contains([]string{"R", "L", "u", "U", "u8", "LR", "uR", "UR", "u8R"}, s[:n]) {
			return token{text: s[:n+quoted(s[n:], s[n-1] == 'R')], kind: literal}
		}
		return token{text: s[:n], kind: word}
	case s[0] == '"' || s[0] == '\'':
		return token{text: s[:quoted(s, false)], kind: literal}
	}
	for _, p := range punctuators {
		if strings.HasPrefix(s, p) {
			return token{text: p}
		}
	}
	return token{text: s[:1]}
}

// quoted is the length of the string or character that s begins with, 1 where it does not end.
func quoted(s string, raw bool) int {
	if raw {
		if mark, rest, ok := strings.Cut(s[1:], "("); ok {
			if end := strings.Index(rest, ")"+mark+`"`); end >= 0 {
				return len(s) - len(rest) + end + len(mark) + 2
			}
		}
	}
	for n := 1; n < len(s) && s[n] != '\n'; n++ {
		switch s[n] {
		case '\\':
			n++
		case s[0]:
			return n + 1
		}
	}
	return 1
}

// live takes out what stands between #if 0 and its #elif, #else or #endif.
func live(tokens []token) (out []token) {
	const (
		kept = iota
		dead // within #if 0
		bare // behind the #else of one
	)
	var open []int
	for _, t := range tokens {
		skip := slices.Contains(open, dead)
		top := len(open) - 1
		switch d := t.directive(); d {
		case "if", "ifdef", "ifndef":
			open = append(open, kept)
			if d == "if" && len(t.parts) == 2 && t.parts[1].text == "0" {
				open[top+1], skip = dead, true
			}
		case "else", "elif", "elifdef", "elifndef":
			if top < 0 || open[top] != dead {
				break
			}
			open[top], skip = bare, true
			if d != "else" {
				open[top], skip = kept, slices.Contains(open[:top], dead)
				t.parts = slices.Clone(t.parts)
				t.parts[0].text = d[2:]
				if d == "elif" {
					t.parts[0].text = "if"
				}
			}
		case "endif":
			if top >= 0 {
				skip = skip || open[top] == bare
				open = open[:top]
			}
		}
		if !skip {
			out = append(out, t)
		}
	}
	return out
}
