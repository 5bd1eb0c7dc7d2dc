// Package pki makes and keeps the keys and certificates of a server that has
// no operator to bring its own: a certificate authority, a serving
// certificate, the key that signs service-account tokens, an administrator's
// client certificate and a kubeconfig that uses it. It also loads the ones an
// operator did bring, and notices when their files change.
//
// Every file is written whole or not at all, private keys are readable by
// their owner only, and what exists and is good is left alone. A certificate
// is renewed for the key that is there, so no pair of files ever has to change
// at once: whenever the process dies, the next start completes the work.
package pki

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Lifetimes of what is issued, and how long before its end a certificate is renewed.
const (
	authorityLife  = 10 * 365 * 24 * time.Hour
	authorityRenew = 365 * 24 * time.Hour
	leafLife       = 365 * 24 * time.Hour
	leafRenew      = 30 * 24 * time.Hour

	// backdate makes up for clocks that run a little behind ours.
	backdate = time.Hour
)

// Options says what Ensure makes.
type Options struct {
	// Dir holds everything; it is made with mode 0700.
	Dir string
	// Server is the URL in the kubeconfig: https://127.0.0.1:6443.
	Server string
	// ServiceIP is the first address of the service range, that of the
	// "kubernetes" service. Nil leaves it out.
	ServiceIP net.IP
	// Hosts are further names and addresses clients reach the server by.
	Hosts []string
	// Hostname is this machine's name; empty asks the system.
	Hostname string
	Clock    clock.PassiveClock
}

// Files says where things are. All paths are below Options.Dir.
type Files struct {
	CACert, CAKey           string
	ServingCert, ServingKey string
	AdminCert, AdminKey     string
	// ServiceAccountKey is a private key in PEM; its public half verifies.
	ServiceAccountKey string
	Kubeconfig        string
}

func filesIn(dir string) *Files {
	in := func(name string) string { return filepath.Join(dir, name) }
	return &Files{
		CACert: in("ca.crt"), CAKey: in("ca.key"),
		ServingCert: in("apiserver.crt"), ServingKey: in("apiserver.key"),
		AdminCert: in("admin.crt"), AdminKey: in("admin.key"),
		ServiceAccountKey: in("sa.key"),
		Kubeconfig:        in("admin.kubeconfig"),
	}
}

// Ensure makes whatever is missing from the directory and renews what is
// about to expire or no longer fits the options.
func Ensure(o Options) (*Files, error) {
	if err := privateDir(o.Dir); err != nil {
		return nil, err
	}
	f, now := filesIn(o.Dir), o.Clock.Now()
	ca, err := ensureAuthority(f.CACert, f.CAKey, "kanzen-ca", now)
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
	if _, err := ensureKey(f.ServiceAccountKey); err != nil {
		return nil, err
	}
	return f, o.ensureKubeconfig(f)
}

// serving is the identity of the server itself: every name a client on this
// machine or a pod in a cluster may know it by.
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
