package trim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page that is used comes alone, without those around it.
func TestByPage(t *testing.T) {
	const pages = 64
	size := pages * os.Getpagesize()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(data) }()
	from := uintptr(unsafe.Pointer(&data[0]))
	tracker := byPage([]mapping{{from, from + uintptr(size)}})
	if tracker == nil {
		t.Skip("this system does not allow it")
	}
	defer tracker.Close()
	if data[size/2] != 0 {
		t.Error("the file does not have what was written")
	}
	if got, want := residentOf(t, path), os.Getpagesize()/1024; got != want {
		t.Errorf("%d kB are resident after one page was used, want %d", got, want)
	}
}

// residentOf is how much of a mapped file is resident, in kB.
func residentOf(t *testing.T, path string) (kB int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	counts := false
	for line := range strings.Lines(string(smaps)) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(words[0], ":"):
			counts = len(words) > 5 && words[5] == path
		case counts && words[0] == "Rss:":
			n, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(err)
			}
			kB += n
		}
	}
	return kB
}
