// Package cupti takes the times of kernels, copies and memsets from CUPTI's activity records: when
// each began and ended on the GPU, by the GPU's own clock. Events, which the cuda device times
// with, also see the launch overhead between two kernels; these records do not, and show the gaps.
// So the one is a check of the other, and [Stages] turns records into the time of each launch.
//
// # Loading
//
// [Open] loads libcupti with dlopen, as its soname differs between CUDA versions; a program
// starts without it. Open needs the build tag "cuda".
// Calls go through purego. The two callbacks, which hand buffers to CUPTI and take them back, are
// C (buffers.c) and never enter Go. CUPTI asks for a buffer in the middle of a launch, on the
// thread that launches, and package driver launches by a C function that is marked nocallback: a
// callback into Go would end the program there, and cost time elsewhere.
//
// # Use
//
// CUPTI belongs to the process: there is one [Tracer], and it sees the launches of all threads
// and contexts. Whoever launches synchronizes before [Tracer.Stop]. Tracing makes launches
// slower, and CUPTI stays in the process when it ends, so measure with events before or elsewhere.
//
// # Layouts
//
// Records grow with every version, but at the end: the fields read here have stood at the same
// offsets since CUpti_ActivityKernel4 (CUDA 9.0). They were checked with the headers of CUPTI 11.8,
// 12.0, 12.9 and 13.0, see TestLayouts. CUPTI says where each record begins, so sizes do not matter.
// A version that is older than 11.8 or newer than 13 is refused.
package cupti
