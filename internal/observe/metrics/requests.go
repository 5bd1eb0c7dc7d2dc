package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Filter measures each request.
func (m *Metrics) Filter(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		i := request.InfoFrom(r.Context())
		if i == nil {
			next(w, r)
			return
		}
		s := m.seriesOf(m.labelsOf(i, r))
		defer s.users.Add(-1)
		start := time.Now()
		if chain.LongRunning(i) {
			g := s.long()
			g.Inc()
			defer g.Dec()
			next(w, r)
			m.measure(s, i, r, w, time.Since(start))
			return
		}
		f := &m.reading
		if mutating(i) {
			f = &m.writing
		}
		f.enter()
		defer f.leave()
		ended := false
		defer func() {
			if !ended { // a panic ends the connection
				l := s.l
				m.aborts.WithLabelValues(l.verb, l.group, l.version, l.resource, l.subresource, l.scope).Inc()
			}
		}()
		next(w, r)
		ended = true
		m.measure(s, i, r, w, time.Since(start))
	}
}

func (m *Metrics) measure(s *requests, i *request.Info, r *http.Request, w http.ResponseWriter, took time.Duration) {
	code := chain.StatusOf(w)
	s.count(code)
	t := s.timed()
	t.seconds.Observe(took.Seconds())
	if t.sliSeconds != nil {
		latency := request.LatencyFrom(r.Context())
		own := (took - latency.Of(request.LayerMutatingWebhook) - latency.Of(request.LayerValidatingWebhook) - latency.Of(request.LayerQueue)).Seconds()
		t.sliSeconds.Observe(own)
		t.sloSeconds.Observe(own)
	}
	switch {
	case t.sizes != nil:
		t.sizes.Observe(float64(chain.SizeOf(w)))
	case t.bodies != nil:
		if r.ContentLength > 0 {
			t.bodies.Observe(float64(r.ContentLength))
		}
	}
	if i.IsResource && mutating(i) {
		m.validated(r, took)
	}
	if code == http.StatusTooManyRequests || code == http.StatusGatewayTimeout {
		l := s.l
		m.terminations.WithLabelValues(strconv.Itoa(code), l.verb, l.group, l.version, l.resource, l.subresource, l.scope, l.component).Inc()
	}
}

// validated measures a write by how strictly it wants unknown fields to be judged.
func (m *Metrics) validated(r *http.Request, took time.Duration) {
	mode := ""
	if strings.Contains(r.URL.RawQuery, "fieldValidation") {
		switch v := r.URL.Query()["fieldValidation"]; {
		case len(v) == 1 && (v[0] == metav1.FieldValidationIgnore || v[0] == metav1.FieldValidationWarn || v[0] == metav1.FieldValidationStrict || v[0] == ""):
			mode = v[0]
		default:
			mode = "invalid"
		}
	}
	m.validations.WithLabelValues(mode).Observe(took.Seconds())
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

func mutating(i *request.Info) bool {
	switch i.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (m *Metrics) labelsOf(i *request.Info, r *http.Request) labels {
	l := labels{scope: scopeOf(i), component: "apiserver"}
	l.verb = verbOf(i, r, l.scope)
	switch {
	case i.IsResource && m.served != nil && m.served.Owns(r, i):
		l.group, l.version, l.resource = i.Group, i.Version, i.Resource
		if l.subresource = i.Subresource; l.subresource != "" && !subresources[l.subresource] {
			l.subresource = "other"
		}
	case i.IsResource:
		l.subresource = "other"
	default:
		l.subresource, l.component = place(i.Path)
	}
	if mutating(i) && strings.Contains(r.URL.RawQuery, "dryRun") {
		l.dryRun = dryRunOf(r.URL.Query()["dryRun"])
	}
	return l
}

// dryRunOf returns the dryRun parameter as a label.
func dryRunOf(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case slices.ContainsFunc(values, func(v string) bool { return v != metav1.DryRunAll }):
		return "invalid"
	}
	return metav1.DryRunAll
}

// scopeOf returns what a request is about: one object, those of a namespace, or all.
func scopeOf(i *request.Info) string {
	switch {
	case i.Name != "", i.Verb == "create":
		return "resource"
	case i.Namespace != "":
		return "namespace"
	case i.IsResource:
		return "cluster"
	}
	return ""
}

// subresources are the subresources of all kinds.
var subresources = map[string]bool{"status": true, "scale": true, "binding": true, "eviction": true, "ephemeralcontainers": true, "resize": true,
	"log": true, "exec": true, "attach": true, "portforward": true, "proxy": true, "token": true, "approval": true, "finalize": true}

// place returns the label subresource of a path that is no resource, and the label component, both as upstream spells
// them.
func place(path string) (subresource, component string) {
	switch path {
	case "/healthz", "/livez", "/readyz":
		return path, ""
	case "/api", "/apis":
		return path[1:], "apiserver"
	case "/openapi/v3":
		return "openapi/v3", ""
	case "/metrics", "/version", "/openapi/v2":
		return path, "apiserver"
	}
	if strings.HasPrefix(path, "/openapi/v3/") {
		return "openapi/v3/", ""
	}
	return "other", "apiserver"
}

// verbOf returns the verb as kube-apiserver's metrics spell it: the HTTP method, but reads of several objects,
// watches, applies and streams have verbs of their own.
func verbOf(i *request.Info, r *http.Request, scope string) string {
	switch {
	case i.IsResource && connects[i.Subresource]:
		return "CONNECT"
	case i.Verb == "watch":
		return "WATCH"
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if scope == "namespace" || scope == "cluster" {
			return "LIST"
		}
		return "GET"
	case http.MethodPatch:
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			return "APPLY"
		}
		return "PATCH"
	case http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect:
		return r.Method
	}
	return "other"
}

// connects are the subresources whose requests are streams.
var connects = map[string]bool{"log": true, "exec": true, "portforward": true, "attach": true, "proxy": true}
