package findings

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// Bounds from which storage is complained of.
const (
	nearlyFull   = 0.8
	almostFull   = 0.95
	littleSpace  = 512 << 20
	noSpace      = 64 << 20 // below it the embedded etcd refuses writes soon
	someWrites   = 10
	manyExtra    = 4 // times the interval of snapshots
	sizedFor     = 10 * time.Second
	largePart    = 0.5
	manyUnread   = 1
	oneHourQuiet = time.Hour
)

// faults are the certificates with a fault, read from time to time: that parses files.
type faults struct {
	at  time.Time
	all []Certificate
}

// sizes is what databases said of themselves last: they are not asked at every look.
type sizes struct {
	at  time.Time
	all []*v1alpha1.Datastore
	// definitions may be thousands.
	definitions []*v1alpha1.Definition
}

// storage looks at databases, disks, snapshots, and at how long writes take.
func (l *look) storage() {
	if l.sized.at.IsZero() || l.time.Sub(l.sized.at) >= sizedFor {
		l.sized = sizes{at: l.time, all: l.Parts.Datastores(l.ctx)}
		if l.Parts.Definitions != nil {
			l.sized.definitions = l.Parts.Definitions()
		}
	}
	for _, d := range l.sized.all {
		l.datastore(d)
	}
	for _, what := range slices.Sorted(maps.Keys(l.Directories)) {
		l.disk(what, l.Directories[what])
	}
	l.slowStorage()
	l.unreadable()
	l.snapshots()
}

func (l *look) datastore(d *v1alpha1.Datastore) {
	if d.Error != "" {
		f := l.find("DatastoreAway", v1alpha1.SeverityError, d.Name, "%s does not answer", d.Name)
		f.Impact, f.Cause = "writes and consistent reads fail", d.Error
		f.run("kubectl get --raw '/readyz?verbose'")
		return
	}
	if d.Quota <= 0 || float64(d.Bytes) < nearlyFull*float64(d.Quota) {
		return
	}
	part := float64(d.Bytes) / float64(d.Quota)
	severity, effect := v1alpha1.SeverityWarning, "when it is full, all writes are refused"
	if part >= almostFull {
		severity, effect = v1alpha1.SeverityError, "writes are refused, or will be at any moment"
	}
	f := l.find("DatastoreFull", severity, d.Name, "%s has used %.0f%% of its quota", d.Name, 100*part)
	f.Impact, f.Cause = effect, fmt.Sprintf("%d of %d MiB are allocated", d.Bytes>>20, d.Quota>>20)
	f.saw("%d MiB hold something now; a defragmentation gives back the rest", d.InUse>>20)
	if views := l.Parts.Views(); len(views) > 0 && views[0].Bytes > 0 {
		f.saw("most bytes in memory are of %s: %s, %d MiB", views[0].Name, plural(views[0].Objects, "object"), views[0].Bytes>>20)
	}
	f.run("kubectl get datastores,views")
	f.run("etcdctl compact REVISION && etcdctl defrag  # or raise --quota-backend-bytes; docs/backup.md")
}

func (l *look) disk(what, dir string) {
	d, err := l.Disk(dir)
	if err != nil || d.Free >= littleSpace {
		return
	}
	severity, effect := v1alpha1.SeverityWarning, "a server whose disk is full takes no writes"
	if d.Free < noSpace {
		severity, effect = v1alpha1.SeverityError, "writes are refused, or will be at any moment"
	}
	f := l.find("DiskFull", severity, what, "the disk of the %s is nearly full: %d MiB are free", what, d.Free>>20)
	f.Impact, f.Cause = effect, "something fills the disk of "+dir
	f.run("df -h %s", dir)
	f.run("du -xh -d2 %s | sort -h | tail", dir)
}

// slowStorage looks at how long the storage of writes took.
func (l *look) slowStorage() {
	slot, s := slotOf(l.time), &l.tally.storage
	writes, slow := s.writes.sum(slot), s.slow.sum(slot)
	if writes < someWrites || slow < writes*largePart {
		return
	}
	f := l.find("StorageSlow", v1alpha1.SeverityWarning, "", "storage is slow: a write takes %s in it, on average", short(seconds(s.seconds.sum(slot)/writes)))
	f.Impact = fmt.Sprintf("%.0f of %.0f writes in the last minute waited for a quarter of a second or more", slow, writes)
	f.Cause = "the disk of etcd is slow to sync, or etcd has too much to do"
	for _, d := range l.sized.all {
		f.saw("%s answers a question in %s", d.Name, short(d.Latency.Duration))
	}
	f.run("kubectl get datastores")
}

func (l *look) unreadable() {
	for _, v := range l.Parts.Views() {
		if v.Unreadable < manyUnread {
			continue
		}
		f := l.find("ObjectsUnreadable", v1alpha1.SeverityError, v.Name, "%s of %s cannot be decrypted", plural(v.Unreadable, "object"), v.Name)
		f.Impact = "they cannot be read, written or deleted"
		f.Cause = "a key is missing in --encryption-provider-config, or a KMS plugin is away"
		f.run("kanzen encryption status")
	}
}

func (l *look) snapshots() {
	if l.Snapshots == nil {
		return
	}
	s := l.Snapshots()
	last := "none is known"
	if !s.Last.IsZero() {
		last = "the last one is of " + s.Last.UTC().Format(time.RFC3339)
	}
	switch {
	case s.Error != "":
		f := l.find("SnapshotFailing", v1alpha1.SeverityError, "", "scheduled snapshots fail; %s", last)
		f.Since.Time = s.Failed
		f.Impact, f.Cause = "what is written now could not be restored", oneLine(s.Error)
		f.run("kanzen snapshot save now.db")
	case !s.Due.IsZero() && l.time.Sub(s.Due) > oneHourQuiet && s.Last.Before(s.Due):
		f := l.find("SnapshotOld", v1alpha1.SeverityWarning, "", "a scheduled snapshot is late; %s", last)
		f.Since.Time = s.Due
		f.Impact, f.Cause = "what was written since could not be restored", "the one that was due at "+s.Due.UTC().Format(time.RFC3339)+" was not made, or has not ended: the server was down, or a place for snapshots does not answer"
		f.run("kanzen snapshot save now.db")
	}
	if s.KeysError != "" {
		f := l.find("SnapshotKeyless", v1alpha1.SeverityWarning, "", "scheduled snapshots come without the server's keys; %s", last)
		f.Since.Time = s.Keyless
		f.Impact, f.Cause = "on a server that is restored from one, certificates and tokens are not valid, and encrypted objects cannot be read", oneLine(s.KeysError)
		f.run("kanzen snapshot save now.db --with-keys --passphrase-file passphrase")
	}
}

func (l *look) certificates() {
	if l.Certificates == nil {
		return
	}
	if l.faults.at.IsZero() || l.time.Sub(l.faults.at) >= span {
		l.faults = faults{l.time, l.Certificates()}
	}
	for _, c := range l.faults.all {
		severity, check := v1alpha1.SeverityError, "CertificateBad"
		if c.Expiring {
			severity, check = v1alpha1.SeverityWarning, "CertificateExpiring"
		}
		f := l.find(check, severity, c.Flag+"/"+c.Subject, "%s of %s: %s", c.Flag, c.Subject, c.Fault)
		for _, text := range c.Details {
			f.saw("%s", text)
		}
		if !c.Expiring {
			f.Impact = "who needs it cannot connect"
		}
		f.run("openssl s_client -connect HOST:PORT </dev/null | openssl x509 -noout -dates -subject  # or look at the file of %s", c.Flag)
	}
}
