package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// labels of a request, and the key of its series. Their number is bounded: object names and unknown resources are left
// out, verbs are few.
type labels struct {
	verb, dryRun, group, version, resource, subresource, scope, component string
}

// requests are the time series of requests with the same labels. Looking each of them up by its labels would cost more
// than all the rest of the measurement, so that they are looked up once.
type requests struct {
	of   *Metrics
	l    labels
	long func() prometheus.Gauge
	// timed are made when the first request has ended.
	timed func() timed
	codes atomic.Pointer[[]codeCount] // replaced, never changed
	// users are the requests that add to the series now; while there are any, sweep leaves them.
	users atomic.Int64
}

// timed are the series that an ended request adds to. Some are nil, for requests that they do not apply to.
type timed struct{ seconds, sliSeconds, sloSeconds, sizes, bodies prometheus.Observer }

type codeCount struct {
	code  int
	count prometheus.Counter
}

// seriesOf returns the series of requests with labels l, for a request that counts as their user until it has ended.
func (m *Metrics) seriesOf(l labels) *requests {
	m.mu.RLock()
	s := m.series[l]
	if s != nil {
		s.users.Add(1)
	}
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s = m.series[l]; s == nil {
		s = &requests{of: m, l: l}
		s.long = sync.OnceValue(s.newLong)
		s.timed = sync.OnceValue(s.newTimed)
		m.series[l] = s
	}
	s.users.Add(1)
	return s
}

// sweep removes the series of resources that are no longer served, such as those of a definition that was deleted. Those
// that a request still adds to stay until the next time.
func (m *Metrics) sweep() {
	if m.served == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := map[schema.GroupVersionResource]bool{}
	for l, s := range m.series {
		of := l.resourceOf()
		if _, asked := gone[of]; !asked {
			gone[of] = l.resource != "" && !m.served.Serves(of)
		}
		if gone[of] && s.users.Load() > 0 {
			gone[of] = false
		}
	}
	for l := range m.series {
		if gone[l.resourceOf()] {
			delete(m.series, l)
		}
	}
	for of, is := range gone {
		if !is {
			continue
		}
		where := prometheus.Labels{"group": of.Group, "version": of.Version, "resource": of.Resource}
		for _, v := range []vector{m.total, m.aborts, m.terminations, m.seconds, m.sliSeconds, m.sloSeconds, m.sizes, m.long, m.deprecated} {
			v.DeletePartialMatch(where)
		}
		if delete(where, "version"); !m.served.Serves(schema.GroupVersionResource{Group: of.Group, Resource: of.Resource}) {
			m.self.DeletePartialMatch(where)
			m.bodySizes.DeletePartialMatch(where)
		}
	}
}

// vector is what sweep needs of a metric with labels.
type vector interface {
	DeletePartialMatch(labels prometheus.Labels) int
}

func (l labels) resourceOf() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: l.group, Version: l.version, Resource: l.resource}
}

func (s *requests) newLong() prometheus.Gauge {
	l := s.l
	return s.of.long.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope, l.component)
}

func (s *requests) newTimed() timed {
	l, m := s.l, s.of
	where := []string{l.verb, l.group, l.version, l.resource, l.subresource, l.scope, l.component}
	t := timed{seconds: m.seconds.WithLabelValues(append([]string{l.dryRun}, where...)...)}
	if l.dryRun == "" {
		t.sliSeconds, t.sloSeconds = m.sliSeconds.WithLabelValues(where...), m.sloSeconds.WithLabelValues(where...)
	}
	if l.verb == "GET" || l.verb == "LIST" {
		t.sizes = m.sizes.WithLabelValues(where...)
	}
	if verb := bodyVerb(l.verb); verb != "" && l.resource != "" {
		t.bodies = m.bodySizes.WithLabelValues(l.group, l.resource, verb)
	}
	return t
}

// count counts a request that was answered with a code.
func (s *requests) count(code int) {
	known := s.codes.Load()
	if known != nil {
		for _, c := range *known {
			if c.code == code {
				c.count.Inc()
				return
			}
		}
	}
	l := s.l
	made := codeCount{code, s.of.total.WithLabelValues(strconv.Itoa(code), l.dryRun, l.verb, l.group, l.version, l.resource, l.subresource, l.scope, l.component)}
	made.count.Inc()
	var all []codeCount
	if known != nil {
		all = append(all, *known...)
	}
	all = append(all, made)
	s.codes.CompareAndSwap(known, &all) // if another request was first, the code is looked up once more
}

// bodyVerb returns the verb of a write as the metric of body sizes spells it, "" for others.
func bodyVerb(verb string) string {
	switch verb {
	case "POST":
		return "create"
	case "PUT":
		return "update"
	case "PATCH", "APPLY":
		return "patch"
	case "DELETE":
		return "delete"
	}
	return ""
}
