// Package chain is what every request passes before it is served: who is it
// from, may they, is there room, how long may it take. New states the order;
// each filter is a file. A filter that is not configured is not there.
//
// The chain starts no goroutines: a request is served in the one it arrived in,
// and deadlines are the context's, which everything that blocks must honour.
package chain

import (
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/audit"
	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Handler serves a request. It is a func and no http.Handler, so that a filter calls what follows it directly: that is
// one frame of the stack for each filter.
type Handler func(w http.ResponseWriter, r *http.Request)

// Filter does its part of a request, and either passes the request on to next or answers it.
type Filter func(next Handler) Handler

// Then puts a filter in front of a handler.
func (f Filter) Then(h http.Handler) http.Handler { return http.HandlerFunc(f(h.ServeHTTP)) }

// ErrorWriter answers a request with an error, as a Status in the form that
// the client asked for.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// Config is what the filters need. Handler, Authenticator, Authorizer, Log and
// Clock are required.
type Config struct {
	// Handler serves what passes.
	Handler       http.Handler
	Authenticator authn.Authenticator
	Authorizer    authz.Authorizer
	// WriteError writes refusals; nil is WriteStatus.
	WriteError ErrorWriter
	Log        *slog.Logger
	Clock      clock.PassiveClock

	// NewAuditID makes IDs for requests that bring none; nil makes random UUIDs.
	NewAuditID func() string
	// OnPanic is told of each panic, for the metric.
	OnPanic func(r *http.Request)
	// OnFilter is told how long a request was in a filter, by the names of the
	// metric; nil is not.
	OnFilter func(filter string, d time.Duration)
	// RequestTimeout is how long a request may take; zero is a minute.
	RequestTimeout time.Duration
	// MaxReading and MaxWriting bound the requests served at the same time;
	// zero does not. They do not count where FlowControl is set.
	MaxReading, MaxWriting int
	// CORS are the origins whose scripts may use the API.
	CORS []*regexp.Regexp
	// HSTS are the directives of the Strict-Transport-Security header.
	HSTS []string
	// ProxyHeaders are the front proxy's headers, which go no further. The
	// standard ones never do.
	ProxyHeaders authn.HeaderNames
	// InFlight counts the requests that shutting down waits for; nil does not.
	InFlight *InFlight
	// SendRetryAfter, when closed, sends clients to another server
	// (--shutdown-send-retry-after); nil never does.
	SendRetryAfter <-chan struct{}
	// GoawayChance is that of a client on HTTP/2 to be asked to connect anew, by
	// a number from 0 to 1 of Random.
	GoawayChance float64
	Random       func() float64
	// Watches are ended one by one when shutting down; nil: all at once.
	Watches *Watches
	// LogAccess says whether requests are to be logged; nil: never.
	LogAccess func() bool
	// LegacyImpersonation leaves out the constrained modes of impersonation.
	LegacyImpersonation bool
	// Impersonator is asked who may act as whom; nil is the Authorizer. It is
	// another where the Authorizer counts requests.
	Impersonator authz.Authorizer
	// Impersonations is told of attempts to act as another; nil is not.
	Impersonations ImpersonationObserver

	// Auditor makes audit events of requests; nil makes none.
	Auditor *audit.Auditor

	// Filters of other packages, each in its place; nil leaves it out. OwnRequests
	// counts what the server asks of itself.
	Metrics, Tracing, OwnRequests, FlowControl Filter
}

// New puts the filters in front of the handler.
func New(c Config) http.Handler {
	all := steps(c)
	h, behind := Handler(c.Handler.ServeHTTP), (*timer)(nil)
	for n := len(all) - 1; n >= 0; n-- {
		if s := all[n]; s.filter != nil {
			h = s.filter(pass(s.timer, behind, h))
			behind = s.timer
		}
	}
	return http.HandlerFunc(begin(pass(nil, behind, h)))
}

// begin makes the response that the filters share.
func begin(next Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		growStack(r.Method)
		next(&response{ResponseWriter: w}, r)
	}
}

// step is a filter in its place. A nil filter is not configured, a nil timer does not measure it.
type step struct {
	name   string
	filter Filter
	timer  *timer
}

// steps is the order of the filters, the outermost first.
func steps(c Config) []step {
	if c.WriteError == nil {
		c.WriteError = WriteStatus
	}
	if c.Impersonator == nil {
		c.Impersonator = c.Authorizer
	}
	if c.FlowControl == nil {
		c.FlowControl = MaxInFlight(c.MaxReading, c.MaxWriting)
	}
	return []step{
		// The ID names the request in everything that follows, also in the log
		// of a panic.
		{"audit ID", AuditID(c.NewAuditID, c.Auditor != nil), nil},
		{"panic recovery", Recover(c.Log, c.OnPanic, c.WriteError), nil},
		// Deadlines and latencies count from here.
		{"received timestamp", Received(c.Clock), nil},
		// Everything below judges by what is asked.
		{"request info", Info, nil},
		{"latency", Latency(c.Clock), nil},
		// Metrics and the access log tell of all that is refused from here on.
		{"metrics", c.Metrics, nil},
		{"access log", AccessLog(c.Log, c.Clock, c.LogAccess), nil},
		{"retry after", RetryAfter(c.SendRetryAfter, c.WriteError), nil},
		{"HSTS", HSTS(c.HSTS), nil},
		{"cache control", CacheControl(), nil},
		{"goaway", Goaway(c.GoawayChance, c.Random), nil},
		{"watch termination", WatchTermination(c.Watches, c.WriteError), nil},
		// Before the deadline, so that shutting down waits for late answers too.
		{"in flight", WaitGroup(c.InFlight, c.WriteError), nil},
		{"deadline", Deadline(c.RequestTimeout, c.Clock, auditFailure(c.Auditor, errorText, c.WriteError), c.WriteError), nil},
		{"warnings", Warnings, nil},
		// Before authentication: a browser asks for permission without credentials.
		{"CORS", CORS(c.CORS), nil},
		{"authentication", Authentication(c.Authenticator, c.ProxyHeaders, c.Log, auditFailure(c.Auditor, attempted, c.WriteError)),
			c.timer("authentication", request.LayerAuthentication)},
		// After authentication, so that trusted users may choose to be sampled.
		{"tracing", c.Tracing, nil},
		{"own requests", c.OwnRequests, nil},
		// Audit records who really asks, therefore before impersonation.
		{"audit", Audit(c.Auditor, c.WriteError), c.timer("audit", noLayer)},
		{"impersonation", Impersonation(c.Impersonator, !c.LegacyImpersonation, c.Clock, c.Impersonations, c.WriteError),
			c.timer(impersonationFilter(&c), request.LayerImpersonation)},
		// The share of the server is the impersonated user's.
		{"flow control", c.FlowControl, c.timer("priorityandfairness", noLayer)},
		{"authorization", Authorization(auditedAuthorizer{c.Authorizer}, c.Log, c.WriteError), c.timer("authorization", request.LayerAuthorization)},
	}
}

// Order names the filters of a configuration, the outermost first.
func Order(c Config) []string {
	var names []string
	for _, s := range steps(c) {
		if s.filter != nil {
			names = append(names, s.name)
		}
	}
	return names
}
