// Package online makes the backups of a server that runs: by the clock, and for clients that ask; and says what takes the room of its
// database.
package online

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/history"
)

// Server is what has a database: the process, and the control plane at its root. Port says that this has the port.
type Server struct {
	*process.Process
	Plane    *config.Plane
	Port     bool
	History  *history.History // nil: none is kept
	Registry prometheus.Registerer
}

// Scheduler makes snapshots by the clock; nil: nothing was asked for. What it opens is added to closers.
func (s *Server) Scheduler(closers *process.Closers) (*snapshot.Scheduler, error) {
	root := s.Root
	if root.SnapshotSchedule == "" {
		return nil, nil
	}
	if s.Snapshot == nil {
		return nil, errors.New("--snapshot-schedule: there is no etcd here to take snapshots of")
	}
	when, err := snapshot.ParseSchedule(root.SnapshotSchedule)
	if err != nil {
		return nil, fmt.Errorf("--snapshot-schedule: %w", err)
	}
	c := snapshot.ScheduleConfig{
		From: s.Snapshot, When: when, Keep: snapshot.Keep{Number: root.SnapshotKeep, Age: root.SnapshotKeepFor},
		Work: root.SnapshotWork(), Clock: s.Clock, Log: s.Log, Registry: s.Registry,
	}
	if phrase := root.SnapshotKeysPassphraseFile; phrase != "" {
		if s.SealKeys == nil {
			return nil, errors.New("--snapshot-keys-passphrase-file: this program cannot seal keys; kanzen serve can")
		}
		if c.Seal, err = s.SealKeys(root.DataDir, s.Plane.EncryptionConfigFile, phrase); err != nil {
			return nil, fmt.Errorf("--snapshot-keys-passphrase-file: %w", err)
		}
	}
	if root.SnapshotS3 != "" {
		to, err := snapshot.NewS3(snapshot.S3Config{
			URL: root.SnapshotS3, Bucket: root.SnapshotS3Bucket, Prefix: root.SnapshotS3Prefix, Region: root.SnapshotS3Region,
			CredentialsFile: root.SnapshotS3CredentialsFile, CAFile: root.SnapshotS3CAFile,
		})
		if err != nil {
			return nil, fmt.Errorf("--snapshot-s3-url: %w", err)
		}
		closers.Add(func() error { to.Close(); return nil })
		c.Places = append(c.Places, to)
	}
	if root.SnapshotDir != "" {
		c.Places = append(c.Places, snapshot.Dir(root.SnapshotDir))
	}
	return snapshot.NewScheduler(c), nil
}

// Snapshots returns the handler if this control plane owns the database inside this process: the one with the port does. With
// an etcd cluster, whoever may read everything has certificates for it.
func (s *Server) Snapshots() *snapshot.Handler {
	if !s.ownsDatabase() {
		return nil
	}
	past := &snapshot.At{DB: s.Records, Dir: filepath.Join(s.Root.DataDir, "snapshots", ".earlier")}
	if s.History != nil {
		past.Beyond = s.History.Past
	}
	if err := past.Begin(); err != nil {
		s.Log.Warn("what is left of earlier snapshots could not be removed", "error", err)
	}
	return snapshot.NewHandler(func(ctx context.Context, at string) (io.ReadCloser, error) {
		if at == "" {
			return s.Snapshot(ctx)
		}
		rev, err := s.History.Moment(at)
		if err != nil {
			return nil, s.History.Refuse(at, err)
		}
		stream, err := past.Stream(ctx, rev)
		return stream, s.History.Refuse(at, err)
	}, s.Log)
}

func (s *Server) ownsDatabase() bool {
	return s.Embedded() && s.Port && s.Snapshot != nil
}

// Space returns the handler that says what takes the room of the database, where there are snapshots of it.
func (s *Server) Space() *snapshot.SpaceHandler {
	if !s.ownsDatabase() {
		return nil
	}
	return snapshot.NewSpaceHandler(func(ctx context.Context) (*snapshot.Space, error) {
		kinds := snapshot.NewKinds(s.Plane.KeyPrefix(), builtin.Resources(builtin.Deps{}), nil)
		out, err := kinds.Space(ctx, snapshot.Paced{Recorded: s.Records})
		if err != nil {
			return nil, err
		}
		if out.Disk, err = s.DatabaseSize(ctx); err == nil && s.History != nil {
			out.History = &snapshot.Kept{Disk: snapshot.DirBytes(s.History.Dir), Bytes: s.History.Size()}
		}
		return out, err
	}, s.Clock, s.Log)
}

// DatabaseSize returns how large the database is.
func (s *Server) DatabaseSize(ctx context.Context) (*snapshot.Disk, error) {
	return snapshot.DiskOf(ctx, s.DB)
}
