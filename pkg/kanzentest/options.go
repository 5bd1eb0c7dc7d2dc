package kanzentest

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
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
	// Version of Kubernetes that the server behaves as, such as "1.36" (patches do not matter): kinds, fields, feature gates,
	// defaults, reported version. Empty: $KANZENTEST_VERSION, so that one suite runs against several, or the newest.
	Version string
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

// Version makes the server behave as a version of Kubernetes, such as "1.36": one that --emulated-version takes.
func Version(version string) Option { return func(o *Options) { o.Version = version } }

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

// versionVariable names the version of servers that are not given one.
const versionVariable = "KANZENTEST_VERSION"

// flags returns the flags that the options stand for. A version by flag is stronger than one by the environment.
func (o *Options) flags() []string {
	wanted := o.Version
	byFlag := func(f string) bool { return strings.HasPrefix(f, "--emulated-version=") }
	if wanted == "" && !slices.ContainsFunc(o.Flags, byFlag) {
		wanted = os.Getenv(versionVariable)
	}
	if wanted == "" {
		return o.Flags
	}
	return append([]string{"--emulated-version=" + minor(wanted)}, o.Flags...)
}

// minor is major and minor of a version ("v1.36.3": "1.36"), or the text if it is none.
func minor(text string) string {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return text
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}
