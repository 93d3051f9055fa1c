// Package nvrtc turns CUDA C++ source into cubins at run time and keeps them in a
// cache that is addressed by content. It needs no GPU and no CUDA driver, only the
// NVRTC shared library, so a machine without an accelerator can compile every kernel.
//
// # Compiling
//
// [Find] looks for the library and [Open] loads a given file. The library is loaded
// with dlopen and called without cgo, because its soname differs between CUDA versions
// (libnvrtc.so.11.2, .12, .13): a program that links it runs with one of them only.
//
// [Compiler.Compile] asks for machine code of one architecture ("sm_90"), never for PTX.
// The driver would compile PTX again on load, with its own ptxas, which is slow and means
// that what is measured depends on the driver. The resource report (registers, shared
// memory, spills) is read from the log of ptxas.
//
// NVRTC gains nothing from more than eight threads of one process. A [Pool] compiles in as many
// helper processes as there are cores.
//
// A file with host code is compiled as far as a kernel reaches (device.go, slice.go), with standard
// headers that NVRTC lacks (shim.go), or whole by nvcc (nvcc.go). Kernels are found by their names in
// C++ (symbols.go).
//
// # Caching
//
// A [Cache] compiles a thing once per directory. The key covers all inputs:
// source text, headers, those of include folders too, options, architecture and the version of
// NVRTC. An entry that was torn or damaged is noticed by its checksum and compiled again.
//
// NVRTC is available on Linux (amd64 and arm64) here; elsewhere Find and Open return an error that
// wraps [ErrNotFound] and everything else still works.
package nvrtc
