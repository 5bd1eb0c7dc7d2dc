// Package chain holds the filters that every request passes before it is served: authentication, authorization, flow
// control, deadlines and more. The func steps states their order; each filter is a file. A filter that is not configured
// is left out.
//
// The chain starts no goroutines: a request is served in the goroutine in which it arrived. Deadlines are those of the
// context, so everything that blocks must honour it.
package chain

import (
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// Handler serves a request. It is a func and no http.Handler, so that a filter calls what follows it directly: that is
// one frame of the stack for each filter.
type Handler func(w http.ResponseWriter, r *http.Request)

// Filter does its part of a request, and either passes the request on to next or answers it.
type Filter func(next Handler) Handler

// Then puts a filter in front of a handler.
func (f Filter) Then(h http.Handler) http.Handler { return http.HandlerFunc(f(h.ServeHTTP)) }

// ErrorWriter answers a request with an error, as a Status in a media type that the client accepts.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, err error)

// Config configures the filters. Handler, Authenticator, Authorizer, Log and Clock are required.
type Config struct {
	// Handler serves the requests that pass all filters.
	Handler       http.Handler
	Authenticator authn.Authenticator
	Authorizer    authz.Authorizer
	// Page tells what filters have to know of a path that is no resource. Optional.
	Page func(path string) request.Page
	// CBOR adds CBOR to the media types.
	CBOR bool
	// Extensions are those that are on.
	Extensions extensions.Set
	// WriteError writes refusals; nil is WriteStatus.
	WriteError ErrorWriter
	Log        *slog.Logger
	Clock      clock.PassiveClock

	// NewAuditID makes IDs for requests that bring none; nil makes random UUIDs.
	NewAuditID func() string
	// OnPanic is told of each panic, for the metric.
	OnPanic func(r *http.Request)
	// OnFilter returns, for a filter's name in the metric, a func that is called with the time that each request spent
	// in that filter. Optional.
	OnFilter func(filter string) func(d time.Duration)
	// RequestTimeout is how long a request may take; zero is a minute.
	RequestTimeout time.Duration
	// MaxReading and MaxWriting bound the requests served at the same time; zero means no bound. FlowControl replaces
	// them.
	MaxReading, MaxWriting int
	// CORS are the origins whose scripts may use the API.
	CORS []*regexp.Regexp
	// OriginCheck refuses upgrades for pages of other origins than this host and CORS.
	OriginCheck bool
	// HSTS are the directives of the Strict-Transport-Security header.
	HSTS []string
	// ProxyHeaders are the front proxy's headers, which authentication removes along with the standard ones.
	ProxyHeaders authn.HeaderNames
	// InFlight counts the requests for which the shutdown waits. Optional.
	InFlight *InFlight
	// SendRetryAfter, when closed, sends clients to another server
	// (--shutdown-send-retry-after); nil never does.
	SendRetryAfter <-chan struct{}
	// GoawayChance is the probability that an HTTP/2 client is asked to reconnect. Random returns a number from 0 to 1.
	GoawayChance float64
	Random       func() float64
	// Watches are ended one by one during the shutdown; nil: all at once.
	Watches *Watches
	// LogAccess reports whether requests are logged; nil: never.
	LogAccess func() bool
	// LegacyImpersonation leaves out the constrained modes of impersonation (the gate ConstrainedImpersonation is off).
	LegacyImpersonation bool
	// Impersonator decides whether a user may impersonate another; nil is the Authorizer. It differs from the
	// Authorizer if that one counts requests.
	Impersonator authz.Authorizer
	// Impersonations is told of each attempt to impersonate. Optional.
	Impersonations ImpersonationObserver

	// Auditor makes audit events of requests; nil makes none.
	Auditor *audit.Auditor

	// Filters of other packages; nil leaves one out. OwnRequests counts the server's requests to itself.
	Metrics, Recorder, Tracing, OwnRequests, FlowControl Filter
	// Untold holds back writes until others know how this server stores the resource. Optional.
	Untold Untold
	// Console changes paths, so it comes before whatever looks at them.
	Console Filter
	// Observe and Intervene are the program's that holds the server: around every request, and once its user is known.
	Observe, Intervene Filter
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
		// All logs contain the ID, including that of a panic.
		{"audit ID", AuditID(c.NewAuditID, c.Auditor != nil), nil},
		{"panic recovery", Recover(c.Log, c.OnPanic, c.WriteError), nil},
		{"console", c.Console, nil},
		// Deadlines and latencies count from here.
		{"received timestamp", Received(c.Clock), nil},
		// All filters below use the request info.
		{"request info", Info(c.Page, c.CBOR, c.Extensions), nil},
		{"latency", Latency(c.Clock), nil},
		// Metrics and the access log include all requests that are refused below.
		{"metrics", c.Metrics, nil},
		{"flight recorder", c.Recorder, nil},
		{"observe", c.Observe, nil},
		{"access log", AccessLog(c.Log, c.Clock, c.LogAccess), nil},
		{"retry after", RetryAfter(c.SendRetryAfter, c.WriteError), nil},
		{"HSTS", HSTS(c.HSTS), nil},
		{"cache control", CacheControl(), nil},
		{"goaway", Goaway(c.GoawayChance, c.Random), nil},
		{"watch termination", WatchTermination(c.Watches, c.WriteError), nil},
		// Before the deadline, so that the shutdown waits for late answers too.
		{"in flight", WaitGroup(c.InFlight, c.WriteError), nil},
		{"deadline", Deadline(c.RequestTimeout, c.Clock, auditFailure(c.Auditor, errorText, c.WriteError), c.WriteError), nil},
		{"warnings", Warnings, nil},
		// Before authentication: a browser sends its preflight request without credentials.
		{"CORS", CORS(c.CORS), nil},
		{"authentication", Authentication(c.Authenticator, c.ProxyHeaders, c.Log, auditFailure(c.Auditor, attempted, c.WriteError)),
			c.timer("authentication", request.LayerAuthentication)},
		// After authentication, so that trusted users may choose to be sampled.
		{"tracing", c.Tracing, nil},
		{"own requests", c.OwnRequests, nil},
		// Before impersonation, because audit events name the original user.
		{"audit", Audit(c.Auditor, c.WriteError), c.timer("audit", noLayer)},
		// After audit, which has the attempt and whose certificate it was.
		{"origin", Origin(c.OriginCheck, c.CORS, c.WriteError), nil},
		{"impersonation", Impersonation(c.Impersonator, !c.LegacyImpersonation, c.Clock, c.Impersonations, c.WriteError),
			c.impersonationTimer()},
		{"intervene", c.Intervene, nil},
		// After impersonation: the impersonated user pays for the request.
		{"flow control", c.FlowControl, c.timer("priorityandfairness", noLayer)},
		{"authorization", Authorization(auditedAuthorizer{c.Authorizer}, c.Log, c.WriteError), c.timer("authorization", request.LayerAuthorization)},
		{"storage versions", StorageVersions(c.Untold, c.WriteError), nil},
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
