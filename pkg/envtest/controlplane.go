package envtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// ControlPlane is the control plane of an Environment.
type ControlPlane struct {
	APIServer *APIServer
	Etcd      *Etcd
	// KubectlPath is the kubectl of KubeCtl; empty: that of $KUBEBUILDER_ASSETS or $PATH.
	KubectlPath string

	server *kanzentest.Server
	dir    string // for kubeconfigs, made when first needed
}

// APIServer has the settings of the API server.
type APIServer struct {
	// URL is where it is served. Start sets it.
	URL *url.URL
	// StartTimeout bounds the start; zero: as the Environment says.
	StartTimeout time.Duration

	// Not needed.
	Path        string
	Out, Err    io.Writer
	StopTimeout time.Duration

	arguments *Arguments
}

// Etcd is accepted and not needed.
type Etcd struct {
	URL                       *url.URL
	Path, DataDir             string
	Args                      []string
	Out, Err                  io.Writer
	StartTimeout, StopTimeout time.Duration
	arguments                 *Arguments
}

// Configure returns arguments that have no effect.
func (e *Etcd) Configure() *Arguments {
	if e.arguments == nil {
		e.arguments = &Arguments{}
	}
	return e.arguments
}

// GetAPIServer returns the settings of the API server.
func (p *ControlPlane) GetAPIServer() *APIServer {
	if p.APIServer == nil {
		p.APIServer = &APIServer{}
	}
	return p.APIServer
}

// Configure returns the flags of the API server: those of kube-apiserver, by their names without dashes.
func (s *APIServer) Configure() *Arguments {
	if s.arguments == nil {
		s.arguments = &Arguments{}
		s.arguments.Set("disable-admission-plugins", "ServiceAccount")
	}
	return s.arguments
}

// Arguments are flags.
type Arguments struct {
	names  []string
	values map[string][]string
}

// EmptyArguments makes arguments without any.
func EmptyArguments() *Arguments { return &Arguments{} }

// Set sets a flag to values.
func (a *Arguments) Set(name string, values ...string) *Arguments {
	a.Disable(name)
	return a.Append(name, values...)
}

// Append adds values to a flag.
func (a *Arguments) Append(name string, values ...string) *Arguments {
	if a.values == nil {
		a.values = map[string][]string{}
	}
	if _, ok := a.values[name]; !ok {
		a.names = append(a.names, name)
	}
	a.values[name] = append(a.values[name], values...)
	return a
}

// AppendNoDefaults is Set.
func (a *Arguments) AppendNoDefaults(name string, values ...string) *Arguments {
	return a.Set(name, values...)
}

// Enable gives a flag without a value.
func (a *Arguments) Enable(name string) *Arguments { return a.Set(name) }

// Disable leaves a flag out.
func (a *Arguments) Disable(name string) *Arguments {
	delete(a.values, name)
	a.names = slices.DeleteFunc(a.names, func(n string) bool { return n == name })
	return a
}

// AsStrings returns the flags as on a command line.
func (a *Arguments) AsStrings() []string {
	var out []string
	for _, n := range a.names {
		if len(a.values[n]) == 0 {
			out = append(out, "--"+n)
		}
		for _, v := range a.values[n] {
			out = append(out, "--"+n+"="+v)
		}
	}
	return out
}

// Start starts the control plane.
func (p *ControlPlane) Start() error { return p.start(0, nil) }

func (p *ControlPlane) start(timeout time.Duration, more []kanzentest.Option) error {
	if p.server != nil {
		return errors.New("the control plane has been started already")
	}
	api := p.GetAPIServer()
	if api.StartTimeout != 0 {
		timeout = api.StartTimeout
	}
	options := []kanzentest.Option{kanzentest.Listen(), kanzentest.Flags(api.Configure().AsStrings()...),
		func(o *kanzentest.Options) { o.StartTimeout = timeout }}
	s, err := kanzentest.New(background(), append(options, more...)...)
	if err != nil {
		return err
	}
	p.server, api.URL = s, &url.URL{Scheme: "https", Host: s.Address(), Path: "/"}
	return nil
}

// Stop stops the control plane.
func (p *ControlPlane) Stop() error {
	if p.server == nil {
		return nil
	}
	err := p.server.Stop()
	p.server = nil
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
		p.dir = ""
	}
	return err
}

// APIURL returns where the API server is served.
func (p *ControlPlane) APIURL() *url.URL { return p.GetAPIServer().URL }

// User is a user to be made.
type User struct {
	Name   string
	Groups []string
}

// AuthenticatedUser is a user that was made.
type AuthenticatedUser struct {
	plane   *ControlPlane
	cfg     *rest.Config
	kubectl func() (*KubeCtl, error)
}

// AddUser makes a user, with a copy of baseConfig that reaches the server as this user. The server must have been
// started.
func (p *ControlPlane) AddUser(user User, baseConfig *rest.Config) (*AuthenticatedUser, error) {
	if p.server == nil {
		return nil, errors.New("the control plane has not been started")
	}
	identity, err := p.server.AddUser(background(), user.Name, user.Groups)
	if err != nil {
		return nil, err
	}
	reached, err := identity.SocketConfig()
	if err != nil {
		return nil, err
	}
	cfg := &rest.Config{}
	if baseConfig != nil {
		cfg = rest.CopyConfig(baseConfig)
	}
	cfg.Host, cfg.TLSClientConfig = reached.Host, reached.TLSClientConfig
	u := &AuthenticatedUser{plane: p, cfg: cfg}
	u.kubectl = sync.OnceValues(u.makeKubectl)
	return u, nil
}

// Config reaches the server as the user.
func (u *AuthenticatedUser) Config() *rest.Config { return u.cfg }

// KubeConfig is Config as the content of a file.
func (u *AuthenticatedUser) KubeConfig() ([]byte, error) { return kubeConfig(u.cfg) }

// Kubectl returns a kubectl that acts as the user.
func (u *AuthenticatedUser) Kubectl() (*KubeCtl, error) { return u.kubectl() }

func (u *AuthenticatedUser) makeKubectl() (_ *KubeCtl, err error) {
	p := u.plane
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "kanzen-envtest-"); err != nil {
			return nil, err
		}
	}
	text, err := u.KubeConfig()
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(p.dir, "*.kubeconfig") // readable by its owner only
	if err != nil {
		return nil, err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return &KubeCtl{Path: p.KubectlPath, Opts: []string{"--kubeconfig=" + file.Name()}}, nil
}

// KubeCtl runs kubectl.
type KubeCtl struct {
	// Path of the program; empty: that of $KUBEBUILDER_ASSETS or $PATH.
	Path string
	// Opts come before the arguments of each run.
	Opts []string
}

// Run runs kubectl with arguments and returns what it printed.
func (k *KubeCtl) Run(args ...string) (stdout, stderr io.Reader, err error) {
	path := k.Path
	if path == "" {
		path = "kubectl"
		if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
			path = filepath.Join(dir, path)
		}
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(context.Background(), path, append(slices.Clone(k.Opts), args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return &out, &errs, err
}

// kubeConfig makes the content of a kubeconfig.
func kubeConfig(c *rest.Config) ([]byte, error) {
	const name = "envtest"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData,
		TLSServerName: c.ServerName, InsecureSkipTLSVerify: c.Insecure}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData,
		Token: c.BearerToken, TokenFile: c.BearerTokenFile, Username: c.Username, Password: c.Password, Exec: c.ExecProvider}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	text, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return text, nil
}
