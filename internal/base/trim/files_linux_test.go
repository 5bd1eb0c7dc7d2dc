package trim

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	want := []mapping{{0x400000, 0x24b5000}}
	got := unmodified(strings.NewReader(smaps), "/usr/bin/kanzen")
	if !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// The program goes on as before without its pages in memory: some of them come back with the next call.
func TestUnmapProgram(t *testing.T) {
	before := programResident(t)
	unmapProgram()
	if after := programResident(t); after >= before {
		t.Errorf("%d kB of the program are resident, before there were %d", after, before)
	}
}

// programResident is how much of this program's read-only mappings is resident, in kB.
func programResident(t *testing.T) (kB int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	counts := false
	for line := range strings.Lines(string(smaps)) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(words[0], ":"):
			counts = len(words) > 5 && words[5] == path && strings.HasPrefix(words[1], "r-")
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
