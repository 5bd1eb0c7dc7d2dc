package envtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// ControlPlane is the control plane of an Environment.
type ControlPlane struct {
	APIServer *APIServer
	Etcd      *Etcd
	// KubectlPath is the kubectl of KubeCtl; empty: that of $KUBEBUILDER_ASSETS or $PATH.
	KubectlPath string

	server *kanzentest.Server
	given  APIServer // as it was before the start
	dir    string    // for kubeconfigs and the files of an Authn, made when first needed
}

// APIServer has the settings of the API server.
type APIServer struct {
	// URL is where it is served. Start sets it.
	URL *url.URL
	// SecureServing is where it listens, and who its users are. SecurePort is its port as a number. Start sets those that
	// are not given.
	SecureServing
	SecurePort int
	// StartTimeout bounds the start; zero: as the Environment says.
	StartTimeout time.Duration

	// Not needed.
	Path, CertDir string
	EtcdURL       *url.URL
	Out, Err      io.Writer
	StopTimeout   time.Duration

	arguments *Arguments
}

// Start is an error: the ControlPlane starts its server.
func (s *APIServer) Start() error {
	return errors.New("start the ControlPlane, of which this is a part")
}

// Stop does nothing: the ControlPlane stops its server.
func (s *APIServer) Stop() error { return nil }

// Etcd is accepted and not needed.
type Etcd struct {
	URL                       *url.URL
	Path, DataDir             string
	Args                      []string
	Out, Err                  io.Writer
	StartTimeout, StopTimeout time.Duration
	arguments                 *Arguments
}

// Start is an error: the ControlPlane needs no etcd of its own.
func (e *Etcd) Start() error { return errors.New("start the ControlPlane, which needs no etcd") }

// Stop does nothing.
func (e *Etcd) Stop() error { return nil }

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
		s.arguments = EmptyArguments().withDefault("disable-admission-plugins", "ServiceAccount")
	}
	return s.arguments
}

// Start starts the control plane.
func (p *ControlPlane) Start() error { return p.start(0, nil) }

func (p *ControlPlane) start(timeout time.Duration, more []kanzentest.Option) (err error) {
	if p.server != nil {
		return errors.New("the control plane has been started already")
	}
	api := p.GetAPIServer()
	if api.StartTimeout != 0 {
		timeout = api.StartTimeout
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	if api.Authn != nil {
		if err := p.configureUsers(api); err != nil {
			return fmt.Errorf("users: %w", err)
		}
	}
	listen, err := api.listen()
	if err != nil {
		return err
	}
	options := []kanzentest.Option{kanzentest.Flags(api.Configure().AsStrings()...),
		func(o *kanzentest.Options) { o.Listen, o.StartTimeout = listen, timeout }}
	if p.server, err = kanzentest.New(background(), append(options, more...)...); err != nil {
		return err
	}
	return p.served(api)
}

// served tells in the fields of the API server where it is served.
func (p *ControlPlane) served(api *APIServer) (err error) {
	p.given = *api
	if api.Address, api.Port, err = net.SplitHostPort(p.server.Address()); err != nil {
		return err
	}
	if api.SecurePort, err = strconv.Atoi(api.Port); err != nil {
		return err
	}
	if api.CA, err = os.ReadFile(p.server.SocketConfig().CAFile); err != nil {
		return err
	}
	if api.Authn == nil {
		api.Authn = certificates{p.server}
	}
	api.URL = api.SecureServing.URL("https", "/")
	return nil
}

// configureUsers has the caller's Authn set the flags it needs.
func (p *ControlPlane) configureUsers(api *APIServer) error {
	if err := p.folder(); err != nil {
		return err
	}
	if err := api.Authn.Configure(p.dir, api.Configure()); err != nil {
		return err
	}
	return api.Authn.Start()
}

// folder makes the directory for files of the control plane.
func (p *ControlPlane) folder() (err error) {
	if p.dir == "" {
		p.dir, err = os.MkdirTemp("", "kanzen-envtest-")
	}
	return err
}

// Stop stops the control plane.
func (p *ControlPlane) Stop() error {
	var errs []error
	if p.server != nil {
		errs = append(errs, p.server.Stop())
		p.server = nil
		// The next start chooses anew what this one chose.
		api := p.APIServer
		api.SecureServing, api.SecurePort = p.given.SecureServing, p.given.SecurePort
		if api.Authn != nil {
			errs = append(errs, api.Authn.Stop())
		}
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
		p.dir = ""
	}
	return errors.Join(errs...)
}

// APIURL returns where the API server is served.
func (p *ControlPlane) APIURL() *url.URL { return p.GetAPIServer().URL }

// RESTClientConfig reaches the server as its administrator.
func (p *ControlPlane) RESTClientConfig() (*rest.Config, error) {
	u, err := p.admin()
	if err != nil {
		return nil, err
	}
	return u.Config(), nil
}

// KubeCtl returns a kubectl that acts as the administrator. Its Run fails if the control plane has not been started.
func (p *ControlPlane) KubeCtl() *KubeCtl {
	u, err := p.admin()
	if err != nil {
		return &KubeCtl{failed: err}
	}
	k, err := u.Kubectl()
	if err != nil {
		return &KubeCtl{failed: err}
	}
	return k
}

// admin makes the user who may do all. Tests are not to wait for their own rate limit.
func (p *ControlPlane) admin() (*AuthenticatedUser, error) {
	return p.AddUser(User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: 1000, Burst: 2000})
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
	cfg := &rest.Config{}
	if baseConfig != nil {
		cfg = rest.CopyConfig(baseConfig)
	}
	api := p.GetAPIServer()
	cfg.Host, cfg.TLSClientConfig = "https://"+api.HostPort(), rest.TLSClientConfig{CAData: api.CA}
	cfg, err := api.Authn.AddUser(user, cfg)
	if err != nil {
		return nil, err
	}
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
	if err := p.folder(); err != nil {
		return nil, err
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
