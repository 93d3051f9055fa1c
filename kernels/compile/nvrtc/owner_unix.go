//go:build unix

package nvrtc

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// otherWriter says who else may have written a file, "" for nobody.
func otherWriter(st fs.FileInfo) string {
	owner, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case ok && owner.Uid != 0 && int(owner.Uid) != os.Getuid():
		return fmt.Sprintf("user %d owns it", owner.Uid)
	case st.Mode().Perm()&0o022 != 0:
		return "others may write it"
	}
	return ""
}
