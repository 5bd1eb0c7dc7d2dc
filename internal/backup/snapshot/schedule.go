package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// ParseSchedule reads a schedule: five fields as of cron, or "@every 6h".
func ParseSchedule(text string) (cron.Schedule, error) { return cron.ParseStandard(text) }

// ScheduleConfig is what a Scheduler works with.
type ScheduleConfig struct {
	// From streams a snapshot.
	From func(ctx context.Context) (io.ReadCloser, error)
	// When says at which times.
	When cron.Schedule
	// Seal writes the server's keys to a file, sealed; it stands beside the snapshot. Nil: snapshots come without keys.
	Seal func(path string) error
	// Places keep the snapshots, by Keep.
	Places []Place
	Keep   Keep
	// Work is a directory for what is being made; it is created.
	Work     string
	Clock    clock.Clock
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// Scheduler makes snapshots by the clock.
type Scheduler struct {
	ScheduleConfig
	taken, failed, keyless prometheus.Counter
	last, bytes            prometheus.Gauge
	took                   prometheus.Histogram

	mu    sync.Mutex
	state findings.Snapshots // guarded by mu
}

// State returns how the scheduled snapshots do, as findings tell it.
func (s *Scheduler) State() findings.Snapshots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Scheduler) set(change func(*findings.Snapshots)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

// NewScheduler returns a Scheduler. It works when it is run.
func NewScheduler(c ScheduleConfig) *Scheduler {
	s := &Scheduler{
		ScheduleConfig: c,
		taken:          prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_snapshots_total", Help: "Scheduled snapshots that were made, verified and stored."}),
		failed:         prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_snapshot_failures_total", Help: "Scheduled snapshots that failed."}),
		keyless:        prometheus.NewCounter(prometheus.CounterOpts{Name: "kanzen_snapshot_keys_failures_total", Help: "Scheduled snapshots whose keys could not be sealed."}),
		last:           prometheus.NewGauge(prometheus.GaugeOpts{Name: "kanzen_snapshot_last_success_timestamp_seconds", Help: "When the last scheduled snapshot was made; 0: none since the start."}),
		bytes:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "kanzen_snapshot_last_bytes", Help: "Size of the last scheduled snapshot."}),
		took:           prometheus.NewHistogram(histogram.Opts(c.Registry, prometheus.HistogramOpts{Name: "kanzen_snapshot_duration_seconds", Help: "How long scheduled snapshots took.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 8)})),
	}
	c.Registry.MustRegister(s.taken, s.failed, s.keyless, s.last, s.bytes, s.took)
	return s
}

// Run makes snapshots until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	s.lookBack(ctx)
	for {
		now := s.Clock.Now()
		select {
		case <-s.Clock.After(s.When.Next(now).Sub(now)):
		case <-ctx.Done():
			return
		}
		s.attempt(ctx)
	}
}

// lookBackTimeout bounds how long places are asked what they have.
const lookBackTimeout = 30 * time.Second

// lookBack finds out when the newest snapshot was made, and whether one was due while no server ran. A place that does not answer is
// told of when a snapshot is to be put there.
func (s *Scheduler) lookBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookBackTimeout)
	defer cancel()
	var last time.Time
	for _, p := range s.Places {
		names, err := p.List(ctx)
		if err != nil {
			continue
		}
		for _, name := range names {
			if at, ok := madeAt(name); ok && at.After(last) {
				last = at
			}
		}
	}
	if last.IsZero() {
		return
	}
	s.set(func(st *findings.Snapshots) {
		st.Last = last
		if due := s.When.Next(last); due.Before(s.Clock.Now()) {
			st.Due = due
		}
	})
}

func (s *Scheduler) attempt(ctx context.Context) {
	began := s.Clock.Now()
	s.set(func(st *findings.Snapshots) { st.Due = began })
	name := nameAt(began)
	f, err := s.take(ctx, name)
	if ctx.Err() != nil {
		return
	}
	took := s.Clock.Since(began)
	s.took.Observe(took.Seconds())
	if err != nil {
		s.failed.Inc()
		s.set(func(st *findings.Snapshots) { st.Failed, st.Error = began, err.Error() })
		s.Log.Error("a scheduled snapshot failed", "name", name, "error", err)
		return
	}
	s.taken.Inc()
	s.set(func(st *findings.Snapshots) { st.Last, st.Error = began, "" })
	s.last.Set(float64(began.Unix()))
	s.bytes.Set(float64(f.Bytes))
	s.Log.Info("a scheduled snapshot was made", "name", name, "bytes", f.Bytes, "revision", f.Revision, "keys", len(f.Entries), "took", took)
}

// take makes a snapshot, verifies it and stores it. A place that fails does not keep it from the others, and keys that cannot be sealed
// do not keep the snapshot from being stored.
func (s *Scheduler) take(ctx context.Context, name string) (f *File, err error) {
	if err := os.MkdirAll(s.Work, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Work, "making-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	from, err := s.From(ctx)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if err := errors.Join(Save(ctx, from, path, nil), from.Close()); err != nil {
		return nil, err
	}
	if f, err = Verify(ctx, path, filepath.Join(dir, "restored")); err != nil {
		return nil, fmt.Errorf("the snapshot was made, but cannot be restored: %w", err)
	}
	var errs []error
	files := []string{path}
	if s.seal(path + KeysSuffix) {
		files = append(files, path+KeysSuffix)
	}
	for n, p := range s.Places {
		if err := putAll(ctx, p, files, n == len(s.Places)-1); err != nil {
			errs = append(errs, fmt.Errorf("store it in %s: %w", p, err))
			continue
		}
		if err := s.Keep.prune(ctx, p, s.Clock.Now()); err != nil {
			errs = append(errs, err)
		}
	}
	return f, errors.Join(errs...)
}

// seal writes the keys to a file, if they are asked for, and says whether it is there.
func (s *Scheduler) seal(path string) bool {
	if s.Seal == nil {
		return false
	}
	err := s.Seal(path)
	if err != nil {
		s.keyless.Inc()
		s.Log.Error("a scheduled snapshot has no keys: they could not be sealed", "error", err)
	}
	s.set(func(st *findings.Snapshots) {
		if err != nil && st.KeysError == "" {
			st.Keyless = s.Clock.Now()
		}
		if st.KeysError = ""; err != nil {
			st.KeysError = err.Error()
		}
	})
	return err == nil
}

// putAll gives a place the files themselves if it is the last one, and else links to them. A snapshot comes before its keys.
func putAll(ctx context.Context, p Place, files []string, last bool) error {
	for _, path := range files {
		name := filepath.Base(path)
		if !last {
			again := path + ".again"
			if err := os.Link(path, again); err != nil {
				return err
			}
			path = again
		}
		if err := p.Put(ctx, name, path); err != nil {
			return err
		}
	}
	return nil
}

// verifyTimeout bounds how long an etcd may take to start on a restored snapshot.
const verifyTimeout = 5 * time.Minute

// Verify restores a snapshot into a directory, starts an etcd on it that has no socket, compares its keys with those of
// the file, and removes the directory.
func Verify(ctx context.Context, path, dir string) (_ *File, err error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.RemoveAll(dir)) }()
	if err := RestoreData(ctx, path, dir, SoleMember(), 0); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	db, err := etcd.OpenEmbedded(ctx, etcd.Embedded{Dir: dir, UnsafeNoFsync: true, QuotaBytes: 8 << 30, AnyDisk: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f, same(ctx, f, db)
}

// pageKeys is how many keys are compared at a time.
const pageKeys = 1000

// same compares the keys of a snapshot with those of an etcd.
func same(ctx context.Context, f *File, db *etcd.DB) error {
	from, n := "\x00", 0
	for {
		keys, more, err := db.Keys(ctx, from, pageKeys)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if n == len(f.Entries) || f.Entries[n].Key != string(k.Key) || f.Entries[n].ModRevision != k.ModRevision {
				return fmt.Errorf("the restored etcd has %s at revision %d, the snapshot does not", k.Key, k.ModRevision)
			}
			n++
			from = string(k.Key) + "\x00"
		}
		if !more {
			break
		}
	}
	if n != len(f.Entries) {
		return fmt.Errorf("the restored etcd has %d keys, the snapshot %d", n, len(f.Entries))
	}
	return nil
}
