package extension

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
)

// Options are the settings of a running server. The zero value is for a pod of the host cluster, with objects in memory
// only if it says so.
type Options struct {
	// Host is how the host cluster is reached; nil: as Kubeconfig says, and without one as a pod of it.
	Host       *rest.Config
	Kubeconfig string
	// Listen is the address to listen on; empty: ":6443". The port 0 is a free one.
	Listen string
	// CertFile and KeyFile are the serving certificate and its key, taken up again when they change. Empty: the server
	// makes its own, in DataDir, for localhost and the names in Hosts (SERVICE.NAMESPACE.svc).
	CertFile, KeyFile string
	Hosts             []string
	// Storage has the objects of kinds without Functions.
	Storage Storage
	// DataDir is where the server keeps what it makes; empty: nothing is kept.
	DataDir string
	// Log takes the log; nil: warnings and errors go to standard error.
	Log *slog.Logger
}

// flags are Options as the command line has them.
type flags struct {
	Options
	hosts, servers        string
	ca, etcdCert, etcdKey string
	memory                bool
}

// Flags adds flags for the settings to a set, with names that kube-apiserver gives them. The func returns the settings
// once the flags are parsed.
func Flags(set *flag.FlagSet) func() (Options, error) {
	f := &flags{}
	set.StringVar(&f.Kubeconfig, "kubeconfig", "", "how the host cluster is reached; empty: as a pod of it")
	set.StringVar(&f.Listen, "listen", ":6443", "address to listen on")
	set.StringVar(&f.CertFile, "tls-cert-file", "", "serving certificate; empty: the server makes one")
	set.StringVar(&f.KeyFile, "tls-private-key-file", "", "key of the serving certificate")
	set.StringVar(&f.hosts, "tls-hosts", "", "further names in the certificate that the server makes, separated by commas")
	set.StringVar(&f.DataDir, "data-dir", "", "where the server keeps what it makes")
	set.BoolVar(&f.memory, "memory", false, "keep objects in memory only")
	set.StringVar(&f.servers, "etcd-servers", "", "etcd cluster, separated by commas; empty: an etcd in this process")
	set.StringVar(&f.ca, "etcd-cafile", "", "authority of the etcd cluster")
	set.StringVar(&f.etcdCert, "etcd-certfile", "", "client certificate for the etcd cluster")
	set.StringVar(&f.etcdKey, "etcd-keyfile", "", "key of the client certificate for the etcd cluster")
	return f.options
}

func (f *flags) options() (Options, error) {
	o := f.Options
	if f.hosts != "" {
		o.Hosts = strings.Split(f.hosts, ",")
	}
	switch {
	case f.memory && f.servers != "":
		return o, errors.New("--memory and --etcd-servers exclude each other")
	case f.memory:
		o.Storage = Memory()
	case f.servers != "":
		t, err := f.etcdTLS()
		if err != nil {
			return o, err
		}
		o.Storage = Etcd(strings.Split(f.servers, ","), t)
	}
	return o, nil
}

// etcdTLS is how the etcd cluster is reached, nil for plain TCP.
func (f *flags) etcdTLS() (*tls.Config, error) {
	if f.ca == "" && f.etcdCert == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("--etcd-cafile: no certificate")
		}
	}
	if f.etcdCert != "" {
		pair, err := tls.LoadX509KeyPair(f.etcdCert, f.etcdKey)
		if err != nil {
			return nil, fmt.Errorf("--etcd-certfile: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// Main is the whole main function of a program that is a server: it reads the flags, serves until it is interrupted,
// and exits with 1 if that fails.
func Main(s *Server) {
	set := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	options := Flags(set)
	_ = set.Parse(os.Args[1:]) // exits
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := options()
	if err == nil {
		err = s.Run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}
