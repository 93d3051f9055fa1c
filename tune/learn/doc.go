// Package learn fills a device's map of launch answers within a budget of wall time. It is a loop
// around pure functions:
//
//	points -> Fill -> map             (model.go, fill.go: all that `map fill` needs)
//	points -> chooser -> batch        (choose.go: where to measure, and which variants)
//	batch -> sweep.Run -> records -> points (loop.go: the devices)
//	map -> Audit -> comparison        (audit.go: full searches of fresh problems)
//
// lab/notes/launch-map.md explains them. The ideas and their sources:
//
//   - kernel-weighted means: Nadaraya (1964) and Watson (1964)
//   - an archive of elites by place, whose children are tried nearby: MAP-Elites (Mouret and Clune, 2015)
//   - drawing from what is expected: Thompson (1933)
//   - dropping slow variants: racing (Maron and Moore, 1994; F-Race, Birattari et al., 2002)
//   - evidence beside each value: the tuning policies of CUB; databases of configs: MIOpen, CLBlast, vLLM
package learn
