package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/base/span/spanhttp"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// identityLabel is on the leases with which API servers show that they are alive.
const identityLabel, identityValue = "apiserver.kubernetes.io/identity", "kube-apiserver"

// workers is how many servers are asked at a time what they serve.
const workers = 4

// Config is what a Roster is made of.
type Config struct {
	// Server is the name of this server's lease.
	Server    string
	Addresses *Leases
	// Identities are the leases of API servers, among others.
	Identities  *store.Index[*coordinationv1.Lease]
	APIServices *store.Index[*apiregistrationv1.APIService]
	// TLS has the certificate of this server as a front proxy, and what it trusts.
	TLS  *tls.Config
	Dial utilnet.DialFunc
	// Ending is closed when streams must end.
	Ending     <-chan struct{}
	WriteError chain.ErrorWriter
	Random     func(n int) int
	Metrics    *Metrics
	Queues     *queue.Metrics
	Clock      clock.WithTickerAndDelayedExecution
	Guard      *guard.Guard
	Log        *slog.Logger
}

// Roster is the other servers of the cluster, and what they serve. The nil Roster has none.
type Roster struct {
	Config
	// shared and upgrade are connections to the others; forget closes those that no request uses.
	shared, upgrade http.RoundTripper
	forget          func()
	owned           owned
	queue           *queue.Queue
	seldom          *logs.Seldom
	// present is closed when the leases, and the definitions of what all servers serve, have been read.
	present chan struct{}
	changes atomic.Int64 // of what the others serve
	made    atomic.Bool  // the document of all servers, of what they serve now

	mu     sync.RWMutex
	others map[string]*server // by name; those that have said what they serve
}

// server is another server of the cluster. It is immutable.
type server struct {
	// holder differs from one start of the server to the next, and address may.
	holder, address string
	groups          []apidiscoveryv2.APIGroupDiscovery
	serves          map[schema.GroupVersionResource]bool
}

// New makes a Roster.
func New(c Config) *Roster {
	shared := frontproxy.NewShared(c.Dial, c.TLS)
	return &Roster{
		Config: c, shared: frontproxy.Retrying{Next: spanhttp.Transport(shared)}, upgrade: frontproxy.NewUpgrade(c.Dial, c.TLS), forget: shared.CloseIdleConnections,
		queue: queue.New("peer-discovery-cache-sync", c.Clock, c.Guard, c.Queues, c.Log), present: make(chan struct{}), others: map[string]*server{},
		owned: owned{now: c.Clock.Now}, seldom: logs.NewSeldom(c.Log, c.Clock, time.Minute),
	}
}

// Run follows the other servers until ctx ends.
func (p *Roster) Run(ctx context.Context) {
	defer p.forget()
	var read, following sync.WaitGroup
	caught := func() func(int64) {
		read.Add(1)
		once := sync.OnceFunc(read.Done)
		return func(int64) { once() }
	}
	identities, services := caught(), caught()
	following.Go(func() {
		p.Identities.Where(ofServers).Follow(ctx, func(c store.Change[*coordinationv1.Lease]) { p.queue.Add(c.Name()) }, identities)
	})
	following.Go(func() { p.Addresses.follow(ctx, p.moved) })
	following.Go(func() {
		p.APIServices.Follow(ctx, func(c store.Change[*apiregistrationv1.APIService]) {
			if p.owned.see(c.Name(), c.Now) {
				p.changed()
			}
		}, services)
	})
	following.Go(func() { p.forgive(ctx) })
	following.Go(func() {
		read.Wait()
		close(p.present)
	})
	p.queue.Run(ctx, workers, p.look)
	identities(0)
	services(0)
	following.Wait()
}

// ofServers leaves out the leases of nodes, which are many and change all the time.
func ofServers(_, now *store.Item) bool {
	return strings.HasPrefix(now.Key, metav1.NamespaceSystem+"/")
}

// moved looks at a server whose address has changed.
func (p *Roster) moved(name string) {
	address, err := p.Addresses.address(context.Background(), name)
	if err != nil {
		return // it may come back
	}
	if known := p.of(name); known == nil || known.address != address {
		p.queue.Add(name)
	}
}

// look asks a server what it serves, if it is another one or has been started anew.
func (p *Roster) look(ctx context.Context, name string) error {
	lease, err := p.Identities.Get(ctx, metav1.NamespaceSystem+"/"+name)
	if errors.Is(err, store.ErrNotFound) || err == nil && !p.another(lease) {
		p.put(name, nil)
		return nil
	}
	if err != nil {
		p.Metrics.syncs.WithLabelValues(leaseList).Inc()
		return err
	}
	address, err := p.Addresses.address(ctx, name)
	if err != nil {
		p.Metrics.syncs.WithLabelValues(hostUnknown).Inc()
		p.Log.Debug("another API server cannot be asked what it serves", "server", name, "error", err)
		return nil // it is looked at again once its address is known
	}
	known := p.of(name)
	if known != nil && known.holder == *lease.Spec.HolderIdentity && known.address == address {
		return nil
	}
	found, err := p.fetch(ctx, address)
	if err != nil {
		p.Metrics.syncs.WithLabelValues(fetchFailed).Inc()
		p.seldom.Warn(name, "another API server does not tell what it serves", "server", name, "address", address, "error", err)
		return err // what is known of it is most probably still true
	}
	found.holder = *lease.Spec.HolderIdentity
	p.put(name, found)
	p.seldom.Forget(name)
	p.Log.Info("another API server has told what it serves", "server", name, "address", address, "resources", len(found.serves))
	return nil
}

// another reports whether a lease is that of another API server.
func (p *Roster) another(l *coordinationv1.Lease) bool {
	return l.Labels[identityLabel] == identityValue && l.Name != p.Server && l.Spec.HolderIdentity != nil
}

func (p *Roster) of(name string) *server {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.others[name]
}

// put remembers what a server serves; nil: it is gone.
func (p *Roster) put(name string, found *server) {
	p.mu.Lock()
	if found == nil && p.others[name] == nil {
		p.mu.Unlock()
		return
	}
	p.others = maps.Clone(p.others)
	if found == nil {
		delete(p.others, name)
	} else {
		p.others[name] = found
	}
	p.mu.Unlock()
	p.changed()
}

func (p *Roster) changed() {
	p.changes.Add(1)
	p.made.Store(false)
}

// all returns the other servers by name. The map is not changed.
func (p *Roster) all() map[string]*server {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.others
}

// Changes returns how often what the others serve has changed.
func (p *Roster) Changes() int64 {
	if p == nil {
		return 0
	}
	return p.changes.Load()
}

// Checks are the checks of health that kube-apiserver has for this.
func (p *Roster) Checks() []debug.Check {
	if p == nil {
		return nil
	}
	ready := func(ctx context.Context) error {
		select {
		case <-p.present:
			return nil
		default:
			return errNotRead
		}
	}
	return []debug.Check{
		{Name: "poststarthook/mixed-version-proxy-handler", Test: ready},
		{Name: "poststarthook/local-discovery-cache-sync", Test: func(context.Context) error { return nil }}, // it is known what is served
		{Name: "poststarthook/peer-discovery-workers", Test: ready},
	}
}

// forgive lets what has been deleted for a while be asked of other servers again.
func (p *Roster) forgive(ctx context.Context) {
	tick := p.Clock.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			if p.owned.forgive() {
				p.changed()
			}
		case <-ctx.Done():
			return
		}
	}
}
