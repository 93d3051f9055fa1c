package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"normbench/kernels"
)

// A language is how code says data, and the function that looks it up.
type language struct {
	comment     string
	open, close string // of a list
	pair        string // format of a key with its value
	begin       string // of a line in the function's comment
	code        string // with @NAME@ for data
}

// code is the data with the function.
func (x *export) code(l language) string {
	var about strings.Builder
	for _, line := range x.About {
		about.WriteString(strings.TrimSpace(l.comment+" "+line) + "\n")
	}
	list := func(items []string) string { return wrapped(items, l.open, l.close) }
	texts := func(items []string) string {
		quoted := make([]string, len(items))
		for i, s := range items {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		return list(quoted)
	}
	var index []string
	for _, key := range slices.Sorted(maps.Keys(x.Index)) {
		index = append(index, fmt.Sprintf("%q", key+" "+join(x.Index[key])))
	}
	var prefixes []string
	for _, s := range kernels.Ops() {
		prefixes = append(prefixes, fmt.Sprintf(l.pair, s.Op, s.Short+"_"))
	}
	return strings.NewReplacer(
		"@ARGUMENTS@", arguments(l.begin), "@PREFIXES@", strings.Join(prefixes, ", "),
		"@FP8T@", fmt.Sprint(bitOf("fp8t")), "@UNEVEN@", fmt.Sprint(bitOf(uneven)), "@SHARED@", fmt.Sprint(shared()),
		"@ABOUT@", about.String(), "@ALPHABET@", fmt.Sprintf("%q", x.Alphabet), "@DIGITS@", fmt.Sprint(x.Digits),
		"@FAMILIES@", texts(x.Families), "@CONFIGS@", texts(x.Configs), "@COLUMNS@", list(strings.Split(join(x.Columns), ",")),
		"@ROWS@", list(strings.Split(join(x.Rows), ",")), "@LINES@", texts(x.Lines), "@RASTERS@", texts(x.Rasters), "@INDEX@", list(index),
		"@MAXM@", fmt.Sprint(MaxM), "@MINN@", fmt.Sprint(MinN), "@MAXN@", fmt.Sprint(MaxN), "@MAXELEMS@", fmt.Sprint(MaxElems),
	).Replace(l.code)
}

func join[T any](list []T) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

// wrapped is a list in lines of some 120 characters.
func wrapped(items []string, open, close string) string {
	var b strings.Builder
	b.WriteString(open)
	for wide, i := 120, 0; i < len(items); i++ {
		if wide += len(items[i]) + 1; wide > 120 {
			b.WriteByte('\n')
			wide = len(items[i])
		}
		b.WriteString(items[i] + ",")
	}
	return b.String() + "\n" + close
}

// arguments explains those of the function, in lines that begin with a text.
func arguments(begin string) string {
	var ops, sum []string
	for _, s := range kernels.Ops() {
		ops = append(ops, fmt.Sprintf("%q", s.Op))
	}
	for _, o := range kernels.Options() {
		sum = append(sum, fmt.Sprint(bitOf(o.Name), " ", o.Noun))
	}
	return "op is " + strings.Join(ops, " or ") + `, pass_ "fwd" or "bwd", ` + "\n" + begin +
		`dtype that of x ("bf16", "fp16" or "fp32"). options are a sum: ` + "\n" + begin +
		strings.Join(sum[:len(sum)/2], ", ") + ",\n" + begin + strings.Join(sum[len(sum)/2:], ", ") + "."
}

// shared is the sum of the options with and without which problems share a raster.
func shared() (sum int) {
	for _, o := range kernels.Options() {
		if o.Alike {
			sum += bitOf(o.Name)
		}
	}
	return sum
}

var python = language{
	comment: "#", open: "[", close: "]", pair: "%q: %q", begin: "    ",
	code: `@ABOUT@
_ALPHABET = @ALPHABET@
_FAMILIES = @FAMILIES@
_CONFIGS = @CONFIGS@
_COLUMNS = @COLUMNS@
_ROWS = @ROWS@
_LINES = @LINES@
_RASTERS = @RASTERS@
_INDEX = @INDEX@


def pick(op, pass_, m, n, dtype, options=0):
    """The launch config for m rows of n elements, as a dict of the family and its knobs, or None outside.

    @ARGUMENTS@
    """
    if m < 1 or m > @MAXM@ or n < @MINN@ or n > @MAXN@ or m * n > @MAXELEMS@:
        return None

    def number(text, i):
        v = 0
        for c in text[i * @DIGITS@:(i + 1) * @DIGITS@]:
            v = v * len(_ALPHABET) + _ALPHABET.index(c)
        return v

    size = 4 if dtype == "fp32" else 2
    if options & @FP8T@ and (m % 16 or n % 128):
        options |= @UNEVEN@
    key = f"{op} {pass_} {size} {options & ~@SHARED@} "
    rasters = next((t[len(key):].split(",") for t in _INDEX if t.startswith(key)), None)
    row = n * size
    if rasters is None:
        return None
    raster = _RASTERS[int(rasters[4 - min((row & -row).bit_length() - 1, 4)])]
    line = ""
    for i in range(0, len(raster) // @DIGITS@, 2):
        if _COLUMNS[number(raster, i)] <= n:
            line = _LINES[number(raster, i + 1)]
    for i in range(0, len(line) // @DIGITS@, 2):
        if m <= _ROWS[number(line, i + 1)]:
            family, *values = map(int, _CONFIGS[number(line, i)].split(","))
            name, *knobs = _FAMILIES[family].split()
            launch = {"family": name.replace("*", {@PREFIXES@}[op])}
            values = iter(values)
            for knob, _, fixed in (k.partition("=") for k in knobs):
                launch[knob] = int(fixed) if fixed else next(values)
            return launch
    return None
`}

var golang = language{
	comment: "//", open: "{", close: "}", pair: "%q: %q", begin: "// ",
	code: `@ABOUT@
package launch

import (
	"fmt"
	"strconv"
	"strings"
)

const alphabet = @ALPHABET@

var (
	families = []string@FAMILIES@
	configs = []string@CONFIGS@
	columns = []int64@COLUMNS@
	rows = []int64@ROWS@
	lines = []string@LINES@
	rasters = []string@RASTERS@
	index = []string@INDEX@
)

// A Launch is a family with its knobs.
type Launch struct {
	Family string
	Knobs  map[string]int
}

// Pick is the launch config for m rows of n elements; ok is false outside.
// @ARGUMENTS@
func Pick(op, pass_ string, m, n int64, dtype string, options int) (launch Launch, ok bool) {
	if m < 1 || m > @MAXM@ || n < @MINN@ || n > @MAXN@ || m*n > @MAXELEMS@ {
		return Launch{}, false
	}
	number := func(text string, i int) (v int) {
		for _, c := range []byte(text[i*@DIGITS@ : (i+1)*@DIGITS@]) {
			v = v*len(alphabet) + strings.IndexByte(alphabet, c)
		}
		return v
	}
	size, align := int64(2), 4
	if dtype == "fp32" {
		size = 4
	}
	for align > 0 && n*size%(1<<align) != 0 {
		align--
	}
	if options&@FP8T@ != 0 && (m%16 != 0 || n%128 != 0) {
		options |= @UNEVEN@
	}
	key := fmt.Sprintf("%s %s %d %d ", op, pass_, size, options&^@SHARED@)
	for _, text := range index {
		list, found := strings.CutPrefix(text, key)
		if !found {
			continue
		}
		at, _ := strconv.Atoi(strings.Split(list, ",")[4-align])
		raster, line := rasters[at], ""
		for i := 0; i < len(raster)/@DIGITS@ && columns[number(raster, i)] <= n; i += 2 {
			line = lines[number(raster, i+1)]
		}
		for i := 0; i < len(line)/@DIGITS@; i += 2 {
			if m > rows[number(line, i+1)] {
				continue
			}
			config := strings.Split(configs[number(line, i)], ",")
			family, _ := strconv.Atoi(config[0])
			names := strings.Fields(families[family])
			prefix := map[string]string{@PREFIXES@}[op]
			launch = Launch{strings.Replace(names[0], "*", prefix, 1), map[string]int{}}
			for _, name := range names[1:] {
				knob, value, fixed := strings.Cut(name, "=")
				if !fixed {
					value, config = config[1], config[1:]
				}
				launch.Knobs[knob], _ = strconv.Atoi(value)
			}
			return launch, true
		}
	}
	return Launch{}, false
}
`}

var cpp = language{
	comment: "//", open: "{", close: "}", pair: "{%q, %q}", begin: "// ",
	code: `#pragma once

@ABOUT@
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

namespace normbench {

inline const std::string alphabet = @ALPHABET@;
inline const char* const families[] = @FAMILIES@;
inline const char* const configs[] = @CONFIGS@;
inline const std::int64_t columns[] = @COLUMNS@;
inline const std::int64_t rows[] = @ROWS@;
inline const std::string lines[] = @LINES@;
inline const std::string rasters[] = @RASTERS@;
inline const std::string index[] = @INDEX@;

inline const std::map<std::string, std::string> prefixes = {@PREFIXES@};

// A family with its knobs; without a family there is no answer.
struct Launch {
  std::string family;
  std::map<std::string, int> knobs;
};

// The launch config for m rows of n elements.
// @ARGUMENTS@
inline Launch pick(const std::string& op, const std::string& pass_, std::int64_t m, std::int64_t n,
                   const std::string& dtype, int options = 0) {
  Launch launch;
  if (m < 1 || m > @MAXM@ || n < @MINN@ || n > @MAXN@ || m * n > @MAXELEMS@) return launch;
  auto number = [](const std::string& text, std::size_t i) {
    std::size_t v = 0;
    for (char c : text.substr(i * @DIGITS@, @DIGITS@)) v = v * alphabet.size() + alphabet.find(c);
    return v;
  };
  const std::int64_t size = dtype == "fp32" ? 4 : 2;
  int align = 4;
  while (align > 0 && n * size % (1 << align) != 0) align--;
  if ((options & @FP8T@) && (m % 16 || n % 128)) options |= @UNEVEN@;
  std::ostringstream key;
  key << op << ' ' << pass_ << ' ' << size << ' ' << (options & ~@SHARED@) << ' ';
  for (const std::string& text : index) {
    if (text.compare(0, key.str().size(), key.str()) != 0) continue;
    std::istringstream list(text.substr(key.str().size()));
    std::string at;
    for (int i = align; i <= 4; i++) std::getline(list, at, ',');
    const std::string& raster = rasters[std::atoi(at.c_str())];
    std::string line;
    for (std::size_t i = 0; i < raster.size() / @DIGITS@ && columns[number(raster, i)] <= n; i += 2)
      line = lines[number(raster, i + 1)];
    for (std::size_t i = 0; i < line.size() / @DIGITS@; i += 2) {
      if (m > rows[number(line, i + 1)]) continue;
      std::istringstream config(configs[number(line, i)]);
      std::getline(config, at, ',');
      std::istringstream names(families[std::atoi(at.c_str())]);
      names >> launch.family;
      if (launch.family[0] == '*') launch.family.replace(0, 1, prefixes.at(op));
      for (std::string knob; names >> knob;) {
        const std::size_t fixed = knob.find('=');
        if (fixed == std::string::npos) std::getline(config, at, ',');
        else at = knob.substr(fixed + 1);
        launch.knobs[knob.substr(0, fixed)] = std::atoi(at.c_str());
      }
      return launch;
    }
  }
  return launch;
}

}  // namespace normbench
`}
