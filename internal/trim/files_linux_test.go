package trim

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestUnmodified(t *testing.T) {
	const smaps = `00400000-024b5000 r-xp 00000000 fe:00 9978287                            /usr/bin/kanzen
Rss:               28280 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
VmFlags: rd ex mr mw me
024b5000-049ca000 r--p 020b5000 fe:00 9978287                            /usr/bin/kanzen
Anonymous:             4 kB
049ca000-04abb000 rw-p 045ca000 fe:00 9978287                            /usr/bin/kanzen
Anonymous:             0 kB
2ab471000000-2ab472c00000 r--p 00000000 00:00 0 
Anonymous:             0 kB
7fd14b620000-7fd14ba00000 r--s 00000000 fe:00 12                         /data/etcd/member/snap/db (deleted)
Anonymous:             0 kB
7ffd14b62000-7ffd14b64000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x24b5000}, {0x7fd14b620000, 0x7fd14ba00000}}
	got := unmodified(strings.NewReader(smaps))
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%x, want %x", got, want)
	}
}

// TestUnmapFiles has a file mapped as etcd maps its database, and one whose mapping was written to before it became read-only.
func TestUnmapFiles(t *testing.T) {
	content := bytes.Repeat([]byte("kanzen"), 4096)
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shared, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(shared) }()
	written, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(written) }()
	copy(written, "changed")
	if err := unix.Mprotect(written, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}

	if got := resident(t, shared); got == "0 kB" {
		t.Error("nothing of the file is resident from the beginning")
	}
	unmapFiles()
	if got := resident(t, shared); got != "0 kB" {
		t.Errorf("%s of the file are resident", got)
	}
	if !bytes.Equal(shared, content) || string(written[:7]) != "changed" {
		t.Error("what is mapped has changed")
	}
}

// resident is how much of a mapping this process has, as the system says it.
func resident(t *testing.T, b []byte) string {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(smaps), fmt.Sprintf("%08x-", uintptr(unsafe.Pointer(&b[0]))))
	_, rest, ok := strings.Cut(rest, "Rss:")
	if !ok {
		t.Fatal("the mapping is not listed")
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
