package process

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file warns of what an operator can still prevent, or must know at once: a datastore that does not answer, one that is
// nearly full, a full disk. Certificates are a matter of each control plane (keys/expiry.go).

const (
	// firstLook is how long a datastore may take to answer before it is named.
	firstLook = time.Second
	// longestSilence is the longest pause between two lines about a datastore that does not answer.
	longestSilence = time.Minute
	// lookEvery is how often a datastore that answers, the disk and the certificates are looked at.
	lookEvery = 10 * time.Second
	// warnAgain is how often a warning is repeated while its reason lasts.
	warnAgain = time.Hour
	// nearlyFull is the part of etcd's quota from which it is warned of.
	nearlyFull = 0.8
	// littleSpace is the room on the disk, in bytes, below which it is warned of.
	littleSpace = 512 << 20
)

// sized is a database that knows its size.
type sized interface {
	Size(ctx context.Context) (kv.Size, error)
}

// watchDatastore names a cluster that does not answer: after a second, and again while that lasts, ever less often.
func (p *Process) watchDatastore(ctx context.Context, db distant, addresses []string) {
	named, pause, since := false, firstLook, time.Time{}
	for ctx.Err() == nil {
		began := p.Clock.Now()
		err := db.Reach(ctx, firstLook)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !named {
				named, since = true, began
			}
			p.Log.Warn("etcd does not answer; trying again", "etcd-servers", strings.Join(addresses, ","), "error", oneLine(err),
				"for", p.Clock.Since(since).Round(time.Second), "again", pause)
		case named:
			named, pause = false, firstLook
			p.Log.Log(ctx, logs.Ended, "etcd answers again", "etcd-servers", strings.Join(addresses, ","), "took", p.Clock.Since(since).Round(time.Second))
		}
		wait := lookEvery
		if named {
			wait, pause = pause, min(2*pause, longestSilence)
		}
		select {
		case <-p.Clock.After(wait):
		case <-ctx.Done():
		}
	}
}

// oneLine is an error that has several, in one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// watchRoom warns of an etcd near its quota and of a disk that fills. dir is the directory of the embedded etcd; "" for a
// cluster, whose disks are elsewhere.
func (p *Process) watchRoom(ctx context.Context, db sized, dir string) {
	seldom := logs.NewSeldom(p.Log, p.Clock, warnAgain)
	for ctx.Err() == nil {
		warnQuota(ctx, db, seldom)
		if dir != "" {
			warnDisk(dir, seldom)
		}
		select {
		case <-p.Clock.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

func warnQuota(ctx context.Context, db sized, seldom *logs.Seldom) {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	size, err := db.Size(ctx)
	if err != nil || size.Quota <= 0 || float64(size.Bytes) < nearlyFull*float64(size.Quota) {
		return
	}
	seldom.Warn("quota", "etcd is near its quota, beyond which it accepts no writes: delete objects, compact and defragment it, or raise --quota-backend-bytes",
		"usedMB", size.Bytes>>20, "quotaMB", size.Quota>>20)
}

func warnDisk(dir string, seldom *logs.Seldom) {
	d, err := space.Of(dir)
	if err != nil || d.Free >= littleSpace {
		return
	}
	seldom.Warn("disk", "the disk is nearly full, and a server whose disk is full ends: free space, or move the data directory",
		"directory", dir, "freeMB", d.Free>>20)
}

// watchDatabase starts the warnings about an open database, until the process is closed.
func (p *Process) watchDatabase(db store.DB, addresses []string, dir string) {
	if far, ok := db.(distant); ok && len(addresses) > 0 {
		p.closers.Add(background(func(ctx context.Context) { p.watchDatastore(ctx, far, addresses) }))
	}
	p.closers.Add(background(func(ctx context.Context) { p.watchRoom(ctx, db, dir) }))
}

// Directories are the directories that this server writes to.
func (p *Process) Directories() map[string]string {
	root, out := p.Root, map[string]string{}
	if p.Embedded() && root.DataDir != "" {
		out["data directory"] = root.DataDir
	}
	if dir := root.FlightRecorderDir; dir != "" { // else it is below the data directory
		out["flight recorder"] = dir
	}
	if root.SnapshotDir != "" {
		out["snapshots"] = root.SnapshotDir
	}
	if path := root.AuditLog.Path; path != "" && path != "-" {
		out["audit log"] = filepath.Dir(path)
	}
	return out
}
