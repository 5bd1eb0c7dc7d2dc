package pki

import (
	"path/filepath"

	"k8s.io/utils/clock"
)

// EtcdFiles are the paths of the keys and certificates of an etcd: an authority of its own, which no API user has a
// certificate of, what a member serves and connects to others with, and what its clients have.
type EtcdFiles struct {
	CACert, CAKey         string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

func etcdFilesIn(dir string) *EtcdFiles {
	in := func(name string) string { return filepath.Join(dir, name) }
	return &EtcdFiles{
		CACert: in("ca.crt"), CAKey: in("ca.key"),
		ServerCert: in("server.crt"), ServerKey: in("server.key"),
		ClientCert: in("client.crt"), ClientKey: in("client.key"),
	}
}

// EnsureEtcd creates missing files of an etcd member at hosts, and renews certificates that are about to expire.
func EnsureEtcd(dir string, clk clock.PassiveClock, hosts ...string) (*EtcdFiles, error) {
	if err := privateDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	f := etcdFilesIn(dir)
	ca, err := ensureAuthority(f.CACert, f.CAKey, "kanzen-etcd-ca", clk.Now())
	if err != nil {
		return nil, err
	}
	return f, ca.ensureEtcd(f, clk, hosts)
}

// IssueEtcd makes the files of another member: its key and certificate, those of a client, and the authority's
// certificate. The authority's key stays where it is.
func IssueEtcd(from, dir string, clk clock.PassiveClock, hosts ...string) (*EtcdFiles, error) {
	own, f := etcdFilesIn(from), etcdFilesIn(dir)
	ca, err := LoadAuthority(own.CACert, own.CAKey)
	if err != nil {
		return nil, err
	}
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	f.CAKey = ""
	if err := writeFile(f.CACert, encodeCerts(ca.cert.Raw), fileMode); err != nil {
		return nil, err
	}
	return f, ca.ensureEtcd(f, clk, hosts)
}

func (a *Authority) ensureEtcd(f *EtcdFiles, clk clock.PassiveClock, hosts []string) error {
	server := Subject{Name: "etcd-server", Server: true, Client: true}
	server.addHosts(append([]string{"127.0.0.1", "::1", "localhost"}, hosts...)...)
	if err := a.ensure(f.ServerCert, f.ServerKey, server, clk.Now()); err != nil {
		return err
	}
	return a.ensure(f.ClientCert, f.ClientKey, Subject{Name: "etcd-client"}, clk.Now())
}
