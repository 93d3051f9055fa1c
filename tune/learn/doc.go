// Package learn finds launch rules on a device within a budget of wall time. It is a loop around
// pure functions:
//
//	points -> Fit -> rules            (model.go, fit.go: the offline half, which `tune` uses too)
//	points, rules -> chooser -> batch (choose.go: where to measure, and which variants)
//	batch -> Lab -> records -> points (loop.go, lab.go: the device, at the edge)
//
// docs/learn.md explains the loop. The ideas and their sources:
//
//   - portfolio by greedy cover: Hydra (Xu, Hoos, Leyton-Brown, AAAI 2010); helion's AOT autotuning
//   - choosing per problem by features: SATzilla (Xu et al., JAIR 2008); MIOpen, CLBlast
//   - measuring where regret is expected: active learning (Settles, 2009); expected improvement (Jones et al., 1998)
//   - optimism about the unknown: upper confidence bounds (Auer et al., 2002)
//   - dropping slow variants: racing (Maron and Moore, 1994; F-Race, Birattari et al., 2002)
//   - kernel-weighted means: Nadaraya (1964) and Watson (1964)
//   - decision lists: Rivest (1987); PyTorch's AutoHeuristic
//   - judging before fitting: prequential estimates (Dawid, 1984)
//   - evidence beside each value: the tuning policies of CUB
package learn
