package kanzentest

import (
	"log/slog"
	"net/http"
	"time"
)

// Options are the settings of a server. The zero value is a server with its log in memory, without a socket.
type Options struct {
	// Controllers to run in the server, as --controllers spells them ("*", "namespace", "-namespace"); nil: all that
	// kanzen has; empty and not nil: none.
	Controllers []string
	// Etcd runs an etcd inside the server in the place of the log in memory, EtcdServers uses a cluster.
	Etcd        bool
	EtcdServers []string
	// DataDir keeps the server's keys and its etcd, so that a later server finds them again; it implies Etcd. Empty: a
	// directory that goes with the server.
	DataDir string
	// Listen is host and port of a socket; port 0 is a free one. Empty: there is no socket.
	Listen string
	// Flags are flags of "kanzen serve", such as "--event-ttl=1m" or "--enable-admission-plugins=AlwaysPullImages".
	Flags []string
	// Install is what the server has from its beginning: CRDs, webhooks, any objects.
	Install []Source
	// Webhooks serves the admission and conversion webhooks that are named by a service, whatever its name; nil: they
	// are called over the network.
	Webhooks http.Handler
	// Clock is the server's clock; nil: the system's.
	Clock *Clock
	// NoRecord keeps no record of requests.
	NoRecord bool
	// FailureDir is where the record and all objects are written when a test fails. Empty: $KANZENTEST_FAILURES, or the
	// test's artifact directory if the test was started with -artifacts.
	FailureDir string
	// StartTimeout bounds the time to be ready; zero: a minute.
	StartTimeout time.Duration
	// Log takes the server's log; nil: its errors go to standard error.
	Log *slog.Logger
}

// Option changes Options. Any func of this type is one.
type Option func(*Options)

// Controllers runs these controllers in the server, as --controllers spells them. Without the option all run that kanzen
// has, without a name none does.
func Controllers(names ...string) Option {
	return func(o *Options) { o.Controllers = append([]string{}, names...) }
}

// DataDir keeps the server's data, in an etcd inside the server, in a directory of the caller's, so that a later server
// finds it again.
func DataDir(dir string) Option { return func(o *Options) { o.DataDir = dir } }

// Etcd runs an etcd inside the server in the place of the log in memory; with endpoints it uses that cluster.
func Etcd(endpoints ...string) Option {
	return func(o *Options) { o.Etcd, o.EtcdServers = len(endpoints) == 0, endpoints }
}

// Listen also serves on a port of the loopback interface, which the system chooses.
func Listen() Option { return func(o *Options) { o.Listen = "127.0.0.1:0" } }

// Flags sets flags of "kanzen serve", such as "--event-ttl=1m".
func Flags(flags ...string) Option { return func(o *Options) { o.Flags = append(o.Flags, flags...) } }

// Install puts CRDs, webhooks or any other objects into the server before it is handed out, and waits until the CRDs are
// served.
func Install(sources ...Source) Option {
	return func(o *Options) { o.Install = append(o.Install, sources...) }
}

// Webhooks serves admission and conversion webhooks by a handler in this process, without a socket and certificates:
// those that are named by a service, whatever its name. The sources have their configurations, as in Install.
func Webhooks(h http.Handler, sources ...Source) Option {
	return func(o *Options) { o.Webhooks, o.Install = h, append(o.Install, sources...) }
}

// WithClock has the server tell the time by a clock that the test moves.
func WithClock(c *Clock) Option { return func(o *Options) { o.Clock = c } }

// NoRecord keeps no record of requests.
func NoRecord() Option { return func(o *Options) { o.NoRecord = true } }

// FailureDir is where the record of requests and all objects are written when a test fails.
func FailureDir(dir string) Option { return func(o *Options) { o.FailureDir = dir } }

// Log takes the server's log.
func Log(l *slog.Logger) Option { return func(o *Options) { o.Log = l } }
