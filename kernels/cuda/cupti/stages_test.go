package cupti

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// acts makes activities of stream 7 from words such as "k1:100-150".
func acts(t testing.TB, line string) (list []Activity) {
	for i, word := range strings.Fields(line) {
		name, times, _ := strings.Cut(word, ":")
		a := Activity{Kind: Kernel, Name: name, StreamID: 7, CorrelationID: uint32(i)}
		if name == "memset" || name == "memcpy" {
			a.Kind = Kind(name)
		}
		if _, err := fmt.Sscanf(times, "%d-%d", &a.StartNS, &a.EndNS); err != nil {
			t.Fatal(word, err)
		}
		list = append(list, a)
	}
	return list
}

func TestStages(t *testing.T) {
	for _, tt := range []struct {
		name, acts, launches string
		samples              int
		stages, gaps         string // in ns
		err                  string
	}{
		{"one", "k1:100-150", "k1", 1, "[[50]]", "[]", ""},
		{"two launches", "k1:100-150 k2:160-190 k1:200-260 k2:275-280", "k1 k2", 2, "[[50 60] [30 5]]", "[[10 15]]", ""},
		{"skipped", "spin:1-50 flush:60-90 k1:100-150 flush:155-190 k1:200-260", "k1", 2, "[[50 60]]", "[]", ""},
		{"out of order", "k2:160-190 k1:100-150", "k1 k2", 1, "[[50] [30]]", "[[10]]", ""},
		{"overlap", "k1:100-150 k2:140-190", "k1 k2", 1, "[[50] [50]]", "[[-10]]", ""},
		{"same start", "k1:100-150 k2:100-190", "k1 k2", 1, "[[50] [90]]", "[[-50]]", ""},
		{"kinds", "memset:1-3 k1:4-5 memcpy:7-9", "memset k1 memcpy", 1, "[[2] [1] [2]]", "[[1] [2]]", ""},
		{"mangled", "_Z2k1Pf:1-3 _ZN4norm2k2EPf:4-5", "k1 k2", 1, "[[2] [1]]", "[[1]]", ""},
		{"same kernel twice", "k:1-3 k:4-5", "k k", 1, "[[2] [1]]", "[[1]]", ""},

		{"none", "", "k1", 2, "", "", "0 activities, want 2 samples of 1 launches"},
		{"all skipped", "flush:1-2", "k1", 2, "", "", "0 activities, want 2 samples of 1 launches"},
		{"too few", "k1:1-2 k2:3-4 k1:5-6", "k1 k2", 2, "", "", "3 activities, want 2 samples of 2 launches"},
		{"too many", "k1:1-2 k1:3-4", "k1", 1, "", "", "k1 ran after the 1 samples of 1 launches"},
		{"another", "k1:1-2 k2:3-4 k1:5-6 k3:7-8", "k1 k2", 2, "", "", "launch 2 of sample 2 was k3, want k2"},
		{"swapped", "k2:1-2 k1:3-4", "k1 k2", 1, "", "", "launch 1 of sample 1 was k2, want k1"},
		{"a part of the name", "k12:1-2", "k1", 1, "", "", "launch 1 of sample 1 was k12, want k1"},
		{"memset for kernel", "memset:1-2", "k1", 1, "", "", "launch 1 of sample 1 was memset, want k1"},
		{"no launches", "k1:1-2", "", 1, "", "", "1 samples of 0 launches"},
		{"no samples", "k1:1-2", "k1", 0, "", "", "0 samples of 1 launches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stages, gaps, err := Stages(acts(t, tt.acts), strings.Fields(tt.launches), tt.samples, func(name string) bool {
				return name == "flush" || name == "spin"
			})
			if tt.err != "" {
				if stages != nil || gaps != nil || err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || ns(stages) != tt.stages || ns(gaps) != tt.gaps {
				t.Errorf("got %s, %s, %v, want %s, %s", ns(stages), ns(gaps), err, tt.stages, tt.gaps)
			}
		})
	}
	// A kernel that somebody named memset is not one.
	if _, _, err := Stages([]Activity{{Kind: Kernel, Name: "memset"}}, []string{"memset"}, 1, nil); err == nil {
		t.Error("a kernel passes for a memset")
	}
	two := acts(t, "k1:1-2 k1:3-4")
	two[1].StreamID = 8
	if _, _, err := Stages(two, []string{"k1"}, 2, nil); err == nil || err.Error() != "k1 ran in stream 8, others in stream 7" {
		t.Errorf("got %v", err)
	}
	// The argument is left as it is.
	list := acts(t, "k2:160-190 k1:100-150")
	before := slices.Clone(list)
	if _, _, err := Stages(list, []string{"k1", "k2"}, 1, nil); err != nil || !reflect.DeepEqual(list, before) {
		t.Errorf("%v, %v", list, err)
	}
}

func ns(seconds [][]float64) string {
	out := make([][]int, len(seconds))
	for j := range seconds {
		for _, s := range seconds[j] {
			out[j] = append(out[j], int(s*1e9+1e6+0.5)-1e6)
		}
	}
	return fmt.Sprint(out)
}

func TestUnqualified(t *testing.T) {
	for name, want := range map[string]string{
		"_Z1kPf":                  "k",
		"_ZL1kPf":                 "k",
		"_ZN4norm1kEPf":           "k",
		"_ZN12_GLOBAL__N_11kEPf":  "k",
		"_ZN4norm1kILi4EfEEvPT0_": "k",
		"_Z1kILi4EEvPf":           "k",
		"_Z12rms_fwd_warpPKfPfll": "rms_fwd_warp",
		"k":                       "",
		"":                        "",
		"_Z":                      "",
		"_ZN":                     "",
		"_Z9k":                    "",
		"_Z99999999999999999999k": "",
		"_Z0k":                    "",
	} {
		if got := unqualified(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
