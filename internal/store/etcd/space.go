package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// segmentBytes is the size of the segments of the write-ahead log. etcd has two of them from the start, and keeps five beside the one that
// it makes ahead, or more until a snapshot covers them: with its own 64 MB, an empty server takes 128 MB of the disk, and one that writes
// 384 MB.
const segmentBytes = 16 << 20

// The size is a variable of etcd's package. Logs with segments of any size are read.
func init() { wal.SegmentSizeBytes = segmentBytes }

// needBytes is the free space that the embedded etcd may need before it can tell that there is too little: the next
// segment of its write-ahead log, the growth of its database (16 MiB), a snapshot of raft, and as much again for others.
const needBytes = 96 << 20

// beginBytes is the free space that a new etcd takes before its first write: two segments of its log, which it makes at once, its
// database, and what writing takes.
const beginBytes = 2*segmentBytes + 16<<20 + needBytes

// roomToBegin returns an error if the disk of a directory without a database is too small for one. An etcd that has begun there could
// only refuse writes, of which it tells one at a time.
func roomToBegin(dir string, free func(dir string) (uint64, error)) error {
	if _, err := os.Stat(databaseOf(dir)); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if bytes, err := free(dir); err == nil && bytes < beginBytes {
		return fmt.Errorf("the disk of %s is too small for a new etcd: %d MiB are free, it takes %d MiB; make room, or name another directory with --data-dir: %w",
			dir, bytes>>20, beginBytes>>20, kv.ErrNoSpace)
	}
	return nil
}

// freeBytes returns the free bytes of the file system that has a directory.
func freeBytes(dir string) (uint64, error) {
	d, err := space.Of(dir)
	return d.Free, err
}

// room returns an error if there is too little space to write.
func (d *DB) room() error {
	if err := d.disk.Room(); err != nil {
		return fmt.Errorf("%w: %w", err, kv.ErrNoSpace)
	}
	return nil
}

// Writable returns an error if etcd takes no writes: its disk or its quota is full, its data is damaged, or it has given
// up.
func (d *DB) Writable(ctx context.Context) error {
	if err := d.broken.err(); err != nil {
		return err
	}
	if err := d.room(); err != nil {
		return err
	}
	alarms, err := d.alarms(ctx)
	if err != nil {
		return fmt.Errorf("ask etcd for its alarms: %w", err)
	}
	for _, a := range alarms {
		switch {
		case strings.Contains(a, "NOSPACE"):
			return fmt.Errorf("etcd's database has reached its quota (alarm NOSPACE): %w", kv.ErrNoSpace)
		case strings.Contains(a, "CORRUPT"):
			return fmt.Errorf("etcd's members differ (alarm CORRUPT)")
		}
	}
	return nil
}

// upkeepEvery is how often upkeep looks.
const upkeepEvery = 2 * time.Second

// tellEvery is how often the log says that nothing can be written.
const tellEvery = time.Minute

// upkeep makes the embedded etcd writable again when its database has reached its quota: it drops the history, gives the
// space back to the file, and takes the alarm off, once there is space again.
func (e Embedded) upkeep(ctx context.Context, srv *etcdserver.EtcdServer, d *DB) {
	t := time.NewTicker(upkeepEvery)
	defer t.Stop()
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !slices.Contains(alarmsOf(srv), "NOSPACE") {
			continue
		}
		used, err := reclaim(ctx, srv, d.Client, e.quota())
		switch {
		case ctx.Err() != nil:
		case err != nil:
			e.Log.Warn("etcd's database has reached its quota, and could not be made smaller", "error", err)
		case used < 0:
			e.Log.Warn("etcd's database had reached its quota; it was compacted and takes writes again", "bytes", srv.Backend().Size())
		case time.Since(told) > tellEvery:
			told = time.Now()
			e.Log.Error("etcd's database has reached its quota and takes no writes: delete objects, or start with a larger --etcd-quota-backend-bytes", "used", used, "quota", e.quota())
		}
	}
}

func (e Embedded) quota() int64 {
	if e.QuotaBytes > 0 {
		return e.QuotaBytes
	}
	return 2 << 30
}

// enoughFree is the part of the quota, in percent, that must be free before the alarm is taken off.
const enoughFree = 10

// reclaim drops the history and takes the alarm off. If even then there is too little space, it returns the bytes in
// use; otherwise -1.
func reclaim(ctx context.Context, srv *etcdserver.EtcdServer, c *clientv3.Client, quota int64) (int64, error) {
	rev := head(srv)
	if rev > srv.KV().FirstRev() {
		if _, err := c.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil && !strings.Contains(err.Error(), "compacted") {
			return 0, fmt.Errorf("compact: %w", err)
		}
	}
	srv.Backend().ForceCommit() // what was dropped counts as free from here on
	limit := quota * (100 - enoughFree) / 100
	if used := srv.Backend().SizeInUse(); used > limit {
		return used, nil
	}
	if srv.Backend().Size() > limit {
		if err := srv.Backend().Defrag(); err != nil {
			return 0, fmt.Errorf("defragment: %w", err)
		}
	}
	_, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	return -1, err
}
