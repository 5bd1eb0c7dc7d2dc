// Package pki creates and maintains the keys and certificates of a server whose operator provides none: a certificate
// authority, a serving certificate, the key that signs service account tokens, an administrator's client certificate
// and a kubeconfig with it, and a second authority with the certificate that identifies this server to extension API
// servers. It also loads those that an operator provides, and reloads them when their files change.
//
// Every file is replaced atomically, private keys are readable only by their owner, and valid files are not touched. A
// certificate is renewed for its existing key, so no two files must change together: after a crash at any time, the
// next start completes the work.
package pki

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Lifetimes of issued certificates, and how long before its end a certificate is renewed.
const (
	authorityLife  = 10 * 365 * 24 * time.Hour
	authorityRenew = 365 * 24 * time.Hour
	leafLife       = 365 * 24 * time.Hour
	leafRenew      = 30 * 24 * time.Hour

	// backdate allows for clocks that are behind ours.
	backdate = time.Hour
)

// FrontProxyName is the name in the front proxy's certificate.
const FrontProxyName = "front-proxy-client"

// The names of the authorities.
const (
	authorityName           = "kanzen-ca"
	frontProxyAuthorityName = "kanzen-front-proxy-ca"
)

// Options configure Ensure.
type Options struct {
	// Dir contains all files; it is created with mode 0700.
	Dir string
	// Server is the URL in the kubeconfig: https://127.0.0.1:6443.
	Server string
	// ServiceIP is the first address of the service range, that of the "kubernetes" service; nil: none.
	ServiceIP net.IP
	// Hosts are additional names and addresses of the server.
	Hosts []string
	// Hostname is this machine's name; empty: ask the system.
	Hostname string
	Clock    clock.PassiveClock
}

// Files are the paths of the files, all below Options.Dir.
type Files struct {
	CACert, CAKey           string
	ServingCert, ServingKey string
	AdminCert, AdminKey     string
	// The front proxy's authority, and the certificate by which extension API servers know this server.
	FrontProxyCACert, FrontProxyCAKey string
	FrontProxyCert, FrontProxyKey     string
	// ServiceAccountKey is a private key in PEM; its public half verifies tokens.
	ServiceAccountKey string
	Kubeconfig        string
}

func filesIn(dir string) *Files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return &Files{
		CACert: in("ca.crt"), CAKey: in("ca.key"),
		ServingCert: in("apiserver.crt"), ServingKey: in("apiserver.key"),
		AdminCert: in("admin.crt"), AdminKey: in("admin.key"),
		FrontProxyCACert: in("front-proxy-ca.crt"), FrontProxyCAKey: in("front-proxy-ca.key"),
		FrontProxyCert: in("front-proxy-client.crt"), FrontProxyKey: in("front-proxy-client.key"),
		ServiceAccountKey: in(serviceAccountKeyFile),
		Kubeconfig:        in("admin.kubeconfig"),
	}
}

// Paths returns the paths of the files that Ensure makes in a directory.
func Paths(dir string) []string {
	f := filesIn(dir)
	return []string{
		f.CACert, f.CAKey, f.ServingCert, f.ServingKey, f.AdminCert, f.AdminKey, f.FrontProxyCACert, f.FrontProxyCAKey,
		f.FrontProxyCert, f.FrontProxyKey, f.ServiceAccountKey, f.Kubeconfig,
	}
}

// MadeAuthority reports whether the authority in a directory is one that Ensure has made.
func MadeAuthority(dir string) bool {
	cert, err := readCert(filesIn(dir).CACert)
	return err == nil && cert != nil && cert.Subject.CommonName == authorityName
}

// Ensure creates missing files in the directory, and renews certificates that are about to expire or no longer fit the
// options.
func Ensure(o Options) (*Files, error) {
	if err := privateDir(o.Dir); err != nil {
		return nil, err
	}
	f, now := filesIn(o.Dir), o.Clock.Now()
	ca, err := ensureAuthority(f.CACert, f.CAKey, authorityName, now)
	if err != nil {
		return nil, err
	}
	serving, err := o.serving()
	if err != nil {
		return nil, err
	}
	if err := ca.ensure(f.ServingCert, f.ServingKey, serving, now); err != nil {
		return nil, err
	}
	admin := Subject{Name: "kubernetes-admin", Groups: []string{"system:masters"}}
	if err := ca.ensure(f.AdminCert, f.AdminKey, admin, now); err != nil {
		return nil, err
	}
	proxies, err := ensureAuthority(f.FrontProxyCACert, f.FrontProxyCAKey, frontProxyAuthorityName, now)
	if err != nil {
		return nil, err
	}
	if err := proxies.ensure(f.FrontProxyCert, f.FrontProxyKey, Subject{Name: FrontProxyName}, now); err != nil {
		return nil, err
	}
	signing, err := ensureKey(f.ServiceAccountKey)
	if err != nil {
		return nil, err
	}
	// Files of former versions are in a form that kube-apiserver does not take for --service-account-key-file.
	data, err := encodeKey(signing)
	if err != nil {
		return nil, err
	}
	if err := writeIfChanged(f.ServiceAccountKey, data, fileMode); err != nil {
		return nil, err
	}
	return f, o.ensureKubeconfig(f)
}

// serving returns the subject of the server's certificate: every name by which a client on this machine or a pod in a
// cluster may reach it.
func (o Options) serving() (Subject, error) {
	hostname := o.Hostname
	if hostname == "" {
		var err error
		if hostname, err = os.Hostname(); err != nil {
			return Subject{}, fmt.Errorf("find this machine's name: %w", err)
		}
	}
	s := Subject{
		Name: "kube-apiserver", Server: true,
		IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	s.addHosts("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", hostname)
	if o.ServiceIP != nil {
		s.addHosts(o.ServiceIP.String())
	}
	s.addHosts(o.Hosts...)
	return s, nil
}

func (o Options) ensureKubeconfig(f *Files) error {
	data := make([][]byte, 3)
	for i, path := range []string{f.CACert, f.AdminCert, f.AdminKey} {
		var err error
		if data[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	return Kubeconfig{
		Cluster: "kanzen", User: "kubernetes-admin", Server: o.Server,
		CA: data[0], ClientCert: data[1], ClientKey: data[2],
	}.Write(f.Kubeconfig)
}
