package cpu

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Linux describes the processor in files. Other systems get the fallbacks, which
// only make a flush larger than necessary and leave the memory check out.

const fallbackCache = 64 << 20

// cachePerCore is the most bytes per core that the last-level cache is taken to have: few processors
// have more. A virtual machine of two cores is told of all of its host's L3, of which others have the
// rest. With twice 480 MiB written before each sample a sweep of the smoke group took 4 minutes, with
// twice 32 it takes 10 seconds.
const cachePerCore = 16 << 20

// modelName returns the processor's name, or its architecture.
func modelName() string {
	return cmp.Or(procField("/proc/cpuinfo", "model name"), runtime.GOARCH)
}

// procField returns the first value under a name in a file of the operating system, "" if there is none.
func procField(file, name string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// lastLevelCache returns the size of the largest cache of core 0 in bytes.
func lastLevelCache() int64 {
	sizes, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*/size")
	var largest int64
	for _, f := range sizes {
		text, err := os.ReadFile(f)
		if err == nil {
			largest = max(largest, ParseSize(strings.TrimSpace(string(text))))
		}
	}
	return cmp.Or(largest, fallbackCache)
}

// ParseSize reads "32768K" and "32M", as Linux writes sizes of caches, as bytes; 0 where it is
// malformed.
func ParseSize(s string) int64 {
	shift := 0
	switch {
	case strings.HasSuffix(s, "K"):
		shift = 10
	case strings.HasSuffix(s, "M"):
		shift = 20
	}
	n, err := strconv.ParseInt(strings.TrimRight(s, "KM"), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n << shift
}

// memoryBytes returns the memory of the machine in bytes, 0 where nothing tells it.
func memoryBytes() int64 {
	return ParseSize(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB") + "K")
}
