// Package program starts an API server as a program of its own where Kubernetes' integration tests start one within the test:
// KUBE_APISERVER names the program. What a test sets in the options is given to the program as flags, its feature gates as
// --feature-gates, and it gets a client with the identity of the server's own.
package program

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// Path is the program to start, or empty if tests start a server within themselves.
func Path() string { return os.Getenv("KUBE_APISERVER") }

// TB is what a server needs of a test.
type TB interface {
	featuregatetesting.TB
	Name() string
	Failed() bool
	Logf(format string, args ...any)
}

// Launch is a server that is about to start. Options may be changed until Run.
type Launch struct {
	Options *options.ServerRunOptions
	Dir     string // of certificates and files that are made for the server
	tb      TB
	usual   map[string]string // flags and their defaults
	flags   *pflag.FlagSet    // of Options; nil before Run
	gate    featuregate.MutableVersionedFeatureGate
	version basecompatibility.MutableEffectiveVersion
	given   []string // gates and versions that the test set in its own process
	// Emulates says that the test has set a version to emulate in its own process.
	Emulates bool
}

// New reads the gates and versions that the test has set, and prepares the options.
func New(tb TB) (*Launch, error) {
	l := &Launch{tb: tb, Options: options.NewServerRunOptions(), usual: map[string]string{}}
	l.gate = utilfeature.DefaultMutableFeatureGate.DeepCopy()
	l.version = compatibility.DefaultKubeEffectiveVersionForTest()
	if v := l.gate.EmulationVersion(); !v.EqualTo(l.version.EmulationVersion()) {
		l.given, l.Emulates = append(l.given, "--emulated-version="+majorMinor(v)), true
	}
	l.given = append(l.given, gateFlags(l.gate)...)
	l.version.SetEmulationVersion(l.gate.EmulationVersion())
	l.version.SetMinCompatibilityVersion(l.gate.MinCompatibilityVersion())
	registry := basecompatibility.NewComponentGlobalsRegistry()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, l.version, l.gate); err != nil {
		return nil, err
	}
	l.Options.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	flagsOf(l.Options).VisitAll(func(f *pflag.Flag) { l.usual[f.Name] = f.DefValue })
	var err error
	if l.Dir, err = os.MkdirTemp("", "server"); err != nil {
		return nil, err
	}
	l.Options.SecureServing.ServerCert.CertDirectory = l.Dir // where tests look for the certificates
	return l, nil
}

func flagsOf(o *options.ServerRunOptions) *pflag.FlagSet {
	all := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		all.AddFlagSet(set)
	}
	return all
}

func majorMinor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// gateFlags gives each gate that does not have its default.
func gateFlags(gate featuregate.FeatureGate) []string {
	var flags []string
	for name, spec := range gate.(interface {
		GetAll() map[featuregate.Feature]featuregate.FeatureSpec
	}).GetAll() {
		if name == "AllAlpha" || name == "AllBeta" || gate.Enabled(name) == spec.Default {
			continue
		}
		flags = append(flags, fmt.Sprintf("--feature-gates=%s=%t", name, gate.Enabled(name)))
	}
	sort.Strings(flags)
	return flags
}

// arguments are those of the program: what the test set in the options, its own flags as they stand, and what must be so.
func (l *Launch) arguments(own []string) ([]string, error) {
	args := l.given
	set := l.changed()
	if err := l.flags.Parse(own); err != nil {
		return nil, err
	}
	for name, values := range set { // the first value of a list replaces the default, each further one is added
		if !l.flags.Changed(name) {
			args = append(args, values)
		}
	}
	sort.Strings(args)
	return append(args, own...), nil
}

// changed maps the name of each flag whose value is not its default to the argument that gives it this value.
func (l *Launch) changed() map[string]string {
	args := map[string]string{}
	l.flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.String() == l.usual[f.Name] || f.Name == "feature-gates" || f.Name == "emulated-version" || f.Name == "min-compatibility-version" {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		args[f.Name] = "--" + f.Name + "=" + value
	})
	return args
}

// shareGates sets the gates and versions that the test's flags name in the test's process too: clients look at them there.
func (l *Launch) shareGates() error {
	if err := l.Options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	own := utilfeature.DefaultMutableFeatureGate
	if !l.gate.EmulationVersion().EqualTo(own.EmulationVersion()) || !l.gate.MinCompatibilityVersion().EqualTo(own.MinCompatibilityVersion()) {
		featuregatetesting.SetFeatureGateVersionsDuringTest(l.tb, own, l.version.EmulationVersion(), l.version.MinCompatibilityVersion())
	}
	differ := map[featuregate.Feature]bool{}
	for name := range own.GetAll() {
		if on := l.gate.Enabled(name); on != own.Enabled(name) {
			differ[name] = on
		}
	}
	if len(differ) > 0 {
		featuregatetesting.SetFeatureGatesDuringTest(l.tb, own, differ)
	}
	return nil
}

// Server is a program that runs.
type Server struct {
	Config *rest.Config // of system:apiserver, a member of system:masters
	Stop   func()
	exited chan struct{}
	out    *output
}

// Run starts the program with the options and flags. It returns as soon as the program runs: see Healthy.
func (l *Launch) Run(own ...string) (*Server, error) {
	address := l.Options.SecureServing.BindAddress
	if address == nil || address.IsUnspecified() {
		address = net.IPv4(127, 0, 0, 1)
	}
	l.flags = flagsOf(l.Options) // not before: a test may have replaced parts of the options
	args, err := l.arguments(own)
	if err != nil {
		return nil, err
	}
	if err := l.shareGates(); err != nil {
		return nil, err
	}
	port, err := freePort(address)
	if err != nil {
		return nil, err
	}
	token := uuid.NewString()
	tokens, err := l.tokenFile(token)
	if err != nil {
		return nil, err
	}
	args = append(args, "--token-auth-file="+tokens, "--secure-port="+strconv.Itoa(port), "--bind-address="+address.String(), "--cert-dir="+l.Dir)
	client := rest.TLSClientConfig{Insecure: true}
	serving := &l.Options.SecureServing
	if (*serving).ServerCert.CertKey.CertFile == "" {
		if client, err = l.servingCertificate(address); err != nil {
			return nil, err
		}
	}
	(*serving).BindPort = port
	if err := l.Options.GenericServerRunOptions.DefaultAdvertiseAddress((*serving).SecureServingOptions); err != nil {
		l.tb.Logf("no address to advertise: %v", err)
	}
	s, err := start(l.tb, l.Dir, args)
	if err != nil {
		return nil, err
	}
	s.Config = &rest.Config{Host: "https://" + net.JoinHostPort(address.String(), strconv.Itoa(port)), BearerToken: token, TLSClientConfig: client}
	return s, nil
}

func freePort(address net.IP) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// tokenFile holds the token of the server's own identity and those of the test's own file.
func (l *Launch) tokenFile(token string) (string, error) {
	line := fmt.Sprintf("%s,system:apiserver,%s,system:masters\n", token, uuid.NewString())
	if own := l.flags.Lookup("token-auth-file").Value.String(); own != "" {
		b, err := os.ReadFile(own)
		if err != nil {
			return "", err
		}
		line += string(b)
	}
	path := filepath.Join(l.Dir, "tokens.csv")
	return path, os.WriteFile(path, []byte(line), 0o600)
}

// servingCertificate makes what the program would make, so that the client knows it beforehand.
func (l *Launch) servingCertificate(address net.IP) (rest.TLSClientConfig, error) {
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(address.String(), []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost"})
	if err != nil {
		return rest.TLSClientConfig{}, err
	}
	pair := &l.Options.SecureServing.ServerCert.CertKey
	pair.CertFile, pair.KeyFile = filepath.Join(l.Dir, "apiserver.crt"), filepath.Join(l.Dir, "apiserver.key")
	if err := cert.WriteCert(pair.CertFile, certPEM); err != nil {
		return rest.TLSClientConfig{}, err
	}
	return rest.TLSClientConfig{CAData: certPEM}, os.WriteFile(pair.KeyFile, keyPEM, 0o600)
}

// output keeps the last of what a program writes.
type output struct {
	mu   sync.Mutex
	last []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const most = 64 << 10
	o.last = append(o.last, p...)
	if len(o.last) > most {
		o.last = bytes.Clone(o.last[len(o.last)-most:])
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.last)
}

func start(tb TB, dir string, args []string) (*Server, error) {
	s := &Server{exited: make(chan struct{}), out: &output{}}
	cmd := exec.Command(Path(), args...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	tb.Logf("starting %s", strings.Join(cmd.Args, " "))
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(s.exited)
	}()
	s.Stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(15 * time.Second):
			tb.Logf("the server did not stop within 15 s")
			_ = cmd.Process.Kill()
			<-s.exited
		}
		if tb.Failed() {
			tb.Logf("the server's output:\n%s", s.out)
		}
		_ = os.RemoveAll(dir)
	})
	tb.Cleanup(s.Stop)
	return s, nil
}

// Exited is closed when the program has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Await asks the paths, one after the other, until each answers 200.
func (s *Server) Await(ctx context.Context, paths ...string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	transport, err := rest.TransportFor(s.Config)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	last := "no answer"
	for _, path := range paths {
		for {
			if response, err := client.Get(s.Config.Host + path); err == nil {
				body := new(bytes.Buffer)
				_, _ = body.ReadFrom(response.Body)
				response.Body.Close()
				if response.StatusCode == http.StatusOK {
					break
				}
				last = response.Status + " " + body.String()
			}
			select {
			case <-s.exited:
				return fmt.Errorf("the server ended: %s", s.out)
			case <-ctx.Done():
				return fmt.Errorf("failed to wait for %s to return ok: timed out waiting for the condition: %s\n%s", path, last, s.out)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}
