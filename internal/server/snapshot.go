package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/snapshot"
)

// snapshots serves backups of the embedded etcd, with everything that is in it. The verb is "post", which rules that let
// someone read all paths do not grant.
type snapshots struct {
	ground *Ground
	log    *slog.Logger
	// busy holds a token for each snapshot under way: etcd keeps old pages until a snapshot is read.
	busy chan struct{}
}

// backups makes snapshots by the clock; nil: nothing was asked for.
func (b *base) backups() (*snapshot.Scheduler, error) {
	if b.cfg.SnapshotSchedule == "" {
		return nil, nil
	}
	if b.ground.Snapshot == nil {
		return nil, errors.New("--snapshot-schedule: there is no etcd here to take snapshots of")
	}
	when, err := snapshot.ParseSchedule(b.cfg.SnapshotSchedule)
	if err != nil {
		return nil, fmt.Errorf("--snapshot-schedule: %w", err)
	}
	c := snapshot.ScheduleConfig{
		From: b.ground.Snapshot, When: when, Keep: snapshot.Keep{Number: b.cfg.SnapshotKeep, Age: b.cfg.SnapshotKeepFor},
		Work: b.cfg.SnapshotWork(), Clock: b.ground.Clock, Log: b.log, Registry: b.metrics.Registry(),
	}
	if b.cfg.SnapshotS3 != "" {
		to, err := snapshot.NewS3(snapshot.S3Config{
			URL: b.cfg.SnapshotS3, Bucket: b.cfg.SnapshotS3Bucket, Prefix: b.cfg.SnapshotS3Prefix, Region: b.cfg.SnapshotS3Region,
			CredentialsFile: b.cfg.SnapshotS3CredentialsFile, CAFile: b.cfg.SnapshotS3CAFile,
		})
		if err != nil {
			return nil, fmt.Errorf("--snapshot-s3-url: %w", err)
		}
		c.Places = append(c.Places, to)
	}
	if b.cfg.SnapshotDir != "" {
		c.Places = append(c.Places, snapshot.Dir(b.cfg.SnapshotDir))
	}
	return snapshot.NewScheduler(c), nil
}

// maxSnapshots is how many snapshots are streamed at a time.
const maxSnapshots = 2

// snapshots returns the handler if this control plane owns the etcd inside this process: the one with the port does. With
// an etcd cluster, whoever may read everything has certificates for it.
func (b *base) snapshots() *snapshots {
	if !b.cfg.Embedded() || b.cfg.NoListener || b.ground.Listener == nil || b.ground.Snapshot == nil {
		return nil
	}
	return &snapshots{ground: b.ground, log: b.log, busy: make(chan struct{}, maxSnapshots)}
}

// ServeHTTP streams a snapshot. An answer that breaks off lacks its checksum.
func (s *snapshots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "snapshot"}, r.Method))
		return
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	default:
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewTooManyRequests("other snapshots are under way", 5))
		return
	}
	from, err := s.ground.Snapshot(r.Context())
	if err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
		return
	}
	defer from.Close()
	// The first bytes are awaited, so that an etcd that gives none is told as an error.
	first := make([]byte, 64<<10)
	n, err := io.ReadAtLeast(from, first, 1)
	if err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if _, err = w.Write(first[:n]); err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, from, first)
	}
	if err != nil {
		s.log.Info("a snapshot broke off", "error", err)
		panic(http.ErrAbortHandler) // what is there must not be taken for all of it
	}
}
