package nvrtc

import (
	"regexp"
	"slices"
	"strings"
)

// A Signature is a kernel as its source declares it.
type Signature struct {
	Name     string   // with its namespaces, as far as the file shows them
	Template []string // template parameters, as they are written
	Params   []CParam
	Shared   bool // it has dynamic shared memory
}

// A CParam is a parameter of a kernel: its type and its name.
type CParam struct{ Type, Name string }

// Parameters returns the list of parameters in brackets, as C writes it, whatever the blanks of the source.
func (g *Signature) Parameters() string {
	var list []string
	for _, p := range g.Params {
		one := strings.NewReplacer(" *", "*", " &", "&").Replace(p.Type)
		stars := one[len(strings.TrimRight(one, "*&")):]
		list = append(list, strings.TrimSuffix(one, stars)+" "+stars+p.Name)
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// Signatures lists the kernels that a file declares, in order.
func (s Source) Signatures() (all []Signature) {
	for _, x := range slice(s.Text).items {
		if !strings.Contains(x.text, "__global__") || len(x.names) == 0 {
			continue
		}
		head, body, _ := strings.Cut(x.text, "{")
		if g, ok := signature(head); ok {
			g.Shared = dynamicRE.MatchString(body)
			g.Name = strings.Join(append(namedScopes(x.scopes), g.Name), "::")
			all = append(all, g)
		}
	}
	return all
}

var (
	dynamicRE = regexp.MustCompile(`\bextern\b[^;]*__shared__|\bgetPointer\s*\(`)
	boundsRE  = regexp.MustCompile(`__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)`)
)

// namedScopes returns the scopes that have a name.
func namedScopes(scopes []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return name == "" })
}

// signature reads the head of a kernel.
func signature(head string) (g Signature, ok bool) {
	head = strings.Join(strings.Fields(boundsRE.ReplaceAllString(head, " ")), " ")
	rest := withoutTemplate(head)
	if list := strings.TrimSpace(strings.TrimSuffix(head, rest)); strings.HasPrefix(list, "template") {
		list = strings.TrimSpace(strings.TrimPrefix(list, "template"))
		g.Template = splitAtCommas(strings.TrimSuffix(strings.TrimPrefix(list, "<"), ">"))
	}
	open, last := -1, strings.LastIndexByte(rest, ')')
	for depth, i := 0, last; i >= 0; i-- { // the bracket that the last one closes
		switch rest[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth == 0 {
			open = i
			break
		}
	}
	if open < 0 || last < 0 {
		return g, false
	}
	names := identifierRE.FindAllString(lastWord(rest[:open]), -1)
	if len(names) == 0 {
		return g, false
	}
	g.Name = names[len(names)-1]
	for _, one := range splitAtCommas(rest[open+1 : last]) {
		one, _, _ = strings.Cut(one, "=")
		one = strings.TrimSpace(strings.NewReplacer("__restrict__", "", "__restrict", "", "__grid_constant__", "").Replace(one))
		name := lastWord(one)
		kind := strings.Join(strings.Fields(strings.TrimSpace(strings.TrimSuffix(one, name))), " ")
		if one != "" && one != "void" {
			g.Params = append(g.Params, CParam{kind, name})
		}
	}
	return g, true
}

// splitAtCommas splits a list at the commas outside of brackets.
func splitAtCommas(list string) (parts []string) {
	depth, from := 0, 0
	for i, c := range list {
		switch c {
		case '(', '<', '[', '{':
			depth++
		case ')', '>', ']', '}':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[from:i]))
				from = i + 1
			}
		}
	}
	if last := strings.TrimSpace(list[from:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}
