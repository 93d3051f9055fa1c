package families

// The later launch rules of smem_pipe's backwards of many narrow rows: see base.go.

// narrowZones are for 100 rows and more to each multiprocessor, of 65 to 255 columns that are no power of two, at multiples of 4 bytes:
// the heads of attention, but for those of 64, 128 and 256 columns, which the other rules were read off. They had a tile for whole vectors that fit the next
// power of two, and rows at multiples of 8 bytes had none from 129 columns on: 91835x140 took 42.2 us in rmsnorm and 52.9 in
// layernorm, of 24.4 and 26.0. At 109 problems (H200, bf16, 20000, 90001 and
// 400000 rows, neighbours/narrow.jsonl.gz) the default was 8% behind the best of some 12 in rmsnorm and 14% in layernorm, and is 1% now.
var narrowZones = []zoneConfig{
	{zone{most: 128}, leave},
	{zone{over: 511}, leave},
	{zone{columns: powerOfTwo}, leave},
	{zone{below: 100}, leave},
	// Rows of whole vectors.
	{zone{op: rmsOp, most: 160, aligned: 16, xOver: 3. / 4}, at("br64.w8.k2.cp2.u2.st3")},
	{zone{op: rmsOp, most: 160, aligned: 16, least: 400}, at("br32.w8.k2.cp2.rl4.sa1")},
	{zone{op: rmsOp, most: 256, aligned: 16, xOver: 3. / 4}, at("br16.w8.k4.cp2.sa1")},
	{zone{op: rmsOp, most: 256, aligned: 16, least: 400}, at("br16.w8.k3.cp1.st3.sa1")},
	{zone{op: rmsOp, most: 256, aligned: 16}, leave},
	{zone{op: rmsOp, aligned: 16, xOver: 3. / 4}, at("br32.w8.k2.cp1.u2")},
	{zone{op: rmsOp, aligned: 16, least: 400}, at("br16.w8.k3.cp1.st3.sa1")},
	{zone{op: rmsOp, aligned: 16}, at("br8.w8.k2.cp1.st3.rl4.sa1")},
	{zone{op: lnOp, most: 160, aligned: 16, xOver: 3. / 4}, at("br16.w2.k8.cp2.sa1")},
	{zone{op: lnOp, most: 160, aligned: 16, least: 400}, at("br16.w4.k4.cp1.rl4")},
	{zone{op: lnOp, most: 160, aligned: 16}, leave},
	{zone{op: lnOp, most: 256, aligned: 16, xOver: 3. / 4}, at("br32.w8.k2.cp2.rl4.sa1")},
	{zone{op: lnOp, most: 256, aligned: 16, least: 400}, at("br32.w8.k2.cp1.u2.st3.rl4.sa1")},
	{zone{op: lnOp, most: 256, aligned: 16}, at("br16.w8.k2.cp1.rl4.sa1")},
	{zone{op: lnOp, most: 340, aligned: 16, xOver: 3. / 4}, at("br8.w2.k8.cp2")},
	{zone{op: lnOp, aligned: 16, xOver: 3. / 4}, at("br8.w4.k4.cp2.rl4")},
	{zone{op: lnOp, aligned: 16, least: 400}, at("br16.w4.k2.cp1.st3.sa1")},
	{zone{op: lnOp, aligned: 16}, at("br8.w4.k4.cp2.rl4")},
	// At multiples of 8 bytes.
	{zone{over: 400, aligned: 8}, leave},
	{zone{op: rmsOp, most: 256, aligned: 8, xOver: 3. / 4}, at("br16.w4.k6.cp1")},
	{zone{op: rmsOp, aligned: 8, xOver: 3. / 4}, at("br16.w4.k4.cp1")},
	{zone{op: rmsOp, aligned: 8, least: 400}, at("br16.w8.k4.cp1")},
	{zone{op: rmsOp, most: 256, aligned: 8}, at("br16.w4.k4.cp1")},
	{zone{op: rmsOp, aligned: 8}, at("br16.w8.k2.cp1")},
	{zone{op: lnOp, most: 256, aligned: 8, xOver: 3. / 4}, at("br16.w4.k4.cp1.st3.rl4.sa1")},
	{zone{op: lnOp, most: 256, aligned: 8, least: 400}, at("br16.w4.k4.cp1.u2.st3.rl4")},
	{zone{op: lnOp, most: 256, aligned: 8}, at("br16.w4.k4.cp1")},
	{zone{op: lnOp, aligned: 8, xOver: 3. / 4}, at("br16.w4.k4.cp1")},
	{zone{op: lnOp, aligned: 8}, at("br16.w4.k2.cp1.u2.st3.rl4.sa1")},
	// At multiples of 4.
	{zone{over: 350, aligned: 4}, leave},
	{zone{aligned: 4, xOver: 3. / 4}, at("br16.w8.k3.cp1.st3.sa1")},
	{zone{op: rmsOp, aligned: 4, least: 400}, at("br16.w8.k3.cp1.st3.sa1")},
	{zone{op: rmsOp, most: 256, aligned: 4}, at("br16.w8.k4.cp1")},
	{zone{op: lnOp, aligned: 4, least: 400}, leave},
	{zone{aligned: 4}, at("br8.w4.k4.cp1")},
}
