package flowcontrol

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Stats returns the number of stored objects of a resource and their average size in bytes; ok is false if these are
// unknown.
type Stats func(group, resource string) (count, size int64, ok bool)

const (
	bytesPerSeat = 100_000
	// cachedBytes bounds the bytes that count for a list from a view: the list is written item by item.
	cachedBytes      = 1_000_000
	maxListSeats     = 100
	maxMutatingSeats = 10
	watchersPerSeat  = 10
	// fanout is the time to send an event to watchersPerSeat watchers.
	fanout = 5 * time.Millisecond
)

// estimate returns the expected cost of a request. most is the level's bound on seats; 0: no bound.
func (c *Controller) estimate(r *http.Request, i *request.Info, f *flow, most int) Estimate {
	switch i.Verb {
	case "list", "watch":
		if most == 0 || most > maxListSeats {
			most = maxListSeats
		}
		return Estimate{Initial: min(max(c.listSeats(r.URL, i), 1), most)}
	case "create", "update", "patch", "delete":
		if i.Resource == "serviceaccounts" && i.Subresource == "token" {
			return Estimate{Initial: 1} // nothing is stored
		}
		if most == 0 || most > maxMutatingSeats {
			most = maxMutatingSeats
		}
		watchers := c.watches.interested(i)
		f.metrics().watchers.Observe(float64(watchers))
		return mutating(watchers, most)
	}
	return Estimate{Initial: 1}
}

// mutating returns the cost of a write that this number of watchers receive.
func mutating(watchers, most int) Estimate {
	e := Estimate{Initial: 1}
	if watchers < watchersPerSeat {
		return e
	}
	wide := int(math.Ceil(float64(watchers) / watchersPerSeat))
	e.Final = min(wide, most)
	e.Linger = time.Duration(float64(fanout) * float64(wide) / float64(e.Final))
	return e
}

// listSeats returns the cost of a list, or of the initial events of a watch, by the bytes that are handled at once.
func (c *Controller) listSeats(u *url.URL, i *request.Info) int {
	var q url.Values
	if u.RawQuery != "" {
		q = u.Query()
	}
	rv := q.Get("resourceVersion")
	if i.Verb == "watch" {
		initial, err := strconv.ParseBool(q.Get("sendInitialEvents"))
		if (err != nil || !initial) && rv != "" && rv != "0" {
			return 1 // only new events
		}
	}
	count, size, ok := c.stats(i.Group, i.Resource)
	if !ok {
		return 1
	}
	if i.Name != "" {
		count = 1
	}
	if limit, err := strconv.ParseInt(q.Get("limit"), 10, 64); err == nil && limit > 0 {
		count = min(count, limit)
	}
	// Every list is served from a view, including those that upstream reads from etcd.
	return int(math.Ceil(float64(min(count*size, cachedBytes)) / bytesPerSeat))
}

// watches counts the open watches by resource, namespace and name.
type watches struct {
	mu    sync.Mutex
	count map[watched]int // guarded by mu
}

type watched struct{ group, resource, namespace, name string }

// add counts a watch until the returned func is called.
func (w *watches) add(u *url.URL, i *request.Info) func() {
	if i.Resource == "pods" && i.Group == "" && onNode(u) {
		// A kubelet's watch receives only the pods of one node, a small part of all changes.
		return func() {}
	}
	key := watched{i.Group, i.Resource, i.Namespace, i.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[key]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.count[key]--; w.count[key] == 0 {
			delete(w.count, key)
		}
	}
}

func onNode(u *url.URL) bool {
	selector, err := fields.ParseSelector(u.Query().Get("fieldSelector"))
	if err != nil {
		return false
	}
	node, ok := selector.RequiresExactMatch("spec.nodeName")
	return ok && node != ""
}

// interested returns the number of watches that receive a write.
func (w *watches) interested(i *request.Info) int {
	key := watched{group: i.Group, resource: i.Resource}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.count[key]
	if key.namespace = i.Namespace; i.Namespace != "" {
		n += w.count[key]
	}
	if key.name = i.Name; i.Name != "" {
		n += w.count[key]
	}
	return n
}
