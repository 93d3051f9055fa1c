package families_test

// Configs that smem_pipe's grid leaves out: the fused sums of llm.c and of quack's
// first version, the order of rows, narrow partial rows, clusters on narrow rows.
// Eight threads to a row take every shape but the widest.
func init() {
	bwdRules["smem_pipe"] = []string{
		"fd1", "fd3", "ro1", "pt1", "ch2.lb1", "st1",
		"br4.w1.u1.fd2.p16",        // up to four groups of four
		"br4.w1.u1.fd2.p5.pt1",     // two of two, and one of one
		"br8.w1.u2.fd1.p4.ro1.cp1", // a CTA without rows
		"br4.w1.u1.cl2.p6",         // three clusters
		"br4.w1.u1.cl2.p6.fd2",     // and their sums in two levels
	}
}
