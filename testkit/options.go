package testkit

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strings"
	"time"
)

// Options are the settings of a server. The zero value is a control plane of the newest Kubernetes that kanzen has.
type Options struct {
	// Binary is the path of kanzen. Empty: it is looked for, as the package comment says.
	Binary string
	// Version of Kubernetes that the server behaves as, such as "1.36". Empty: $KANZENTEST_VERSION, or the newest.
	Version string
	// FeatureGates are switched on (true) or off.
	FeatureGates map[string]bool
	// Flags are further flags of "kanzen serve", such as "--enable-admission-plugins=AlwaysPullImages".
	Flags []string
	// OwnProcess gives the server a process of its own.
	OwnProcess bool
	// Install is what the server has from its beginning: CRDs, webhooks, any objects.
	Install []Source
	// UseWebhooks has webhooks that are named by a service served in this process, by Webhooks or, if that is nil, by the
	// handler that Server.ServeWebhooks or WebhookServer brings.
	UseWebhooks bool
	Webhooks    http.Handler
	// Converted are names of CRDs that are installed with a conversion webhook, whatever their manifests say.
	Converted []string
	// StartTimeout bounds the time to be ready; zero: a minute.
	StartTimeout time.Duration
}

// Option changes Options. Any func of this type is one.
type Option func(*Options)

// Binary is the path of kanzen.
func Binary(path string) Option { return func(o *Options) { o.Binary = path } }

// Version makes the server behave as a version of Kubernetes, such as "1.36".
func Version(version string) Option { return func(o *Options) { o.Version = version } }

// FeatureGate switches a feature gate on or off.
func FeatureGate(name string, on bool) Option {
	return func(o *Options) {
		if o.FeatureGates == nil {
			o.FeatureGates = map[string]bool{}
		}
		o.FeatureGates[name] = on
	}
}

// Flags sets flags of "kanzen serve", such as "--event-ttl=1m".
func Flags(flags ...string) Option { return func(o *Options) { o.Flags = append(o.Flags, flags...) } }

// Controllers runs these controllers in the server, as --controllers spells them ("*", "-namespace"). Without the option all
// run that kanzen has; without a name none does.
func Controllers(names ...string) Option {
	if len(names) == 0 {
		names = []string{"-*"}
	}
	return Flags("--controllers=" + strings.Join(names, ","))
}

// OwnProcess gives the server a process of its own. It takes longer to start than a control plane in the process that the
// servers of a test binary share.
func OwnProcess() Option { return func(o *Options) { o.OwnProcess = true } }

// Install puts CRDs, webhooks or any other objects into the server before it is handed out, and waits until the CRDs are
// served.
func Install(sources ...Source) Option {
	return func(o *Options) { o.Install = append(o.Install, sources...) }
}

// Webhooks serves admission and conversion webhooks by a handler in this process: those that are named by a service,
// whatever its name. The sources have their configurations, as in Install. A nil handler comes later: from a manager with
// WebhookServer, or by Server.ServeWebhooks.
func Webhooks(h http.Handler, sources ...Source) Option {
	return func(o *Options) {
		o.UseWebhooks, o.Webhooks, o.Install = true, h, append(o.Install, sources...)
	}
}

// Conversion has CRDs, named as "sites.web.example.com", converted by the webhook at /convert, as kubebuilder's kustomize
// patches have it. It goes together with Webhooks.
func Conversion(crds ...string) Option {
	return func(o *Options) { o.Converted = append(o.Converted, crds...) }
}

// versionVariable names the version of servers that are not given one, as it does for kanzentest.
const versionVariable = "KANZENTEST_VERSION"

// defaultStartTimeout bounds how long a server may take to come up, on a machine that has other things to do.
const defaultStartTimeout = time.Minute

func (o *Options) timeout() time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return defaultStartTimeout
}

// complete checks the options and finds the binary, which the go command may have to build.
func (o *Options) complete() (err error) {
	if len(o.Converted) > 0 && !o.UseWebhooks {
		return fmt.Errorf("Conversion: %w", errNoWebhooks)
	}
	if o.Binary == "" {
		o.Binary, err = find()
	}
	return err
}

// process returns the process for the server.
func (o *Options) process(ctx context.Context) (*process, error) {
	if o.OwnProcess {
		return startProcess(ctx, o.Binary, o.flags())
	}
	return shared.process(ctx, o.Binary, o.flags())
}

// flags returns the flags that the options stand for. A version by flag is stronger than one by the environment.
func (o *Options) flags() []string {
	var flags []string
	version := o.Version
	if version == "" {
		version = os.Getenv(versionVariable)
	}
	if parts := strings.Split(strings.TrimPrefix(version, "v"), "."); version != "" {
		if len(parts) > 2 { // patches do not matter
			parts = parts[:2]
		}
		flags = append(flags, "--emulated-version="+strings.Join(parts, "."))
	}
	var gates []string
	for name, on := range o.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", name, on))
	}
	sort.Strings(gates)
	if len(gates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
	}
	return append(flags, o.Flags...)
}
