package webhook

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// Credentials authenticate this server to webhooks: they are the users of a
// kubeconfig, whose names are those of the servers that they are for
// ("webhook.default.svc", "*.example.com:8443", "*").
type Credentials struct{ config clientcmdapi.Config }

// ReadConfig reads the configuration of either plugin, a WebhookAdmissionConfiguration (or its older name): the credentials
// of the kubeconfig that it names, and the path of the directory with manifests. Without a configuration there are neither.
func ReadConfig(configuration []byte) (Credentials, string, error) {
	var c struct {
		metav1.TypeMeta    `json:",inline"`
		KubeConfigFile     string `json:"kubeConfigFile"`
		StaticManifestsDir string `json:"staticManifestsDir"`
	}
	if len(configuration) == 0 {
		return Credentials{}, "", nil
	}
	if err := yaml.UnmarshalStrict(configuration, &c); err != nil {
		return Credentials{}, "", err
	}
	old := c.APIVersion == "apiserver.config.k8s.io/v1alpha1" && c.Kind == "WebhookAdmission"
	if !old && (c.APIVersion != "apiserver.config.k8s.io/v1" || c.Kind != "WebhookAdmissionConfiguration") {
		return Credentials{}, "", fmt.Errorf("no WebhookAdmissionConfiguration but %s %s", c.APIVersion, c.Kind)
	}
	credentials, err := readCredentials(c.KubeConfigFile)
	return credentials, c.StaticManifestsDir, err
}

func readCredentials(kubeconfig string) (Credentials, error) {
	if kubeconfig == "" {
		return Credentials{}, nil
	}
	if !filepath.IsAbs(kubeconfig) {
		return Credentials{}, fmt.Errorf("kubeConfigFile: Invalid value: %q: must be an absolute file path", kubeconfig)
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return Credentials{}, err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return Credentials{}, err
	}
	return Credentials{*config}, nil
}

// forTarget returns the credentials for a host and port.
func (c Credentials) forTarget(target string) (*rest.Config, error) {
	if u := c.user(target); u != nil {
		return configOf(u)
	}
	return &rest.Config{UserAgent: userAgent, Timeout: callTimeout}, nil
}

const userAgent = "kube-apiserver-admission"

// user finds the user with the most specific name: the whole target, its
// domains, for port 443 its host alone, "*", else the user of the current
// context.
func (c Credentials) user(target string) *clientcmdapi.AuthInfo {
	if u := c.named(target); u != nil {
		return u
	}
	if host, port, err := net.SplitHostPort(target); err == nil && port == "443" {
		if u := c.named(host); u != nil {
			return u
		}
	}
	if u := c.config.AuthInfos["*"]; u != nil {
		return u
	}
	if ctx := c.config.Contexts[c.config.CurrentContext]; c.config.CurrentContext != "" && ctx != nil && ctx.AuthInfo != "" {
		return c.config.AuthInfos[ctx.AuthInfo]
	}
	return nil
}

func (c Credentials) named(target string) *clientcmdapi.AuthInfo {
	if u := c.config.AuthInfos[target]; u != nil {
		return u
	}
	for _, domain, more := strings.Cut(target, "."); more; _, domain, more = strings.Cut(domain, ".") {
		if u := c.config.AuthInfos["*."+domain]; u != nil {
			return u
		}
	}
	return nil
}

func configOf(u *clientcmdapi.AuthInfo) (*rest.Config, error) {
	if u.AuthProvider != nil {
		return nil, errors.New("auth provider not supported")
	}
	c := &rest.Config{UserAgent: userAgent, Timeout: 30 * time.Second, Username: u.Username, Password: u.Password,
		BearerToken: u.Token, BearerTokenFile: u.TokenFile}
	if u.Token == "" && u.TokenFile != "" {
		token, err := os.ReadFile(u.TokenFile)
		if err != nil {
			return nil, err
		}
		c.BearerToken = string(token)
	}
	if u.Impersonate != "" {
		c.Impersonate = rest.ImpersonationConfig{UserName: u.Impersonate, UID: u.ImpersonateUID, Groups: u.ImpersonateGroups, Extra: u.ImpersonateUserExtra}
	}
	if u.ClientCertificate != "" || len(u.ClientCertificateData) > 0 {
		c.CertFile, c.CertData, c.KeyFile, c.KeyData = u.ClientCertificate, u.ClientCertificateData, u.ClientKey, u.ClientKeyData
	}
	if u.Exec != nil {
		c.ExecProvider = u.Exec.DeepCopy()
	}
	return c, nil
}
