package kanzentest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Request is a request that the server got, and its outcome.
type Request struct {
	// Time is when it came, by the server's clock.
	Time time.Time
	// Method and Path are as sent; Query is the part of the URL after "?".
	Method, Path, Query string
	// Verb is the API verb: get, list, watch, create, update, patch, delete, deletecollection. For paths that are no
	// resources it is the method in lower case.
	Verb string
	// Group, Version, Resource and Subresource are what the path names; Resource is empty for paths that are no resources.
	Group, Version, Resource, Subresource string
	// Namespace and Name are of the path; an object that is created is named in its body only.
	Namespace, Name string
	// User acts, if impersonated then as this. Empty: authentication has failed.
	User      string
	UserAgent string
	// Internal says that the server itself sent it, or one of its controllers.
	Internal bool
	// Fault says that a fault was injected.
	Fault bool
	// Code is the HTTP status of the answer; 0 while the request is under way, as watches are.
	Code int
	// Duration is from the request to the end of the answer.
	Duration time.Duration
}

// String is one line about the request.
func (r Request) String() string {
	path := r.Path
	if r.Query != "" {
		path += "?" + r.Query
	}
	return fmt.Sprintf("%d %s %s by %q", r.Code, r.Verb, path, r.User)
}

// Match selects requests. Empty fields match all; the zero Match matches all requests of clients.
type Match struct {
	// Verbs are some verbs, separated by commas: "update,patch".
	Verbs string
	// Resource is as in kubectl: "pods", "pods/status", "deployments.apps". Without a subresource it is the resource
	// alone, without a group that of any group.
	Resource        string
	Namespace, Name string
	User            string
	// Internal matches the requests of the server's own controllers instead of clients'.
	Internal bool
}

func (m Match) matches(r *Request) bool {
	return m.Internal == r.Internal &&
		(m.Verbs == "" || slices.Contains(strings.Split(m.Verbs, ","), r.Verb)) &&
		(m.Resource == "" || m.named(r)) &&
		(m.Namespace == "" || m.Namespace == r.Namespace) && (m.Name == "" || m.Name == r.Name) &&
		(m.User == "" || m.User == r.User)
}

func (m Match) named(r *Request) bool {
	resource, sub, _ := strings.Cut(m.Resource, "/")
	name, group, grouped := strings.Cut(resource, ".")
	if s, g, ok := strings.Cut(sub, "."); ok && !grouped { // pods/status.apps is written too
		sub, group, grouped = s, g, true
	}
	return name == r.Resource && sub == r.Subresource && (!grouped || group == r.Group)
}

// maxRecorded bounds the record; older requests are dropped.
const maxRecorded = 100_000

// record is the requests that a server got.
type record struct {
	mu      sync.Mutex
	all     []*Request    // in the order in which they came; guarded by mu, the requests too
	changed chan struct{} // closed by the next change; guarded by mu
}

func newRecord() *record { return &record{changed: make(chan struct{})} }

func (r *record) add(q *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRecorded {
		r.all = slices.Clone(r.all[maxRecorded/2:])
	}
	r.all = append(r.all, q)
}

// change changes a request of the record and wakes those who wait for one.
func (r *record) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *record) find(of []Match) (found []Request, changed <-chan struct{}) {
	if len(of) == 0 {
		of = []Match{{}}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.all {
		if slices.ContainsFunc(of, func(m Match) bool { return m.matches(q) }) {
			found = append(found, *q)
		}
	}
	return found, r.changed
}

// Requests returns the requests that the server got since it was handed out or Reset, in the order in which they came;
// with matches those that one of them matches. Requests of the server's own controllers are only among them if a Match
// asks for them.
func (s *Server) Requests(of ...Match) []Request {
	if s.record == nil {
		return nil
	}
	found, _ := s.record.find(of)
	return found
}

// AwaitRequest returns the first request that a match has and that was answered (a watch: that has ended), waiting for
// it if need be.
func (s *Server) AwaitRequest(ctx context.Context, of Match) (Request, error) {
	if s.record == nil {
		return Request{}, fmt.Errorf("kanzentest: the server keeps no record (NoRecord)")
	}
	for {
		found, changed := s.record.find([]Match{of})
		if n := slices.IndexFunc(found, func(r Request) bool { return r.Code != 0 }); n >= 0 {
			return found[n], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("kanzentest: %w: %s", context.Cause(ctx), s.missed(of))
		}
	}
}

// forget empties the record.
func (s *Server) forget() {
	if s.record != nil {
		s.record.change(func() { s.record.all = nil })
	}
}

type requestKey struct{}

// observe is the filter that records requests.
func (s *Server) observe(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		q := s.request(r)
		s.record.add(q)
		defer func() {
			code, took := chain.StatusOf(w), s.ground.Clock.Now().Sub(q.Time)
			s.record.change(func() { q.Code, q.Duration = code, took })
		}()
		next(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, q)))
	}
}

// request describes a request, without its user.
func (s *Server) request(r *http.Request) *Request {
	q := &Request{Time: s.ground.Clock.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, UserAgent: r.UserAgent(),
		Internal: request.LocalFrom(r) != nil}
	if i := request.InfoFrom(r.Context()); i != nil {
		q.Verb, q.Group, q.Version, q.Resource, q.Subresource = i.Verb, i.Group, i.Version, i.Resource, i.Subresource
		q.Namespace, q.Name = i.Namespace, i.Name
	}
	return q
}

// intervene is the filter that knows the user: it completes the record, injects faults, and holds watches so that they
// can be ended.
func (s *Server) intervene(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		q, recorded := r.Context().Value(requestKey{}).(*Request)
		faulty := s.faults.any()
		watch := false
		if i := request.InfoFrom(r.Context()); i != nil {
			watch = i.Verb == "watch"
		}
		if !recorded && !faulty && !watch {
			next(w, r)
			return
		}
		if !recorded {
			q = s.request(r)
		}
		name := ""
		if u := request.UserFrom(r.Context()); u != nil {
			name = u.GetName()
		}
		if recorded {
			s.record.change(func() { q.User = name })
		} else {
			q.User = name
		}
		if faulty && s.faulted(w, r, q, recorded) {
			return
		}
		if watch {
			ctx, leave := s.watches.enter(r.Context(), *q)
			defer leave()
			r = r.WithContext(ctx)
		}
		next(w, r)
	}
}
