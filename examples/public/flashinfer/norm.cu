// FlashInfer's kernels as they stand. --include names the folder include of a checkout, or data/include
// of the installed package.
#include <flashinfer/norm.cuh>
