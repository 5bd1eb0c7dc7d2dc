package trim

import (
	"os"
	"slices"
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
func TestUnmap(t *testing.T) {
	before := programResident(t)
	var p program
	defer p.close()
	p.unmap()
	if after := programResident(t); after >= before {
		t.Errorf("%d kB of the program are resident, before there were %d", after, before)
	}
}

// programResident is how much of this program's mappings is resident, in kB.
func programResident(t *testing.T) int {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return residentOf(t, path)
}
