// Package peers measures other people's kernels under our protocol: the libraries
// of the folder libraries (torch, torch.compile, cuDNN, Liger, quack, flash-attn, fla, mamba,
// apex, TransformerEngine, Fast-LLM), and functions of users' files.
//
// peers.py is a worker (package worker) that needs a Python with PyTorch and
// nothing else. Its parts are in the folder peerbench: timing.py says what it times.
// Start runs it, and Join makes one device of it and of ours: variants of the families peer/NAME go to the
// Python process, all others to ours, so that a sweep, a duel or a check has arms
// of both kinds and need not know. Two processes share the GPU, one at a time:
// every request is answered before the next one is made.
//
// Peers that compile at run time do so beforehand: Prepare runs peers.py in as
// many processes more as there are cores, while nothing is timed. They fill the
// caches that the one that measures reads, and choose nothing for it.
package peers
