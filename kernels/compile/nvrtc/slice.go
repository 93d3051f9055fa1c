package nvrtc

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// An item is a declaration at the level of a file or a namespace, or a macro.
type item struct {
	start, end int
	names      []string // that it declares
	uses       []string // all identifiers in it
	kept       bool
	device     bool     // an operator, which nobody names
	host       bool     // nobody but the host calls it
	scopes     []string // namespaces around it
	text       string   // without comments; of a macro's call what it stands for
}

// blankUnreached blanks the declarations of a text that the entry does not reach, so that lines keep
// their numbers. It goes by names, not meanings: all functions of a name stay. Directives stay wherever
// they are.
func blankUnreached(text, entry string) string {
	p := slice(text)
	if !slices.ContainsFunc(p.items, func(x *item) bool {
		return slices.Contains(x.names, plainName(entry))
	}) {
		return text // a macro makes the entry
	}
	byName := map[string][]*item{}
	for _, x := range p.items {
		for _, name := range x.names {
			byName[name] = append(byName[name], x)
		}
	}
	var reach func(names []string)
	keep := func(x *item) {
		if !x.kept && !x.host {
			x.kept = true
			reach(x.uses)
		}
	}
	reach = func(names []string) {
		for _, name := range names {
			for _, x := range byName[name] {
				keep(x)
			}
		}
	}
	for _, x := range p.items {
		if x.device {
			keep(x)
		}
	}
	reach(identifierRE.FindAllString(entry, -1))
	out := []byte(text)
	for _, x := range p.items {
		if !x.kept {
			p.blank(out, x)
		}
	}
	return string(out)
}

// plainName returns the last name of an entry, without template arguments.
func plainName(entry string) string {
	name, _, _ := strings.Cut(entry, "<")
	return name[strings.LastIndexByte(name, ':')+1:]
}

var (
	identifierRE = regexp.MustCompile(`[A-Za-z_]\w*`)
	defineRE     = regexp.MustCompile(`^#\s*define\s+(\w+)(?:\(([^()]*)\)(.*))?`)
	scopeRE      = regexp.MustCompile(`^((inline\s+)?namespace\b[\w:\s\[\]]*|extern\s*"C(\+\+)?"\s*)$`)
	namespaceRE  = regexp.MustCompile(`\bnamespace\s+([\w:]+)$`)
	classRE      = regexp.MustCompile(`^(typedef\s+)?(static\s+|const\s+|constexpr\s+)*(class|struct|union|enum)\b`)
	deviceRE     = regexp.MustCompile(`\b(__device__|__global__|constexpr)\b`)
	hostOnlyRE   = regexp.MustCompile(`\b__host__\b`)
	launchRE     = regexp.MustCompile(`<<<|\bcudaLaunchKernel\w*\b`)
	blockRE      = regexp.MustCompile(`\b(?:alignas|__align__|__builtin_align__|__launch_bounds__|__maxnreg__|` +
		`__cluster_dims__|__attribute__|__declspec|decltype|noexcept|explicit|requires|sizeof|static_assert|throw)\s*$`)
)

// A slicer divides a text of C++ into items.
type slicer struct {
	text       string
	items      []*item
	directives [][2]int
	scopes     []string         // where it is; "" for a namespace without a name and for extern "C"
	macros     map[string]macro // those with parameters, by name
}

// A macro has parameters and a body.
type macro struct {
	params []string
	body   string
}

// slice divides a text.
func slice(text string) *slicer {
	p := &slicer{text: text, macros: map[string]macro{}}
	p.scan()
	return p
}

// scan finds the items. Its position is always outside of comments and literals.
func (p *slicer) scan() {
	pos := 0
	for pos < len(p.text) {
		switch next := p.skip(pos); {
		case next != pos: // a blank, a comment, a directive
			pos = next
		case p.text[pos] == '}':
			p.scopes = p.scopes[:max(len(p.scopes)-1, 0)]
			pos++
		case p.text[pos] == ';':
			pos++
		default:
			pos = p.item(pos)
		}
	}
}

// skip returns the end of the blank, comment or directive at pos; pos if there is none.
func (p *slicer) skip(pos int) int {
	rest := p.text[pos:]
	switch {
	case strings.HasPrefix(rest, "//"):
		return pos + lineEnd(rest)
	case strings.HasPrefix(rest, "/*"):
		if n := strings.Index(rest, "*/"); n >= 0 {
			return pos + n + 2
		}
		return len(p.text)
	case rest[0] == '#' && strings.TrimSpace(p.text[strings.LastIndexByte(p.text[:pos], '\n')+1:pos]) == "":
		end := pos + lineEnd(rest)
		if !slices.Contains(p.directives, [2]int{pos, end}) {
			p.directives = append(p.directives, [2]int{pos, end})
			line := joinLines(p.text[pos:end])
			if m := defineRE.FindStringSubmatch(line); m != nil {
				p.items = append(p.items, &item{start: pos, end: pos, names: m[1:2], uses: identifiers(line)})
				if m[3] != "" {
					p.macros[m[1]] = macro{strings.Split(m[2], ","), m[3]}
				}
			}
		}
		return end
	case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
		return pos + 1
	}
	return pos
}

// lineEnd returns the length of a line, with the lines that a backslash joins to it.
func lineEnd(text string) int {
	for at := 0; ; {
		n := strings.IndexByte(text[at:], '\n')
		if n < 0 {
			return len(text)
		}
		at += n
		if before := strings.TrimRight(text[:at], "\r"); !strings.HasSuffix(before, `\`) {
			return at
		}
		at++
	}
}

// token returns the end of the literal at pos, or the next byte.
func (p *slicer) token(pos int) int {
	rest := p.text[pos:]
	if m := rawString.FindString(rest); m != "" && strings.HasPrefix(rest, m) {
		if n := strings.Index(rest, ")"+m[2:len(m)-1]+`"`); n >= 0 {
			return pos + n + len(m) - 1
		}
	}
	return pos + max(len(literal.FindString(rest)), 1)
}

// item reads the item at pos and returns its end. The items inside a namespace come next.
func (p *slicer) item(pos int) int {
	x := &item{start: pos, scopes: slices.Clone(p.scopes)}
	var head strings.Builder // up to the first brace, without comments
	depth, braces := 0, 0
	var levels [][2]int // depth and braces where #if stands
	body := false
	for pos < len(p.text) {
		if next := p.skip(pos); next != pos {
			if p.text[pos] == '#' {
				levels = p.condition(p.text[pos:next], levels, &depth, &braces)
			}
			if braces == 0 && !body {
				head.WriteByte(' ')
			}
			pos = next
			continue
		}
		end := p.token(pos)
		switch c := p.text[pos]; {
		case c == '{':
			if braces == 0 && depth == 0 && !body {
				if before := strings.TrimSpace(head.String()); scopeRE.MatchString(before) {
					name := ""
					if m := namespaceRE.FindStringSubmatch(before); m != nil {
						name = m[1]
					}
					p.scopes = append(p.scopes, name)
					return end
				}
				body = true
			}
			braces++
		case c == '}':
			if braces == 0 { // of the namespace: an item without an end
				return p.close(x, pos, head.String())
			}
			if braces--; braces == 0 && depth == 0 && isFunction(head.String()) {
				return p.close(x, end, head.String())
			}
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			if call := head.String() + ")"; depth == 1 && c == ')' && braces == 0 && p.expand(call) != "" {
				return p.close(x, end, call) // a macro with all of a declaration
			}
			depth--
		case c == ';' && depth <= 0 && braces == 0:
			return p.close(x, end, head.String())
		}
		if !body {
			head.WriteString(p.text[pos:end])
		}
		pos = end
	}
	return p.close(x, pos, head.String())
}

// expand returns what a call of a macro stands for, if that is a whole declaration and all of an item's head;
// "" else.
func (p *slicer) expand(head string) string {
	head = strings.TrimSpace(head)
	call := macroCallRE.FindStringSubmatch(head)
	if call == nil || !strings.HasSuffix(head, ")") {
		return ""
	}
	m := p.macros[call[1]]
	if !strings.HasSuffix(strings.TrimRight(m.body, "; \t"), "}") {
		return ""
	}
	values := splitArguments(head[len(call[0]) : len(head)-1])
	by := map[string]string{}
	for i, param := range m.params {
		param = strings.TrimSpace(param)
		if name, rest := strings.CutSuffix(param, "..."); rest && i < len(values) {
			by[cmp.Or(name, "__VA_ARGS__")] = strings.Join(values[i:], ",")
		} else if i < len(values) {
			by[param] = values[i]
		}
	}
	text := identifierRE.ReplaceAllStringFunc(m.body, func(name string) string {
		if value, ok := by[name]; ok {
			return value
		}
		return name
	})
	return pasteRE.ReplaceAllString(text, "")
}

var (
	macroCallRE = regexp.MustCompile(`^(\w+)\s*\(`)
	pasteRE     = regexp.MustCompile(`\s*##\s*`)
)

// splitArguments divides the arguments of a macro at the commas outside of brackets.
func splitArguments(text string) (all []string) {
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				all, from = append(all, strings.TrimSpace(text[from:i])), i+1
			}
		}
	}
	return append(all, strings.TrimSpace(text[from:]))
}

// condition keeps the depth of brackets at an #if, to which #else goes back.
func (p *slicer) condition(line string, levels [][2]int, depth, braces *int) [][2]int {
	word := identifierRE.FindString(line)
	switch last := len(levels) - 1; {
	case strings.HasPrefix(word, "if"):
		return append(levels, [2]int{*depth, *braces})
	case last < 0:
	case strings.HasPrefix(word, "el"):
		*depth, *braces = levels[last][0], levels[last][1]
	case word == "endif":
		return levels[:last]
	}
	return levels
}

// isFunction says whether an item with this head ends with its body in braces.
func isFunction(head string) bool {
	head = withoutTemplate(head)
	return !classRE.MatchString(head) && strings.Contains(head, "(") && !hasInitializer(head)
}

// hasInitializer says whether a head has a = outside of brackets that is not part of operator=.
func hasInitializer(head string) bool {
	depth := 0
	for i, c := range head {
		switch c {
		case '(', '[', '<':
			depth++
		case ')', ']', '>':
			depth--
		case '=':
			if depth <= 0 && !strings.Contains(head[:i], "operator") {
				return true
			}
		}
	}
	return false
}

// withoutTemplate cuts off template<...> ahead of a declaration.
func withoutTemplate(head string) string {
	for {
		head = strings.TrimSpace(head)
		rest, ok := strings.CutPrefix(head, "template")
		if rest = strings.TrimSpace(rest); !ok || !strings.HasPrefix(rest, "<") {
			return strings.TrimPrefix(head, "template ")
		}
		depth, round := 0, 0
		for i, c := range rest {
			switch {
			case c == '(':
				round++
			case c == ')':
				round--
			case c == '<' && round == 0:
				depth++
			case c == '>' && round == 0 && rest[i-1] != '-':
				depth--
			}
			if depth == 0 && round == 0 && i > 0 {
				head = rest[i+1:]
				break
			}
			if i == len(rest)-1 {
				return ""
			}
		}
	}
}

// close finishes an item: it finds the names that it declares and uses.
func (p *slicer) close(x *item, end int, head string) int {
	x.end = end
	text := StripComments(p.text[x.start:end])
	x.uses = identifiers(text)
	if made := p.expand(head); made != "" {
		text = made
		x.uses = append(x.uses, identifiers(text)...)
		head, _, _ = strings.Cut(text, "{")
	}
	x.text = text
	head = withoutTemplate(head)
	isDevice := deviceRE.MatchString(text)
	function := isFunction(head)
	x.host = function && (launchRE.MatchString(text) || hostOnlyRE.MatchString(head) && !deviceRE.MatchString(head))
	switch {
	case strings.HasPrefix(head, "using namespace"):
		x.kept = true
	case regexp.MustCompile(`\boperator\b`).MatchString(head):
		x.device = isDevice
	case strings.HasPrefix(head, "using"):
		left, _, _ := strings.Cut(head, "=")
		all := identifierRE.FindAllString(left, -1)
		x.names = all[len(all)-1:]
	case strings.HasPrefix(head, "typedef"), classRE.MatchString(head):
		x.names = classNames(head, text)
	default:
		x.names = declaredNames(head)
	}
	p.items = append(p.items, x)
	return end
}

// pointerRE finds the name of a typedef of a pointer to functions.
var pointerRE = regexp.MustCompile(`\(\s*\*\s*(\w+)`)

// keywords may stand before the name of a class.
var keywords = strings.Fields("alignas class const constexpr enum final public private protected static struct typedef " +
	"union virtual void __align__ __device__ __host__")

// classNames returns the names of a class, an enum with its values, or a typedef.
func classNames(head, text string) (names []string) {
	text = StripComments(text)
	last := strings.LastIndexByte(text, '}')
	switch typedef := strings.HasPrefix(head, "typedef"); {
	case strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(head, "typedef")), "enum"):
		names = identifiers(text)
	case typedef && last < 0:
		all := identifierRE.FindAllString(head, -1)
		names = all[len(all)-1:]
		if m := pointerRE.FindStringSubmatch(head); m != nil {
			names = append(names, m[1])
		}
	default:
		head = strings.ReplaceAll(withoutBrackets(head, "()"), "::", " ")
		head, _, _ = strings.Cut(head, ":")
		head, _, _ = strings.Cut(head, "<")
		names = identifiers(head)
		if last >= 0 {
			names = append(names, identifiers(text[last:])...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(keywords, name) })
}

// withoutBrackets removes brackets, such as (1), with what is in them.
func withoutBrackets(text, brackets string) string {
	var b strings.Builder
	depth := 0
	for _, c := range text {
		switch {
		case c == rune(brackets[0]):
			depth++
		case c == rune(brackets[1]) && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// declaredNames returns the names that a head declares: of functions, before their parameters, or of
// variables.
func declaredNames(head string) (names []string) {
	depth, angles := 0, 0
	for i := 0; i < len(head); i++ {
		c := head[i]
		switch {
		case c == '<' && depth == 0:
			angles++
		case c == '>' && depth == 0 && angles > 0 && head[i-1] != '-':
			angles--
		case strings.IndexByte("([=;{,", c) >= 0:
			if depth == 0 && angles == 0 && !blockRE.MatchString(head[:i]) {
				if all := identifierRE.FindAllString(lastWord(head[:i]), -1); len(all) > 0 {
					names = append(names, all[len(all)-1])
				}
				if c == '=' || c == '{' {
					return names
				}
			}
			if c == '(' || c == '[' {
				depth++
			}
		case c == ')' || c == ']':
			depth--
		}
	}
	if all := identifierRE.FindAllString(lastWord(head), -1); len(all) > 0 && len(names) == 0 {
		names = append(names, all[len(all)-1])
	}
	return names
}

// lastWord returns the word behind the last blank outside of <>, without template arguments.
func lastWord(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasSuffix(text, ">") {
		depth := 0
		for i := len(text) - 1; i >= 0; i-- {
			switch text[i] {
			case '>':
				depth++
			case '<':
				depth--
			}
			if depth == 0 {
				text = strings.TrimSpace(text[:i])
				break
			}
		}
	}
	return text[strings.LastIndexAny(text, " \t\n*&")+1:]
}

func identifiers(text string) []string {
	all := identifierRE.FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

// blank overwrites an item with blanks; its directives and line ends stay.
func (p *slicer) blank(out []byte, x *item) {
	for i := x.start; i < x.end; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	for _, d := range p.directives {
		if d[0] >= x.start && d[1] <= x.end {
			copy(out[d[0]:d[1]], p.text[d[0]:d[1]])
		}
	}
}
