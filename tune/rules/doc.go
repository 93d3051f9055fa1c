// Package rules turns the records of a sweep into a launch rule set: a short
// list of boxes over the columns and the rows per SM of a problem,
// each with the variant to run there. A table of winners (package tune) knows
// the problems that were measured and no others; rules answer for what lies
// between them, and an engineer can read them in a review.
//
//	records -> Collect -> Data -> Fit -> launchrule.Set
//	                      Data -> Evaluate -> Evaluation (held-out regret)
//
// Package launchrule says what a rule is. Exported rules cannot ask what a family refuses.
// Fit therefore asks the registry for the problems of a lattice over each box
// and narrows the box to what is accepted.
//
// # How they are found
//
// The regret of an answer is its time over the best that is known for the
// problem. Fit cuts the plane of (N, M) into boxes by the dynamic program over
// all rectangles of measured shapes, and takes the cut and the variants with the
// least sum of log regret plus a price per rule; see fit.go. Three things keep
// it from learning noise: the price, a ban on variants that lose to the default
// by more than the tie band on any shape of the box, and trust: what the held-out
// shapes say is used to leave to the default what does not carry over (trust.go).
//
// A variant without a time for a problem is one of three things. Refused: the
// rule falls to the default there. An alias, whose plan is that of a measured
// variant: it has that one's time. Otherwise its time is unknown, and no rule
// that covers the problem may take it.
package rules
