package process

import (
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

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/logs"
	"github.com/kanzen-io/kanzen/internal/pki"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

// This file opens databases. It is the only one of the package that knows what they are; the others know store.DB, and what a
// database may be able to do beyond that:

// snapshotter is a database that streams a backup of itself.
type snapshotter interface {
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
	cfg     *config.Config
	proxies *egress.Selector
	metrics prometheus.Registerer
	leases  prometheus.Observer
	log     *slog.Logger
}

func newOpener(cfg *config.Config, proxies *egress.Selector, metrics prometheus.Registerer, log *slog.Logger) *opener {
	return &opener{cfg, proxies, metrics, etcd.NewLeaseSizes(metrics), log}
}

// open opens the database of the settings: the embedded etcd, or a cluster.
func (o *opener) open(ctx context.Context) (database, error) {
	cfg := o.cfg
	if cfg.Embedded() {
		listen, err := etcdListen(cfg)
		if err != nil {
			return nil, err
		}
		opened := logs.Step(o.log, clock.RealClock{}, "opening the embedded etcd", "embedded etcd is open")
		db, err := etcd.OpenEmbedded(ctx, etcd.Embedded{
			Dir: filepath.Join(cfg.DataDir, "etcd"), UnsafeNoFsync: cfg.UnsafeNoFsync, QuotaBytes: cfg.EtcdQuotaBytes, Name: cfg.EtcdName,
			Listen: listen, Log: o.log, LeaseSizes: o.leases})
		if errors.Is(err, etcd.ErrInUse) {
			err = fmt.Errorf("%w; another server runs on it: stop that one, or name another directory with --data-dir", err)
		}
		if err != nil {
			return nil, err
		}
		opened()
		return db, nil
	}
	return o.dial(cfg.EtcdServers)
}

// dial connects to a cluster.
func (o *opener) dial(servers []string) (database, error) {
	t, err := o.cfg.EtcdTLS()
	if err != nil {
		return nil, err
	}
	return etcd.Dial(etcd.Cluster{Endpoints: servers, TLS: t, Dial: o.proxies.Dial(egress.Etcd), Registry: o.metrics, LeaseSizes: o.leases})
}

// etcdListen says where the embedded etcd listens; nil: nowhere. Its authority and certificates are made below the data
// directory.
func etcdListen(cfg *config.Config) (*etcd.Listen, error) {
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
