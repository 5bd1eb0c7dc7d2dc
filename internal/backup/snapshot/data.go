package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	etcdsnapshot "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// DefaultBump is how far a restored etcd's revision is moved on: more than any cluster writes between two snapshots, so
// that no revision is given twice.
const DefaultBump = 1_000_000_000

// Member says for which member of an etcd a data directory is made.
type Member struct {
	Name                string
	PeerURLs            []string
	InitialCluster      string // "name=URL,…"
	InitialClusterToken string
}

// RestoreData makes a new data directory for etcd from a snapshot. The member begins a new cluster. bump is added to
// the revision, and everything before is marked as compacted: clients cannot resume watches of what is not there any more,
// and list again. Zero leaves the revision as it is.
func RestoreData(ctx context.Context, path, dir string, m Member, bump uint64) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, newest, err := verify(ctx, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if bump > maxRevision || newest+int64(bump) > maxRevision {
		return fmt.Errorf("revision %d cannot be moved on by %d", newest, bump)
	}
	if err := empty(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // as a full disk makes etcd's code do
			err = fmt.Errorf("restore %s to %s: %v", path, dir, p)
		}
		if err != nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "member")))
		}
	}()
	return etcdsnapshot.NewV3(zap.NewNop()).Restore(etcdsnapshot.RestoreConfig{
		SnapshotPath: path, OutputDataDir: dir, Name: m.Name, PeerURLs: m.PeerURLs,
		InitialCluster: m.InitialCluster, InitialClusterToken: m.InitialClusterToken,
		RevisionBump: bump, MarkCompacted: bump > 0,
	})
}

// empty returns an error if a directory has anything in it.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty; a snapshot is restored to a new directory", dir)
	}
	return nil
}

// SoleMember is the member that 'kanzen serve' starts on its own data directory.
func SoleMember() Member {
	return Member{Name: etcd.SoleName, PeerURLs: []string{etcd.SoleURL}, InitialCluster: etcd.SoleName + "=" + etcd.SoleURL, InitialClusterToken: etcd.SoleToken}
}
