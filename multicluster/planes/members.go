package planes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// retryFrom and retryTo bound how long it takes until what failed is tried again.
const retryFrom, retryTo = 500 * time.Millisecond, 30 * time.Second

// members are the clusters of a provider.
type members struct {
	log logr.Logger

	mu  sync.RWMutex
	all map[multicluster.ClusterName]*member // guarded by mu
	// indexes are those of all clusters, also of later ones; guarded by mu.
	indexes []index

	running sync.WaitGroup // the goroutines of all members
}

// index is a field index that somebody has asked for.
type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

// member is a cluster from when it is engaged until it is not any more.
type member struct {
	cluster.Cluster
	name multicluster.ClusterName
	// identity is what it was made of: another plane of the same name, or other credentials, are another member.
	identity string
	cancel   context.CancelFunc
	before   *member // of the same name, which may not have ended yet
	ended    chan struct{}

	mu      sync.Mutex
	indexed int // how many of the provider's indexes it has; guarded by mu
}

// Get is part of multicluster.Provider.
func (ms *members) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if m := ms.all[name]; m != nil {
		return m.Cluster, nil
	}
	return nil, fmt.Errorf("plane %q: %w", name, multicluster.ErrClusterNotFound)
}

// ClusterNames are the planes that are engaged.
func (ms *members) ClusterNames() []multicluster.ClusterName {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return slices.Sorted(maps.Keys(ms.all))
}

// has reports whether a plane of this identity is engaged.
func (ms *members) has(name multicluster.ClusterName, identity string) bool {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	m := ms.all[name]
	return m != nil && m.identity == identity
}

// engage makes a cluster known, and has it engaged in the background. One of the same name is disengaged first. When the cluster has
// ended, end is called.
func (ms *members) engage(ctx context.Context, aware multicluster.Aware, name multicluster.ClusterName, identity string, cl cluster.Cluster, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	m := &member{Cluster: cl, name: name, identity: identity, cancel: cancel, ended: make(chan struct{})}
	ms.mu.Lock()
	if m.before = ms.all[name]; m.before != nil {
		m.before.cancel()
	}
	if ms.all == nil {
		ms.all = map[multicluster.ClusterName]*member{}
	}
	ms.all[name] = m
	ms.mu.Unlock()
	ms.log.Info("engaging", "plane", name)
	ms.running.Go(func() { ms.live(ctx, aware, m); end() })
}

// disengage forgets a cluster and cancels its context. It does not wait for what runs in it.
func (ms *members) disengage(name multicluster.ClusterName) {
	ms.mu.Lock()
	m := ms.all[name]
	delete(ms.all, name)
	ms.mu.Unlock()
	if m != nil {
		ms.log.Info("disengaging", "plane", name)
		m.cancel()
	}
}

// stop ends all clusters and returns when none runs any more.
func (ms *members) stop() {
	for _, name := range ms.ClusterNames() {
		ms.disengage(name)
	}
	ms.running.Wait()
}

// live runs a cluster until ctx ends. The goroutine that engages it ends when that has succeeded.
func (ms *members) live(ctx context.Context, aware multicluster.Aware, m *member) {
	defer close(m.ended)
	if m.before != nil {
		<-m.before.ended
		m.before = nil
	}
	ms.running.Go(func() { ms.introduce(ctx, aware, m) })
	if err := m.Start(ctx); err != nil && ctx.Err() == nil {
		ms.log.Error(err, "a plane's cluster has ended", "plane", m.name)
	}
}

// introduce engages a cluster, and tries again while that fails.
func (ms *members) introduce(ctx context.Context, aware multicluster.Aware, m *member) {
	for wait := retryFrom; ctx.Err() == nil; wait = min(2*wait, retryTo) {
		err := ms.index(ctx, m)
		if err == nil && m.GetCache().WaitForCacheSync(ctx) {
			err = aware.Engage(ctx, m.name, m.Cluster)
			if err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		ms.log.Error(err, "could not engage, trying again", "plane", m.name, "after", wait)
		pause(ctx, wait)
	}
}

// IndexField is part of multicluster.Provider. A field that is indexed already stays as it is.
func (ms *members) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	ms.mu.Lock()
	ms.indexes = append(ms.indexes, index{obj, field, extract})
	all := slices.Collect(maps.Values(ms.all))
	ms.mu.Unlock()
	for _, m := range all {
		if err := ms.index(ctx, m); err != nil {
			return fmt.Errorf("index %s in plane %q: %w", field, m.name, err)
		}
	}
	return nil
}

// index gives a cluster the indexes that it does not have yet.
func (ms *members) index(ctx context.Context, m *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		ms.mu.RLock()
		rest := ms.indexes[m.indexed:]
		ms.mu.RUnlock()
		if len(rest) == 0 {
			return nil
		}
		for _, i := range rest {
			if err := m.GetFieldIndexer().IndexField(ctx, i.object, i.field, i.extract); err != nil {
				return err
			}
			m.indexed++
		}
	}
}

// pause waits for some time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
