package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// The environment variables that have a meaning here.
const (
	envUseExistingCluster = "USE_EXISTING_CLUSTER"
	envStartTimeout       = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
)

// StartTimeout and StopTimeout are there for programs that name them.
const (
	StartTimeout = 60
	StopTimeout  = 60
)

// Environment is a control plane for tests, with CRDs and webhooks.
type Environment struct {
	// ControlPlane is the control plane, for its flags and users.
	ControlPlane ControlPlane
	// Scheme tells which kinds are converted by a webhook: those whose Go types are a hub and its spokes. Nil: client-go's
	// scheme.Scheme.
	Scheme *runtime.Scheme
	// Config reaches the server as its administrator. Start sets it; with UseExistingCluster it may be given.
	Config *rest.Config
	// KubeConfig is Config as the content of a file. Start sets it.
	KubeConfig []byte
	// CRDInstallOptions and WebhookInstallOptions are what Start installs.
	CRDInstallOptions     CRDInstallOptions
	WebhookInstallOptions WebhookInstallOptions
	// ErrorIfCRDPathMissing makes a missing path of CRDs an error.
	ErrorIfCRDPathMissing bool
	// CRDs and CRDDirectoryPaths are installed along with those of CRDInstallOptions. After Start CRDs has all of them.
	CRDs              []*apiextensionsv1.CustomResourceDefinition
	CRDDirectoryPaths []string
	// UseExistingCluster uses the cluster of Config, or of the usual kubeconfig, and starts no server. Nil: as
	// $USE_EXISTING_CLUSTER says.
	UseExistingCluster *bool
	// ControlPlaneStartTimeout bounds the start; zero: $KUBEBUILDER_CONTROLPLANE_START_TIMEOUT or a minute.
	ControlPlaneStartTimeout time.Duration

	// DownloadBinaryAssetsVersion is the version of Kubernetes that the server behaves as if DownloadBinaryAssets is set:
	// "v1.36.0" (the patch does not matter). Nothing is downloaded. Otherwise it is as kanzentest.Options.Version says.
	DownloadBinaryAssets        bool
	DownloadBinaryAssetsVersion string

	// Not needed: there are no binaries, and no processes whose output could be shown or that could be slow to stop.
	DownloadBinaryAssetsIndexURL string
	BinaryAssetsDirectory        string
	ControlPlaneStopTimeout      time.Duration
	AttachControlPlaneOutput     bool

	// Options are settings that envtest does not have: a clock, faults, controllers.
	Options []kanzentest.Option
}

// Server returns the server, for what envtest does not have; nil before Start and with an existing cluster.
func (e *Environment) Server() *kanzentest.Server { return e.ControlPlane.server }

// Start starts the server and installs CRDs and webhooks.
func (e *Environment) Start() (*rest.Config, error) {
	if err := e.connect(); err != nil {
		return nil, err
	}
	if len(e.KubeConfig) == 0 {
		var err error
		if e.KubeConfig, err = kubeConfig(e.Config); err != nil {
			return nil, fmt.Errorf("make a kubeconfig: %w", err)
		}
	}
	if e.Scheme == nil {
		e.Scheme = scheme.Scheme
	}
	// The conversion webhooks of CRDs need the host, port and certificates too.
	if err := e.WebhookInstallOptions.PrepWithoutInstalling(); err != nil {
		return nil, err
	}
	o := &e.CRDInstallOptions
	if o.Scheme == nil {
		o.Scheme = e.Scheme
	}
	o.CRDs = mergeCRDs(o.CRDs, e.CRDs)
	o.Paths = mergePaths(o.Paths, e.CRDDirectoryPaths)
	o.ErrorIfPathMissing = e.ErrorIfCRDPathMissing
	o.WebhookOptions = e.WebhookInstallOptions
	var err error
	if e.CRDs, err = InstallCRDs(e.Config, *o); err != nil {
		return e.Config, fmt.Errorf("install CRDs: %w", err)
	}
	if err := e.WebhookInstallOptions.Install(e.Config); err != nil {
		return nil, fmt.Errorf("install webhooks: %w", err)
	}
	return e.Config, nil
}

// connect starts the server, or finds the existing one.
func (e *Environment) connect() error {
	existing, err := e.useExistingCluster()
	if err != nil {
		return err
	}
	if existing {
		if e.Config == nil {
			loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
			if e.Config, err = loader.ClientConfig(); err != nil {
				return fmt.Errorf("find the existing cluster: %w", err)
			}
		}
		return nil
	}
	timeout := e.ControlPlaneStartTimeout
	if text := os.Getenv(envStartTimeout); timeout == 0 && text != "" {
		if timeout, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%s: %w", envStartTimeout, err)
		}
	}
	options := e.Options
	if e.DownloadBinaryAssets && e.DownloadBinaryAssetsVersion != "" {
		options = append([]kanzentest.Option{kanzentest.Version(e.DownloadBinaryAssetsVersion)}, options...)
	}
	if err := e.ControlPlane.start(timeout, options); err != nil {
		return err
	}
	admin, err := e.ControlPlane.admin()
	if err != nil {
		return fmt.Errorf("make the administrator: %w", errors.Join(err, e.ControlPlane.Stop()))
	}
	e.Config = admin.Config()
	return nil
}

// Stop stops the server. Of an existing cluster it removes the CRDs if CRDInstallOptions.CleanUpAfterUse says so.
func (e *Environment) Stop() error {
	if e.CRDInstallOptions.CleanUpAfterUse {
		if err := UninstallCRDs(e.Config, e.CRDInstallOptions); err != nil {
			return err
		}
	}
	return errors.Join(e.WebhookInstallOptions.Cleanup(), e.ControlPlane.Stop())
}

// AddUser makes a user, with a copy of baseConfig that reaches the server as this user.
func (e *Environment) AddUser(user User, baseConfig *rest.Config) (*AuthenticatedUser, error) {
	return e.ControlPlane.AddUser(user, baseConfig)
}

func (e *Environment) useExistingCluster() (bool, error) {
	if e.UseExistingCluster != nil {
		return *e.UseExistingCluster, nil
	}
	text := os.Getenv(envUseExistingCluster)
	if text == "" {
		return false, nil
	}
	use, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", envUseExistingCluster, err)
	}
	return use, nil
}

// background is the context of what Environment's methods do: they get none.
func background() context.Context { return context.Background() }
