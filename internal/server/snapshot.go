package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/history"
)

// backups makes snapshots by the clock; nil: nothing was asked for.
func (b *base) backups() (*snapshot.Scheduler, error) {
	if b.root.SnapshotSchedule == "" {
		return nil, nil
	}
	if b.process.Snapshot == nil {
		return nil, errors.New("--snapshot-schedule: there is no etcd here to take snapshots of")
	}
	when, err := snapshot.ParseSchedule(b.root.SnapshotSchedule)
	if err != nil {
		return nil, fmt.Errorf("--snapshot-schedule: %w", err)
	}
	c := snapshot.ScheduleConfig{
		From: b.process.Snapshot, When: when, Keep: snapshot.Keep{Number: b.root.SnapshotKeep, Age: b.root.SnapshotKeepFor},
		Work: b.root.SnapshotWork(), Clock: b.process.Clock, Log: b.log, Registry: b.metrics.Registry(),
	}
	if phrase := b.root.SnapshotKeysPassphraseFile; phrase != "" {
		if b.process.SealKeys == nil {
			return nil, errors.New("--snapshot-keys-passphrase-file: this program cannot seal keys; kanzen serve can")
		}
		if c.Seal, err = b.process.SealKeys(b.root.DataDir, b.cfg.EncryptionConfigFile, phrase); err != nil {
			return nil, fmt.Errorf("--snapshot-keys-passphrase-file: %w", err)
		}
	}
	if b.root.SnapshotS3 != "" {
		to, err := snapshot.NewS3(snapshot.S3Config{
			URL: b.root.SnapshotS3, Bucket: b.root.SnapshotS3Bucket, Prefix: b.root.SnapshotS3Prefix, Region: b.root.SnapshotS3Region,
			CredentialsFile: b.root.SnapshotS3CredentialsFile, CAFile: b.root.SnapshotS3CAFile,
		})
		if err != nil {
			return nil, fmt.Errorf("--snapshot-s3-url: %w", err)
		}
		b.opened.Add(func() error { to.Close(); return nil })
		c.Places = append(c.Places, to)
	}
	if b.root.SnapshotDir != "" {
		c.Places = append(c.Places, snapshot.Dir(b.root.SnapshotDir))
	}
	return snapshot.NewScheduler(c), nil
}

// snapshots returns the handler if this control plane owns the database inside this process: the one with the port does. With
// an etcd cluster, whoever may read everything has certificates for it.
func (b *base) snapshots(h *history.History) *snapshot.Handler {
	if !b.ownsDatabase() {
		return nil
	}
	past := &snapshot.At{DB: b.process.Records, Dir: filepath.Join(b.root.DataDir, "snapshots", ".earlier")}
	if h != nil {
		past.Beyond = h.Past
	}
	if err := past.Begin(); err != nil {
		b.log.Warn("what is left of earlier snapshots could not be removed", "error", err)
	}
	return snapshot.NewHandler(func(ctx context.Context, at string) (io.ReadCloser, error) {
		if at == "" {
			return b.process.Snapshot(ctx)
		}
		rev, err := h.Moment(at)
		if err != nil {
			return nil, h.Refuse(at, err)
		}
		stream, err := past.Stream(ctx, rev)
		return stream, h.Refuse(at, err)
	}, b.log)
}

func (b *base) ownsDatabase() bool {
	return b.process.Embedded() && b.socket != nil && b.process.Snapshot != nil
}

// space returns the handler that says what takes the room of the database, where there are snapshots of it.
func (b *base) space(h *history.History) *snapshot.SpaceHandler {
	if !b.ownsDatabase() {
		return nil
	}
	return snapshot.NewSpaceHandler(func(ctx context.Context) (*snapshot.Space, error) {
		kinds := snapshot.NewKinds(b.cfg.KeyPrefix(), builtin.Resources(builtin.Deps{}), nil)
		out, err := kinds.Space(ctx, snapshot.Paced{Recorded: b.process.Records})
		if err != nil {
			return nil, err
		}
		if out.Disk, err = b.databaseSize(ctx); err == nil && h != nil {
			out.History = &snapshot.Kept{Disk: snapshot.DirBytes(h.Dir), Bytes: h.Size()}
		}
		return out, err
	}, b.process.Clock, b.log)
}

func (b *base) databaseSize(ctx context.Context) (*snapshot.Disk, error) {
	return snapshot.DiskOf(ctx, b.process.DB)
}
