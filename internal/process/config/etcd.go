package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// EtcdOverride is an etcd cluster that some resources lie in.
type EtcdOverride struct {
	Servers   []string
	Resources []schema.GroupResource
}

var errOverride = errors.New("invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated")

// EtcdOverridden returns the other etcd clusters, each once, whatever the order in which its servers are named.
func (c *Process) EtcdOverridden() (out []EtcdOverride, err error) {
	for _, value := range c.EtcdOverrides {
		resource, list, ok := strings.Cut(value, "#")
		group, name, named := strings.Cut(resource, "/")
		servers := strings.Split(list, ";")
		if !ok || !named || strings.ContainsAny(name, "/") || strings.Contains(list, "#") || slices.Contains(servers, "") {
			return nil, errOverride
		}
		gr := schema.GroupResource{Group: group, Resource: name}
		same := func(o EtcdOverride) bool {
			return slices.Equal(slices.Sorted(slices.Values(o.Servers)), slices.Sorted(slices.Values(servers)))
		}
		for n := range out { // the last one that names a resource counts
			out[n].Resources = slices.DeleteFunc(out[n].Resources, func(had schema.GroupResource) bool { return had == gr })
		}
		if n := slices.IndexFunc(out, same); n >= 0 {
			out[n].Resources = append(out[n].Resources, gr)
		} else {
			out = append(out, EtcdOverride{servers, []schema.GroupResource{gr}})
		}
	}
	return out, nil
}

// EtcdTLS returns the TLS configuration for the etcd cluster; nil: no TLS.
func (c *Process) EtcdTLS() (*tls.Config, error) { return c.EtcdFiles().TLS() }

// EtcdFiles returns the files for connections to the etcd of --etcd-servers.
func (c *Process) EtcdFiles() EtcdFiles {
	return EtcdFiles{"--etcd-cafile", "--etcd-certfile", c.EtcdCAFile, c.EtcdCertFile, c.EtcdKeyFile}
}

// EtcdFiles are the files for connections to an etcd, and what errors call the settings that name them.
type EtcdFiles struct {
	caSetting, certSetting string
	CA, Cert, Key          string
}

// TLS returns the configuration of these files; nil: no TLS.
func (f EtcdFiles) TLS() (*tls.Config, error) {
	if f.CA == "" && f.Cert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.caSetting, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificates in %s", f.caSetting, f.CA)
		}
	}
	if f.Cert != "" {
		if _, err := pki.LoadPair(f.Cert, f.Key); err != nil {
			return nil, fmt.Errorf("%s: %w", f.certSetting, err)
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // read again, because it is renewed
			pair, err := pki.LoadPair(f.Cert, f.Key)
			return &pair, err
		}
	}
	return t, nil
}

// CheckEtcdServers returns what is wrong with the addresses of etcd.
func (c *Process) CheckEtcdServers() error {
	var errs []error
	c.validateEtcdServers(func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--"+flag+": "+format, args...))
	})
	return errors.Join(errs...)
}

// validateEtcdServers validates the addresses of etcd: URLs, or host:port as etcd's client takes it.
func (c *Process) validateEtcdServers(bad reporter) {
	for _, e := range c.EtcdServers {
		if !isEtcdServer(e) {
			bad("etcd-servers", "%q is not a URL like https://10.0.0.1:2379", e)
		}
	}
}

func isEtcdServer(e string) bool {
	scheme, _, isURL := strings.Cut(e, "://")
	u, err := url.Parse(e)
	if !isURL {
		_, _, err = net.SplitHostPort(e)
		return err == nil
	}
	return err == nil && slices.Contains([]string{"http", "https", "unix", "unixs"}, scheme) && u.Host+u.Path != ""
}
