package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/logs"
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
	// Log receives what an operator can act on, and everything if it is for debugging; nil: what ends the process is
	// written to standard error.
	Log *slog.Logger
}

// OpenEmbedded starts an etcd of one member in this process and returns once it
// accepts requests. It has no socket: requests are function calls. If another
// process uses the directory, it returns an error at once.
func OpenEmbedded(ctx context.Context, e Embedded) (*DB, error) {
	unlock, err := lockDir(e.Dir)
	if err != nil {
		return nil, err
	}
	cfg, err := e.serverConfig()
	if err != nil {
		unlock()
		return nil, err
	}
	srv, err := etcdserver.NewServer(cfg)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("open etcd data in %s: %w", e.Dir, err)
	}
	srv.Start()
	stop := func() error {
		srv.HardStop()
		return unlock()
	}
	select {
	case <-srv.ReadyNotify():
	case <-srv.StopNotify():
		return nil, errors.Join(fmt.Errorf("etcd in %s stopped while starting", e.Dir), unlock())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("start etcd in %s: %w", e.Dir, ctx.Err()), stop())
	}
	client := v3client.New(srv)
	return &DB{
		Client: client,
		head:   func(context.Context) (int64, error) { return head(srv), nil },
		size:   func(context.Context) (int64, error) { return srv.Backend().SizeInUse(), nil },
		quota: func(context.Context) (used, quota int64, err error) {
			quota = e.QuotaBytes
			if quota == 0 {
				quota = storage.DefaultQuotaBytes
			}
			return srv.Backend().Size(), quota, nil
		},
		close: func() error {
			err := client.Close()
			if errors.Is(err, context.Canceled) {
				err = nil // the in-process client reports its own closing
			}
			return errors.Join(err, stop())
		},
	}, nil
}

// head is the newest applied revision. KV.Rev would copy etcd's buffer of
// recent writes to find it. The read is not traced.
func head(srv *etcdserver.EtcdServer) int64 {
	r := srv.KV().Read(mvcc.SharedBufReadTxMode, traceutil.TODO())
	defer r.End()
	return r.Rev()
}

// A member waits for electionTicks ticks before it elects itself. The only
// member of a cluster need not wait for others.
const (
	tick          = 10 * time.Millisecond
	electionTicks = 3
)

// Raft keeps its recent entries in memory for members that fall behind. A
// single member needs few: with etcd's defaults they would take about 100 MB.
const (
	snapshotCount  = 1000
	catchUpEntries = 10
)

func (e Embedded) serverConfig() (config.ServerConfig, error) {
	const name = "kanzen"
	peer, err := types.NewURLs([]string{"http://localhost:2380"}) // an identity; nothing listens there
	if err != nil {
		return config.ServerConfig{}, err
	}
	d := embed.NewConfig() // etcd's defaults
	gate := features.NewDefaultServerFeatureGate(name, zap.NewNop())
	return config.ServerConfig{
		Name:                              name,
		DataDir:                           e.Dir,
		ClientURLs:                        peer,
		PeerURLs:                          peer,
		InitialPeerURLsMap:                types.URLsMap{name: peer},
		InitialClusterToken:               "kanzen",
		NewCluster:                        true,
		TickMs:                            uint(tick / time.Millisecond),
		ElectionTicks:                     electionTicks,
		InitialElectionTickAdvance:        true,
		PreVote:                           true,
		SnapshotCount:                     snapshotCount,
		SnapshotCatchUpEntries:            catchUpEntries,
		MaxSnapFiles:                      d.MaxSnapFiles,
		MaxWALFiles:                       d.MaxWalFiles,
		MaxTxnOps:                         d.MaxTxnOps,
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
		Logger:                            e.logger(),
	}, nil
}

func (e Embedded) logger() *zap.Logger {
	log := e.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	return logs.Zap(log, clock.RealClock{})
}
