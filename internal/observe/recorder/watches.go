package recorder

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// watching is a watch that is being served.
type watching struct {
	number      int64
	info        *request.Info
	latency     *request.Latency
	agent, from string
	began       time.Time
	progress    request.WatchProgress
}

// watches are the watches being served. Their number is bounded by the connections.
type watches struct {
	number atomic.Int64
	shards [shards]struct {
		mu  sync.Mutex
		all map[*watching]struct{} // guarded by mu
		_   [40]byte
	}
}

func (w *watches) init() {
	for n := range w.shards {
		w.shards[n].all = map[*watching]struct{}{}
	}
}

func (w *watches) add(e *watching) {
	e.number = w.number.Add(1)
	s := &w.shards[e.number%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[e] = struct{}{}
}

func (w *watches) remove(e *watching) {
	s := &w.shards[e.number%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, e)
}

// count returns how many there are.
func (w *watches) count() (n int) {
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		n += len(s.all)
		s.mu.Unlock()
	}
	return n
}

// Watches returns the watches that are being served, oldest first.
func (r *Recorder) Watches() []*v1alpha1.Watch {
	var all []*watching
	for n := range r.watches.shards {
		s := &r.watches.shards[n]
		s.mu.Lock()
		for e := range s.all {
			all = append(all, e)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *watching) int { return cmp.Compare(a.number, b.number) })
	now := r.Clock.Now()
	out := make([]*v1alpha1.Watch, 0, len(all))
	for _, e := range all {
		out = append(out, e.shown(now))
	}
	return out
}

func (e *watching) shown(now time.Time) *v1alpha1.Watch {
	i, p := e.info, &e.progress
	w := &v1alpha1.Watch{
		UserAgent: shared(e.agent, maxAgent), SourceIP: shared(address(e.from), maxID), Group: shared(i.Group, maxName), Version: shared(i.Version, maxID),
		Resource: shared(i.Resource, maxName), Namespace: shared(i.Namespace, maxName), Name: text(i.Name, maxName),
		LabelSelector: text(i.LabelSelector, maxUser), FieldSelector: text(i.FieldSelector, maxUser),
		Began: metav1.NewMicroTime(e.began), Events: p.Events.Load(), Bytes: p.Bytes.Load(), Revision: p.Revision.Load(),
	}
	w.ObjectMeta.Name = "w" + strconv.FormatInt(e.number, 10)
	w.CreationTimestamp = metav1.NewTime(e.began)
	if since := p.Sending.Load(); since != 0 {
		w.Lag.Duration = max(0, now.Sub(time.Unix(0, since)))
	}
	u, as := e.latency.Users()
	if u != nil {
		w.User = shared(u.GetName(), maxUser)
	}
	if as != nil {
		w.Impersonated = shared(as.GetName(), maxUser)
	}
	return w
}
