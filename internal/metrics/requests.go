package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

const component = "apiserver"

// Filter measures each request.
func (m *Metrics) Filter(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		i := request.InfoFrom(r.Context())
		if i == nil {
			next(w, r)
			return
		}
		l := m.labelsOf(i, r)
		if chain.LongRunning(i) {
			g := m.long.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component)
			g.Inc()
			defer g.Dec()
			next(w, r)
			m.count(l, chain.StatusOf(w))
			return
		}
		f := &m.reading
		if l.mutating {
			f = &m.writing
		}
		f.enter()
		defer f.leave()
		start := time.Now()
		ended := false
		defer func() {
			if !ended { // a panic ends the connection
				m.aborts.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope).Inc()
			}
		}()
		next(w, r)
		ended = true
		m.measure(l, r, w, time.Since(start))
	}
}

func (m *Metrics) measure(l labels, r *http.Request, w http.ResponseWriter, took time.Duration) {
	code := chain.StatusOf(w)
	m.count(l, code)
	m.seconds.WithLabelValues(l.dryRun, l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component).Observe(took.Seconds())
	if l.dryRun == "" {
		latency := request.LatencyFrom(r.Context())
		own := took - latency.Of(request.LayerMutatingWebhook) - latency.Of(request.LayerValidatingWebhook) - latency.Of(request.LayerQueue)
		for _, h := range []*prometheus.HistogramVec{m.sliSeconds, m.sloSeconds} {
			h.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component).Observe(own.Seconds())
		}
	}
	switch {
	case l.verb == "GET" || l.verb == "LIST":
		m.sizes.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component).Observe(float64(chain.SizeOf(w)))
	case l.mutating && l.resource != "" && r.ContentLength > 0:
		m.bodySizes.WithLabelValues(l.group, l.resource, bodyVerb(l.verb)).Observe(float64(r.ContentLength))
	}
	if code == http.StatusTooManyRequests || code == http.StatusGatewayTimeout {
		m.terminations.WithLabelValues(strconv.Itoa(code), l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component).Inc()
	}
}

// bodyVerb returns the verb as the body size metric spells it.
func bodyVerb(verb string) string {
	switch verb {
	case "POST":
		return "create"
	case "PUT":
		return "update"
	case "PATCH", "APPLY":
		return "patch"
	}
	return "delete"
}

func (m *Metrics) count(l labels, code int) {
	m.total.WithLabelValues(strconv.Itoa(code), l.dryRun, l.verb, l.group, l.version, l.resource, l.subresource, l.scope, component).Inc()
}

// Self counts the server's requests to itself; it must run after authentication.
func (m *Metrics) Self(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		if u := request.UserFrom(r.Context()); u != nil && u.GetName() == user.APIServerUser {
			l := m.labelsOf(request.InfoFrom(r.Context()), r)
			m.self.WithLabelValues(l.verb, l.group, l.resource, l.subresource).Inc()
		}
		next(w, r)
	}
}

// labels of a request. Their number is bounded: object names and unknown resources are left out, and verbs are few.
type labels struct {
	verb, dryRun, group, version, resource, subresource, scope string
	mutating                                                   bool
}

func (m *Metrics) labelsOf(i *request.Info, r *http.Request) labels {
	l := labels{verb: verbOf(i, r)}
	switch {
	case i.IsResource && m.owns != nil && m.owns(r, i):
		l.group, l.version, l.resource = i.Group, i.Version, i.Resource
		if l.subresource = i.Subresource; l.subresource != "" && !subresources[l.subresource] {
			l.subresource = "other"
		}
	default:
		l.subresource = "other"
		if known[i.Path] {
			l.subresource = i.Path
		}
	}
	switch i.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		l.mutating = true
		if r.URL.RawQuery != "" && len(r.URL.Query()["dryRun"]) > 0 {
			l.dryRun = "All"
		}
	}
	switch {
	case !i.IsResource:
	case i.Name != "":
		l.scope = "resource"
	case i.Namespace != "":
		l.scope = "namespace"
	default:
		l.scope = "cluster"
	}
	return l
}

// subresources are the subresources of all kinds.
var subresources = map[string]bool{"status": true, "scale": true, "binding": true, "eviction": true, "ephemeralcontainers": true, "resize": true,
	"log": true, "exec": true, "attach": true, "portforward": true, "proxy": true, "token": true, "approval": true, "finalize": true}

var known = map[string]bool{"/healthz": true, "/livez": true, "/readyz": true, "/metrics": true, "/version": true,
	"/openapi/v2": true, "/openapi/v3": true, "/api": true, "/apis": true}

// verbOf returns the verb as kube-apiserver's metrics spell it.
func verbOf(i *request.Info, r *http.Request) string {
	switch i.Verb {
	case "create", "post":
		return "POST"
	case "update", "put":
		return "PUT"
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "patch":
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			return "APPLY"
		}
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	}
	return "other"
}
