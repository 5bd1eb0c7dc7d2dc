package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file opens databases. It is the only one of the package that knows what they are; the others know store.DB, and what a
// database may be able to do beyond that:

// snapshotter is a database that streams a backup of itself, and passes on what it is made of.
type snapshotter interface {
	kv.Recorded
	Snapshot(ctx context.Context) (io.ReadCloser, error)
}

// breakable is a database in this process that may give up.
type breakable interface {
	// Broken is closed when it has; nil: it does not.
	Broken() <-chan struct{}
	// Err says why.
	Err() error
}

// distant is a database in another process.
type distant interface {
	// Reach returns what keeps this process from it for longer than patience.
	Reach(ctx context.Context, patience time.Duration) error
}

// database is an open database.
type database interface {
	store.DB
	Close() error
}

// opener opens the databases of the settings.
type opener struct {
	cfg     *config.Process
	proxies *egress.Selector
	metrics prometheus.Registerer
	leases  prometheus.Observer
	log     *slog.Logger
}

func newOpener(cfg *config.Process, proxies *egress.Selector, metrics prometheus.Registerer, log *slog.Logger) *opener {
	return &opener{cfg, proxies, metrics, etcd.NewLeaseSizes(histogram.Registry(metrics, cfg.Enabled(features.NativeHistograms))), log}
}

// open opens the database of the settings: one inside this process, or a cluster.
func (o *opener) open(ctx context.Context) (database, error) {
	if !o.cfg.Embedded() {
		return o.dial(o.cfg.EtcdServers)
	}
	engine, err := engineOf(o.cfg)
	if err != nil {
		return nil, err
	}
	open := o.etcd
	if engine == config.EnginePebble {
		open = o.pebble
	}
	db, err := open(ctx)
	if errors.Is(err, etcd.ErrInUse) || errors.Is(err, pebble.ErrInUse) {
		err = fmt.Errorf("%w; another server runs on it: stop that one, or name another directory with --data-dir", err)
	}
	return db, err
}

// engineOf is the database of a data directory. A directory has one, whatever the flag says: to begin another beside it would hide all objects.
func engineOf(cfg *config.Process) (string, error) {
	found := config.EnginesIn(cfg.DataDir)
	switch {
	case len(found) == 0:
		return cmp.Or(cfg.Engine, config.EngineEtcd), nil
	case len(found) > 1:
		return "", fmt.Errorf("%s has two databases, %s and %s: move away the one that is not to be used", cfg.DataDir, found[0], found[1])
	case cfg.Engine != "" && cfg.Engine != found[0]:
		return "", fmt.Errorf("--engine=%s: %s has a database of %s; 'kanzen migrate --data-dir %s --to %s' moves it", cfg.Engine, cfg.DataDir, found[0], cfg.DataDir, cfg.Engine)
	}
	return found[0], nil
}

func (o *opener) etcd(ctx context.Context) (database, error) {
	cfg := o.cfg
	if cfg.PebbleMaxValueBytes != 0 {
		return nil, fmt.Errorf("--pebble-max-value-bytes: %s has a database of etcd, or will have: --engine=%s begins one of pebble, and 'kanzen migrate' moves one", cfg.DataDir, config.EnginePebble)
	}
	listen, err := etcdListen(cfg)
	if err != nil {
		return nil, err
	}
	opened := logs.Step(o.log, clock.RealClock{}, "opening the embedded etcd", "embedded etcd is open")
	db, err := etcd.OpenEmbedded(ctx, etcd.Embedded{
		Dir: filepath.Join(cfg.DataDir, config.EngineEtcd), UnsafeNoFsync: cfg.UnsafeNoFsync, QuotaBytes: cfg.EtcdQuotaBytes, Name: cfg.EtcdName,
		Listen: listen, Log: o.log, LeaseSizes: o.leases})
	if err != nil {
		return nil, err
	}
	opened()
	return db, nil
}

func (o *opener) pebble(context.Context) (database, error) {
	if len(o.cfg.EtcdListenClients) > 0 || len(o.cfg.EtcdListenPeers) > 0 || o.cfg.EtcdName != "" {
		return nil, fmt.Errorf("%s has a database of pebble, which goes with none of --etcd-name, --etcd-listen-client-urls, --etcd-listen-peer-urls", o.cfg.DataDir)
	}
	opened := logs.Step(o.log, clock.RealClock{}, "opening the database", "database is open")
	db, err := pebble.Open(pebble.Config{Dir: filepath.Join(o.cfg.DataDir, config.EnginePebble), UnsafeNoFsync: o.cfg.UnsafeNoFsync,
		Quota: o.cfg.EtcdQuotaBytes, MaxValue: o.cfg.PebbleMaxValueBytes, Log: o.log})
	if err != nil {
		return nil, err
	}
	opened()
	return db, nil
}

// dial connects to a cluster.
func (o *opener) dial(servers []string) (database, error) {
	return o.connect(servers, o.cfg.EtcdFiles())
}

// connect is dial with files of its own.
func (o *opener) connect(servers []string, files config.EtcdFiles) (database, error) {
	t, err := files.TLS()
	if err != nil {
		return nil, err
	}
	return etcd.Dial(etcd.Cluster{Endpoints: servers, TLS: t, Dial: o.proxies.Dial(egress.Etcd), Registry: o.metrics, LeaseSizes: o.leases})
}

// etcdListen says where the embedded etcd listens; nil: nowhere. Its authority and certificates are made below the data
// directory.
func etcdListen(cfg *config.Process) (*etcd.Listen, error) {
	clients, peers, err := cfg.EtcdListen()
	if err != nil || len(clients)+len(peers) == 0 {
		return nil, err
	}
	var hosts []string
	for _, u := range append(slices.Clone(clients), peers...) {
		hosts = append(hosts, u.Hostname())
	}
	f, err := pki.EnsureEtcd(filepath.Join(cfg.DataDir, "pki", "etcd"), clock.RealClock{}, hosts...)
	if err != nil {
		return nil, fmt.Errorf("etcd's certificates: %w", err)
	}
	return &etcd.Listen{ClientURLs: clients, PeerURLs: peers, CA: f.CACert, Cert: f.ServerCert, Key: f.ServerKey}, nil
}
