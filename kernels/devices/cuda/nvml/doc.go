// Package nvml reads the state of a GPU from NVML, the library behind nvidia-smi: clocks, power,
// temperature, why the clocks are down, and who else computes there. It is what
// kernels.Reading.Unfit judges. It is the only package that imports github.com/NVIDIA/go-nvml.
//
// It only reads. Every call goes through the interfaces library and device, which hold getters
// and nothing else, and a test keeps them so. (go-nvml itself has wrappers for all of NVML, and
// the linker keeps them; nothing here can reach them.)
//
// # Without NVML
//
// go-nvml needs cgo, so without the build tag "cuda" the package is empty. With the tag,
// libnvidia-ml.so.1 is loaded by Open and not linked: a program starts without it. That rests on
// lazy binding, as go-nvml leaves its names undefined. A name that an older driver lacks would end
// the process when it is called, so each one is asked for first.
//
// # When to read
//
// An idle GPU lowers its clock within milliseconds, so a reading is about a measurement only if
// it is taken while kernels run. Power is an average over up to a second on recent GPUs.
//
// # Processes
//
// NVML lists process ids of the host. In a container with process ids of its own they mean
// nothing, and the own processes cannot be told by them. There, for each own process that is not
// found by its id, the largest process without an entry in /proc is taken for it. So another's
// process can be overlooked while the own one computes nothing.
package nvml
