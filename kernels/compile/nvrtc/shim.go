package nvrtc

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Standard headers that kernels include and NVRTC lacks. Those of device code are made of CUDA's own
// C++ library, which lies beside CUDA's headers; those of host code are empty. A header of the same
// name in a folder comes first.

// deviceHeaders has headers of the standard library, each with CUDA's header that has the same.
var deviceHeaders = map[string]string{
	"algorithm": "", "array": "array", "bit": "bit", "bitset": "bitset",
	"climits": "climits", "cmath": "cmath", "complex": "complex", "cinttypes": "cstdint", "concepts": "concepts",
	"cstddef": "cstddef", "cstdint": "cstdint", "inttypes.h": "cstdint", "stdint.h": "cstdint", "functional": "functional",
	"initializer_list": "initializer_list", "iterator": "iterator", "limits": "limits",
	"limits.h": "climits", "math.h": "cmath", "numeric": "numeric", "optional": "optional",
	"ratio": "ratio", "span": "span", "stddef.h": "cstddef", "tuple": "tuple",
	"type_traits": "type_traits", "utility": "utility", "variant": "variant",
}

// hostHeaders are of no use to device code. NVRTC knows printf, assert and memcpy by itself.
var hostHeaders = strings.Fields("any assert.h atomic cassert cctype cerrno charconv chrono clocale codecvt " +
	"condition_variable crt/host_config.h crt/host_defines.h csignal cstdarg cstdio cstdlib cstring ctime ctype.h " +
	"cuda.h cwchar deque errno.h exception execution filesystem forward_list fstream future iomanip ios iosfwd " +
	"iostream istream list locale map memory memory.h mutex new ostream queue random regex scoped_allocator set " +
	"shared_mutex sstream stack stdarg.h stdexcept stdio.h stdlib.h streambuf string string.h string_view strstream " +
	"sys/time.h system_error thread time.h typeindex typeinfo unistd.h unordered_map unordered_set valarray vector")

// shims has the text of each replaced header.
var shims = func() map[string]string {
	all := map[string]string{}
	for name, from := range deviceHeaders {
		text := "#pragma once\n"
		if from != "" {
			text += "#include <cuda/std/" + from + ">\n"
		}
		all[name] = text + "namespace cuda { namespace std {} }\nnamespace std { using namespace cuda::std; }\n"
	}
	limits := "#pragma once\n"
	for _, of := range [][2]string{{"FLT_MAX", "3.402823466e+38f"}, {"FLT_MIN", "1.175494351e-38f"},
		{"FLT_EPSILON", "1.192092896e-07f"}, {"FLT_MANT_DIG", "24"}, {"DBL_MAX", "1.7976931348623158e+308"},
		{"DBL_MIN", "2.2250738585072014e-308"}, {"DBL_EPSILON", "2.2204460492503131e-16"},
		{"DBL_MANT_DIG", "53"}} {
		limits += "#ifndef " + of[0] + "\n#define " + of[0] + " " + of[1] + "\n#endif\n"
	}
	all["cfloat"], all["float.h"] = limits, limits
	all["algorithm"] = `#pragma once
#include <cuda/std/utility>
namespace std {
using namespace cuda::std;
template <typename T> constexpr T min(const T &a, const T &b) { return b < a ? b : a; }
template <typename T> constexpr T max(const T &a, const T &b) { return a < b ? b : a; }
}
`
	// nvcc's host library still has these two, which C++17 took out.
	all["functional"] += `namespace std {
template <typename A, typename R> struct unary_function { typedef A argument_type; typedef R result_type; };
template <typename A, typename B, typename R> struct binary_function {
  typedef A first_argument_type;
  typedef B second_argument_type;
  typedef R result_type;
};
}
`
	for _, name := range hostHeaders {
		all[name] = "#pragma once\n"
	}
	// CUB's umbrella has host code.
	all["cub/cub.cuh"] = `#pragma once
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
`
	return all
}()

// alwaysShimmed lists headers that are replaced even where a folder has them: CUDA's have host code.
var alwaysShimmed = []string{"cub/cub.cuh"}

// withShims adds all shims to a source, if it or one of its headers includes one: CUDA's headers may
// include others then.
func (s *includeCache) withShims(src Source, folders []string) Source {
	needs := false
	seen := map[string]bool{}
	var visit func(names []string)
	visit = func(names []string) {
		for _, name := range names {
			if _, own := src.Headers[name]; own || seen[name] || needs {
				continue
			}
			seen[name] = true
			if s.needsShim(folders, name) {
				needs = true
			} else if !IsCUDA(name) {
				visit(s.namesOf(folders, name))
			}
		}
	}
	visit(listIncludes(src.Text))
	for _, text := range src.Headers {
		visit(listIncludes(text))
	}
	if !needs {
		return src
	}
	headers := maps.Clone(src.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	for name, text := range shims {
		if _, own := headers[name]; !own && s.needsShim(folders, name) {
			headers[name] = text
		}
	}
	src.Headers = headers
	return src
}

// needsShim says whether a header must come from a shim, as no folder has it.
func (s *includeCache) needsShim(folders []string, name string) bool {
	_, ok := shims[name]
	return ok && (slices.Contains(alwaysShimmed, name) || !s.has(folders, name))
}

// has says whether a folder has a header.
func (s *includeCache) has(folders []string, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(folders, func(dir string) bool { return s.header(dir+"/"+name) != nil })
}

// namesOf returns the names that a header includes, by the first folder that has it.
func (s *includeCache) namesOf(folders []string, name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range folders {
		if h := s.header(dir + "/" + name); h != nil {
			return h.names
		}
	}
	return nil
}

// noFileRE finds the missing header in a log of NVRTC, or of nvcc's host compiler.
var noFileRE = regexp.MustCompile(`(?:could not|cannot) open source file "([^"]+)"|fatal error: ([^\s:]+): No such file`)

// missingHeader returns the header that a log says is missing, "" if it says something else.
func missingHeader(log string) string {
	if m := noFileRE.FindStringSubmatch(log); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// maxMissing is the most missing headers that are looked for.
const maxMissing = 60

// allMissing names all headers that a source lacks, given the first: with each one empty the compiler
// comes to the next.
func allMissing(src Source, first string, compile func(Source) (log string)) []string {
	src.Headers = maps.Clone(src.Headers)
	if src.Headers == nil {
		src.Headers = map[string]string{}
	}
	names := []string{}
	for name := first; name != "" && len(names) < maxMissing && !slices.Contains(names, name); {
		names = append(names, name)
		src.Headers[name] = ""
		name = missingHeader(compile(src))
	}
	return names
}
