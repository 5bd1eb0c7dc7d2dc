package trim

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapFiles makes the system forget which pages of mapped files this process has used: of the program itself and of
// etcd's database. The initialization of packages touches nearly the whole program, etcd asks for the whole database, and
// what is needed afterwards is a fifth. It comes back from the page cache with its next use; the rest no longer counts as
// memory of the process, and the system may use it for something else.
func unmapFiles() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // not every sandbox has it
	}
	defer f.Close()
	for _, m := range unmodified(f) {
		// An error means that the pages stay mapped.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

type mapping struct{ from, to uintptr }

// unmodified returns the mappings of files that cannot be written and have no page that differs from the file. A page that
// differs would be lost: relocations made before the mapping became read-only, a debugger's breakpoints.
func unmodified(smaps io.Reader) []mapping {
	var out []mapping
	var m mapping
	readOnly := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		words := strings.Fields(s.Text())
		switch {
		case len(words) < 2:
		case !strings.HasSuffix(words[0], ":"): // FROM-TO PERMISSIONS OFFSET DEVICE INODE PATH
			_, err := fmt.Sscanf(words[0], "%x-%x", &m.from, &m.to)
			readOnly = err == nil && strings.HasPrefix(words[1], "r-") && len(words) > 5 && strings.HasPrefix(words[5], "/")
		case readOnly && words[0] == "Anonymous:" && words[1] == "0":
			out = append(out, m)
		}
	}
	return out
}
