//go:build race

package verdict

func init() { light = true }
