package trim

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// program is the file that this process runs.
type program struct {
	asked bool
	pages *os.File // of byPage; nil: the system has refused
}

// close lets the system map the program as it likes.
func (p *program) close() {
	if p.pages != nil {
		_ = p.pages.Close()
	}
}

// unmap makes the system forget which pages of the program this process has used. The initialization of packages
// touches nearly all of them, and what is needed afterwards is a fifth. It comes back from the page cache with its next use; the
// rest no longer counts as memory of the process, and the system may use it for something else. Other files are left alone: what
// is mapped where etcd's database was a moment ago may be memory that is in use.
func (p *program) unmap() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return // not every sandbox has it
	}
	defer f.Close()
	mappings := unmodified(f, path)
	if !p.asked {
		p.asked = true
		p.pages = byPage(mappings)
	}
	for _, m := range mappings {
		// An error means that the pages stay mapped.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

type mapping struct{ from, to uintptr }

// unmodified returns the mappings of a file that cannot be written and have no page that differs from the file. A page that
// differs would be lost: relocations made before the mapping became read-only, a debugger's breakpoints.
func unmodified(smaps io.Reader, path string) []mapping {
	var out []mapping
	var m mapping
	readOnly := false
	for s := bufio.NewScanner(smaps); s.Scan(); {
		words := strings.Fields(s.Text())
		switch {
		case len(words) < 2:
		case !strings.HasSuffix(words[0], ":"): // FROM-TO PERMISSIONS OFFSET DEVICE INODE PATH
			_, err := fmt.Sscanf(words[0], "%x-%x", &m.from, &m.to)
			readOnly = err == nil && strings.HasPrefix(words[1], "r-") && len(words) > 5 && words[5] == path
		case readOnly && words[0] == "Anonymous:" && words[1] == "0":
			out = append(out, m)
		}
	}
	return out
}
