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
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/audit"
	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Filter does its part of a request and passes the rest on to next.
type Filter func(next http.Handler) http.Handler

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

	// Filters of other packages, each in its place; nil leaves it out.
	Metrics, Tracing, FlowControl Filter
}

// New puts the filters in front of the handler.
func New(c Config) http.Handler {
	h := c.Handler
	for _, s := range slices.Backward(steps(c)) {
		if s.filter != nil {
			h = s.filter(h)
		}
	}
	return growStack(record(h))
}

// step is a filter in its place.
type step struct {
	name   string
	filter Filter
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
		{"audit ID", AuditID(c.NewAuditID, c.Auditor != nil)},
		{"panic recovery", Recover(c.Log, c.OnPanic, c.WriteError)},
		// Deadlines and latencies count from here.
		{"received timestamp", Received(c.Clock)},
		// Everything below judges by what is asked.
		{"request info", Info()},
		{"latency", Latency(c.Clock)},
		// Metrics and the access log tell of all that is refused from here on.
		{"metrics", c.Metrics},
		{"access log", AccessLog(c.Log, c.Clock, c.LogAccess)},
		{"retry after", RetryAfter(c.SendRetryAfter, c.WriteError)},
		{"HSTS", HSTS(c.HSTS)},
		{"cache control", CacheControl()},
		{"goaway", Goaway(c.GoawayChance, c.Random)},
		{"watch termination", WatchTermination(c.Watches, c.WriteError)},
		// Before the deadline, so that shutting down waits for late answers too.
		{"in flight", WaitGroup(c.InFlight, c.WriteError)},
		{"deadline", Deadline(c.RequestTimeout, c.Clock, auditFailure(c.Auditor, errorText, c.WriteError), c.WriteError)},
		{"warnings", Warnings()},
		// Before authentication: a browser asks for permission without credentials.
		{"CORS", CORS(c.CORS)},
		{"authentication", measured("authentication", request.LayerAuthentication, &c,
			Authentication(c.Authenticator, c.ProxyHeaders, c.Log, auditFailure(c.Auditor, attempted, c.WriteError)))},
		// After authentication, so that who is known may choose to be sampled.
		{"tracing", c.Tracing},
		// Audit records who really asks, therefore before impersonation.
		{"audit", measured("audit", noLayer, &c, Audit(c.Auditor, c.WriteError))},
		{"impersonation", measured(impersonationFilter(&c), request.LayerImpersonation, &c,
			Impersonation(c.Impersonator, !c.LegacyImpersonation, c.Clock, c.Impersonations, c.WriteError))},
		// The share of the server is the impersonated user's.
		{"flow control", measured("priorityandfairness", noLayer, &c, c.FlowControl)},
		{"authorization", measured("authorization", request.LayerAuthorization, &c,
			Authorization(auditedAuthorizer{c.Authorizer}, c.Log, c.WriteError))},
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
