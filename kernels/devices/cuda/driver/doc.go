// Package driver is a thin, typed layer over the CUDA driver API: gorgonia.org/cu, plus a few
// lines of C for what cu lacks (shared memory above 48 KiB, clusters, programmatic launches, and
// enqueueing many operations in one call). It is the only package that imports cu or uses cgo,
// and without the build tag "cuda" it is empty.
//
// # Threads
//
// A context belongs to the thread that opened it. The caller locks its goroutine to one OS
// thread (runtime.LockOSThread) before [Open] and makes every call from there. Nothing here
// starts goroutines or passes work through channels: that would put their latency between
// two launches.
//
// # Without a driver
//
// A program with the tag starts on any Linux machine. The functions of libcuda are not linked:
// trampoline.c defines each name that cu or this package calls as a jump through a pointer, and
// the pointers are filled by dlopen on the first call of [Count] or [Open]. Two things made
// that necessary. A program linked against libcuda.so.1 does not even start without it; and
// cu's init function calls os.Exit(1) when cuInit fails. Here that early cuInit succeeds and does
// nothing, so a program that never opens a device does not wake the driver either.
//
// Building needs cuda.h of CUDA 11.8 or later and a libcuda.so at link time, which
// scripts/cuda-env.sh provides. If a newer cu called a function that symbols.h does not list,
// the program would link libcuda.so.1 again: make cuda checks that it does not.
//
// # Errors
//
// A failed call is an [*Error]. After some errors (an illegal address, a launch timeout) the
// context is lost and every later call fails too: [IsSticky] tells those. Only a new process
// helps then.
package driver
