package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/kanzen-io/kanzen/internal/base/space"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// The identity of an etcd that is the only member of its cluster. Nothing listens at the URL.
const (
	SoleName  = "kanzen"
	SoleURL   = "http://localhost:2380"
	SoleToken = "kanzen"
)

// Embedded says how the etcd inside this process runs.
type Embedded struct {
	// Dir is the data directory; it has etcd's own layout, so that a stock etcd
	// can be started on it too.
	Dir string
	// QuotaBytes bounds the database; zero is etcd's default of 2 GiB.
	QuotaBytes int64
	// UnsafeNoFsync skips fsync: faster, but a power loss may lose writes. For
	// tests.
	UnsafeNoFsync bool
	// Name of the member; empty: SoleName.
	Name string
	// Listen opens sockets; nil: requests are function calls of this process.
	Listen *Listen
	// Log receives what an operator can act on, and everything if it is for debugging. Optional.
	Log *slog.Logger
	// AnyDisk takes writes until the disk is full.
	AnyDisk bool
	// LeaseSizes is told how many keys shared a lease. Optional.
	LeaseSizes prometheus.Observer
}

// OpenEmbedded starts an etcd in this process and returns once it accepts requests. If another process uses the
// directory, it returns an error at once. A member of a cluster of several may not get a quorum: then it returns without
// waiting, and requests wait.
func OpenEmbedded(ctx context.Context, e Embedded) (_ *DB, err error) {
	if e.Name == "" {
		e.Name = SoleName
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	unlock, err := lockDir(e.Dir)
	if err != nil {
		return nil, err
	}
	if err := examine(e.Dir); err != nil {
		return nil, errors.Join(e.damaged(err), unlock())
	}
	if !e.AnyDisk {
		if err := roomToBegin(e.Dir, freeBytes); err != nil {
			return nil, errors.Join(err, unlock())
		}
	}
	ports, err := e.Listen.open()
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	if err := starting.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", e.Dir, err), ports.close(nil), unlock())
	}
	defer starting.end()
	broken := newBreakage()
	srv, err := e.newServer(broken)
	if err != nil {
		return nil, errors.Join(err, ports.close(nil), unlock())
	}
	stop := func() error {
		err := ports.close(broken.happened)
		if broken.err() == nil { // what is left of a broken etcd does not end
			srv.HardStop()
			err = errors.Join(err, makeSeal(e.Dir))
		}
		return errors.Join(err, unlock())
	}
	members := len(srv.Cluster().Members())
	if members > 1 && e.Listen == nil {
		return nil, errors.Join(fmt.Errorf("%s belongs to an etcd cluster of %d members: --etcd-listen-peer-urls must be given", e.Dir, members), unlock())
	}
	if e.Listen == nil {
		srv.Cfg.ElectionTicks = 1 // etcd spends all ticks but one at the start of a sole member; the others stay in raft's own settings
	}
	applied, _ := schema.ReadConsistentIndex(srv.Backend().ReadTx())
	srv.Start()
	ports.serve(srv, e.Listen)
	if members <= 1 {
		cut := make(chan error, 1)
		go func() {
			elect(ctx, srv, raftStatus)
			if err := cutOff(ctx, srv, applied, raftStatus); err != nil {
				cut <- err
			}
		}()
		select {
		case err := <-cut:
			return nil, errors.Join(e.damaged(err), stop())
		case <-srv.ReadyNotify():
		case <-srv.StopNotify():
			return nil, errors.Join(fmt.Errorf("etcd in %s stopped while starting", e.Dir), ports.close(broken.happened), unlock())
		case <-broken.happened:
			return nil, errors.Join(e.damaged(broken.err()), ports.close(broken.happened), unlock())
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", e.Dir, ctx.Err()), stop())
		}
	}
	d, err := e.db(srv, broken, stop)
	if err == nil && e.Listen != nil && members <= 1 {
		if err = d.announce(ctx, srv, e.Listen.PeerURLs); err != nil {
			return nil, errors.Join(fmt.Errorf("etcd in %s: announce the addresses of this member: %w", e.Dir, err), d.Close())
		}
	}
	return d, err
}

// db returns the open log.
func (e Embedded) db(srv *etcdserver.EtcdServer, broken *breakage, stop func() error) (*DB, error) {
	client, calls := newClient(srv)
	d := &DB{
		Client: client, leases: newLeaser(client, e.LeaseSizes),
		head: func(context.Context) (int64, error) { return head(srv), nil },
		size: func(context.Context) (kv.Size, error) {
			return kv.Size{Bytes: srv.Backend().Size(), InUse: srv.Backend().SizeInUse(), Quota: e.quota()}, nil
		},
		source: func(_ context.Context, w kv.Watch) (source, error) {
			return &local{srv: srv, calls: calls, watch: w, asked: make(chan struct{}, 1)}, nil
		},
		broken: broken, backend: srv.Backend(),
		alarms: func(context.Context) ([]string, error) { return alarmsOf(srv), nil },
	}
	if !e.AnyDisk {
		d.disk = &space.Reserve{Dir: e.Dir, Need: needBytes}
	}
	if e.Listen != nil {
		// Writes may be acknowledged by other members, which this one has yet to follow.
		d.head = (&batcher{fetch: d.linearized}).get
	}
	upkeep, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.upkeep(upkeep, srv, d)
	}()
	d.close = func() error {
		cancel()
		<-done
		err := client.Close()
		if errors.Is(err, context.Canceled) {
			err = nil // the in-process client reports its own closing
		}
		select {
		case <-calls.close():
		case <-broken.happened: // what is left of it does not end
		}
		return errors.Join(err, stop())
	}
	return d, nil
}

// newServer opens the data directory. Where etcd would end the process because of what it finds there, it returns an
// error.
func (e Embedded) newServer(broken *breakage) (*etcdserver.EtcdServer, error) {
	cfg, err := e.serverConfig(broken)
	if err != nil {
		return nil, err
	}
	var srv *etcdserver.EtcdServer
	opened := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				opened <- e.damaged(fmt.Errorf("%v", p))
			}
		}()
		debug.SetPanicOnFault(true) // a file that is cut off, mapped into memory
		var err error
		if srv, err = etcdserver.NewServer(cfg); err != nil {
			err = e.damaged(err)
		}
		opened <- err
	}()
	select {
	case err = <-opened:
	case <-broken.happened:
		err = e.damaged(broken.err())
	}
	return srv, err
}

// damaged explains why etcd could not go on.
func (e Embedded) damaged(err error) error {
	return fmt.Errorf("etcd in %s: %w (if its files are damaged, restore a backup to a new directory: kanzen snapshot restore FILE --to-data-dir DIR)", e.Dir, err)
}

// head is the newest applied revision. KV.Rev would copy etcd's buffer of
// recent writes to find it. The read is not traced.
func head(srv *etcdserver.EtcdServer) int64 {
	r := srv.KV().Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer r.End()
	return r.Rev()
}

// alarmsOf returns etcd's alarms: NOSPACE, CORRUPT.
func alarmsOf(srv *etcdserver.EtcdServer) []string {
	var out []string
	for _, a := range srv.Alarms() {
		out = append(out, a.Alarm.String())
	}
	return out
}

// A member that hears of no leader for electionTicks ticks wants to become it. These are etcd's own times.
const (
	tick          = 100 * time.Millisecond
	electionTicks = 10
)

// Raft keeps its recent entries in memory for members that fall behind. A
// single member needs few: with etcd's defaults they would take about 100 MB.
const (
	snapshotCount         = 1000
	catchUpEntries        = 10
	clusterCatchUpEntries = 1000
)

func (e Embedded) serverConfig(broken *breakage) (config.ServerConfig, error) {
	sole, err := types.NewURLs([]string{SoleURL})
	if err != nil {
		return config.ServerConfig{}, err
	}
	d := embed.NewConfig() // etcd's defaults
	gate := features.NewDefaultServerFeatureGate(e.Name, zap.NewNop())
	c := config.ServerConfig{
		Name:                              e.Name,
		DataDir:                           e.Dir,
		ClientURLs:                        sole,
		PeerURLs:                          sole,
		InitialClusterToken:               SoleToken,
		NewCluster:                        true,
		TickMs:                            uint(tick / time.Millisecond),
		ElectionTicks:                     electionTicks,
		InitialElectionTickAdvance:        true,
		PreVote:                           true,
		SnapshotCount:                     snapshotCount,
		SnapshotCatchUpEntries:            catchUpEntries,
		MaxSnapFiles:                      d.MaxSnapFiles,
		MaxWALFiles:                       d.MaxWalFiles,
		MaxTxnOps:                         maxTxnOps,
		MaxRequestBytes:                   maxRequestBytes,
		MaxConcurrentStreams:              d.MaxConcurrentStreams,
		AuthToken:                         d.AuthToken,
		BcryptCost:                        d.BcryptCost,
		TokenTTL:                          d.AuthTokenTTL,
		QuotaBackendBytes:                 e.QuotaBytes,
		BackendFreelistType:               bolt.FreelistMapType,
		CompactHashCheckTime:              d.CompactHashCheckTime,
		DowngradeCheckTime:                d.DowngradeCheckTime,
		WatchProgressNotifyInterval:       d.WatchProgressNotifyInterval,
		WarningApplyDuration:              time.Second,
		WarningUnaryRequestDuration:       d.WarningUnaryRequestDuration,
		MaxLearners:                       d.MaxLearners,
		V2Deprecation:                     d.V2Deprecation,
		ServerFeatureGate:                 gate,
		UnsafeNoFsync:                     e.UnsafeNoFsync,
		BootstrapDefragThresholdMegabytes: 0,
		Logger:                            newLogger(e.Log, broken),
	}
	if e.Listen != nil {
		c.SnapshotCatchUpEntries = clusterCatchUpEntries
		c.ClientURLs, c.PeerURLs, c.PeerTLSInfo = e.Listen.ClientURLs, e.Listen.PeerURLs, e.Listen.peerTLS()
		if len(c.ClientURLs) == 0 {
			c.ClientURLs = sole
		}
		if len(c.PeerURLs) == 0 {
			c.PeerURLs = sole
		}
	}
	c.InitialPeerURLsMap = types.URLsMap{e.Name: c.PeerURLs}
	return c, nil
}
