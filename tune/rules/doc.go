// Package rules turns the records of a sweep into a launch rule set: a short
// list of boxes over the columns and the rows per multiprocessor of a problem,
// each with the variant to run there. A table of winners (package tune) knows
// the problems that were measured and no others; rules answer for what lies
// between them, and an engineer can read them in a review.
//
//	records -> Collect -> Data -> Fit -> Set -> Write, Export, Pick
//	                      Data -> Evaluate -> Evaluation (held-out regret)
//	Ref -> Launches -> Set
//
// # What a rule is
//
// A Class is an op, a pass, with or without a bias, and the bytes of an element.
// Each has its rules in order. A rule fires for the problems in its box: N up to
// and above a bound, M per multiprocessor the same, and rows that start at a
// multiple of some bytes. The first that fires answers; where none does, and
// outside the measured hull, the answer is the default: the base that the
// families' own launch rules pick.
//
// Everything that decides is a number of the problem, so the rules exported as
// Go, Python or C++ answer as Pick does. What a family refuses is therefore in
// the boxes: Fit asks the registry for the problems of a lattice over each box
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
//
// # Launches
//
// What the default or another Ref launches for one number of columns is a step function of
// the rows, with a condition such as "M is a multiple of 4" here and there. Launches finds
// the steps by asking (ranges.go) and writes them as rules whose boxes bound the rows
// themselves. Nothing is measured for that, and where no rule fires nothing is said.
package rules
