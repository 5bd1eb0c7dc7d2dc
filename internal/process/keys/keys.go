// Package keys loads a server's secrets and certificates: those in the configuration, and those that the server creates
// for itself below its data directory.
package keys

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount/external"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// Keys are the secrets and certificates of one server.
type Keys struct {
	Serving         *pki.CertFile
	sni             []sniCertificate
	ClientCA        *pki.BundleFile // nil: client certificates are not accepted
	RequestHeaderCA *pki.BundleFile // nil: there is no front proxy
	FrontProxy      *pki.CertFile   // identifies this server to extension API servers; nil: nothing does
	Signer          *serviceaccount.Signer
	Verify          serviceaccount.KeySource  // nil: service account tokens are not accepted
	External        *external.Signer          // nil: the keys are local
	Discovery       *serviceaccount.Discovery // nil: there are no discovery documents
	TokenFile       authn.TokenAuthenticator
	// RootCA is the authority of the serving certificate, in PEM; nil: it is not known.
	RootCA []byte
	// Authority issues client certificates; nil: its key is not known.
	Authority *pki.Authority
	// Legacy signs tokens that are kept in secrets; nil: there is no key at hand.
	Legacy *serviceaccount.Signer
	// Files are those that the server created for itself; nil if none.
	Files *pki.Files

	unasked func(ctx context.Context) error // what Unshared does; nil: nothing
}

// files are the paths of the keys: those in the configuration, and the server's own ones for all others.
type files struct {
	servingCert, servingKey, clientCA, signing     string
	requestHeaderCA, frontProxyCert, frontProxyKey string
}

// Load loads the configured files and, below a data directory, creates the others. They are those of the control plane at the root of a
// process. port is the port on which the server listens.
func Load(ctx context.Context, root *config.Process, cfg *config.Plane, db Database, port int, clk clock.WithTicker, r prometheus.Registerer, log *slog.Logger) (*Keys, error) {
	k := &Keys{}
	f := files{servingCert: root.TLSCertFile, servingKey: root.TLSKeyFile, clientCA: cfg.ClientCAFile, signing: cfg.ServiceAccountSigningKey,
		requestHeaderCA: cfg.RequestHeaderCAFile, frontProxyCert: cfg.ProxyClientCertFile, frontProxyKey: cfg.ProxyClientKeyFile}
	if root.DataDir != "" {
		if err := k.own(ctx, root, cfg, &f, db, port, clk, log); err != nil {
			return nil, err
		}
	}
	var err error
	if f.servingCert == "" {
		f.servingCert, f.servingKey, err = pki.SelfSigned(root.CertDir, "apiserver", root.Hostname(), pki.SelfSignedAlternates(root.BindAddress, root.ServiceAddress()), clk)
		if err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	if k.Serving, err = pki.NewCertFile(f.servingCert, f.servingKey, clk, log); err != nil {
		return nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	if k.sni, err = loadSNI(root.TLSSNICertKeys, clk, log); err != nil {
		return nil, err
	}
	if f.clientCA != "" {
		if k.ClientCA, err = pki.NewBundleFile(f.clientCA, clk, log); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	if f.requestHeaderCA != "" {
		if k.RequestHeaderCA, err = pki.NewBundleFile(f.requestHeaderCA, clk, log); err != nil {
			return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
		}
	}
	if f.frontProxyCert != "" {
		if k.FrontProxy, err = pki.NewCertFile(f.frontProxyCert, f.frontProxyKey, clk, log); err != nil {
			return nil, fmt.Errorf("--proxy-client-cert-file: %w", err)
		}
	}
	if cfg.TokenAuthFile != "" {
		audiences := cfg.APIAudiences
		if len(audiences) == 0 {
			audiences = cfg.ServiceAccountIssuers
		}
		if k.TokenFile, err = authn.TokenFile(cfg.TokenAuthFile, audiences, log); err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
	}
	if path := cfg.ServiceAccountSigningEndpoint; path != "" {
		if k.External, err = external.Dial(ctx, path, clk, external.NewMetrics(r), log); err != nil {
			return nil, fmt.Errorf("--service-account-signing-endpoint: %w", err)
		}
		if limit := k.External.MaxLife; cfg.ServiceAccountMaxExpiration > limit {
			return k, fmt.Errorf("--service-account-max-token-expiration: cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", cfg.ServiceAccountMaxExpiration, limit)
		}
	}
	return k, k.serviceAccounts(cfg, f.signing, root.Address(port), log)
}

// Folder is where a server keeps its own keys, below its data directory.
const Folder = "pki"

// Make creates the keys and certificates that a server with these settings needs of its own, below its data directory.
// It leaves those that are there and valid.
func Make(root *config.Process, port int, clk clock.PassiveClock) (*pki.Files, error) {
	host := "127.0.0.1"
	if ip := root.BindAddress; ip != nil && !ip.IsUnspecified() {
		host = ip.String()
	}
	o := pki.Options{
		Dir: filepath.Join(root.DataDir, Folder), ServiceIP: root.ServiceAddress(), Clock: clk,
		Server: "https://" + net.JoinHostPort(host, strconv.Itoa(port)),
	}
	if root.BindAddress != nil && !root.BindAddress.IsUnspecified() {
		o.Hosts = append(o.Hosts, root.BindAddress.String())
	} else {
		var err error
		if o.Hosts, err = interfaceAddresses(); err != nil {
			return nil, fmt.Errorf("find this machine's addresses: %w", err)
		}
	}
	if ip, err := root.Advertise(); err == nil {
		o.Hosts = append(o.Hosts, ip.String())
	}
	if root.ExternalHostname != "" {
		o.Hosts = append(o.Hosts, root.ExternalHostname)
	}
	o.Hosts = append(o.Hosts, root.TLSSANs...)
	if root.PlanesDomain != "" {
		o.Hosts = append(o.Hosts, "*."+root.PlanesDomain)
	}
	made, err := pki.Ensure(o)
	if err != nil {
		return nil, fmt.Errorf("keys and certificates in %s: %w", o.Dir, err)
	}
	return made, nil
}

// own creates the server's own keys.
func (k *Keys) own(ctx context.Context, root *config.Process, cfg *config.Plane, f *files, db Database, port int, clk clock.WithTicker, log *slog.Logger) error {
	if err := k.share(ctx, root, cfg, filepath.Join(root.DataDir, Folder), db, clk, log); err != nil {
		return err
	}
	made, err := Make(root, port, clk)
	if err != nil {
		return err
	}
	k.Files = made
	if f.servingCert == "" {
		f.servingCert, f.servingKey = made.ServingCert, made.ServingKey
		if k.RootCA, err = os.ReadFile(made.CACert); err != nil {
			return err
		}
	}
	if f.clientCA == "" {
		f.clientCA = made.CACert
		if k.Authority, err = pki.LoadAuthority(made.CACert, made.CAKey); err != nil {
			return err
		}
	}
	if cfg.OwnFrontProxy() {
		f.requestHeaderCA, f.frontProxyCert, f.frontProxyKey = made.FrontProxyCACert, made.FrontProxyCert, made.FrontProxyKey
	}
	if f.signing == "" && cfg.ServiceAccountSigningEndpoint == "" {
		f.signing = made.ServiceAccountKey
	}
	return nil
}

// share takes the keys that the servers of the cluster have in common from etcd. Nobody shares an embedded etcd, unless
// there is a key for it. A server that has no cluster key must only not be one of several that have: while etcd does not
// answer it listens, and says that it is not ready.
func (k *Keys) share(ctx context.Context, root *config.Process, cfg *config.Plane, dir string, db Database, clk clock.WithTicker, log *slog.Logger) error {
	c, err := newCluster(root, cfg, db, clk, log)
	if err != nil || len(c.seals) == 0 && root.Embedded() {
		return err
	}
	if len(c.seals) > 0 {
		return c.share(ctx, dir)
	}
	if err := c.once(ctx, dir, firstLook); refused(err) {
		return err
	} else if err != nil {
		k.unasked = func(ctx context.Context) error { return c.share(ctx, dir) }
	}
	return nil
}

// Unshared returns an error if the servers of the cluster share keys that this one was not given, which Load could not
// tell if etcd did not answer. It waits for etcd.
func (k *Keys) Unshared(ctx context.Context) error {
	if k.unasked == nil {
		return nil
	}
	return k.unasked(ctx)
}

// interfaceAddresses returns the addresses of this machine by which others may reach it.
func interfaceAddresses() ([]string, error) {
	addresses, err := net.InterfaceAddrs()
	var out []string
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out, err
}

// serviceAccounts loads the keys that sign and verify tokens.
func (k *Keys) serviceAccounts(cfg *config.Plane, signing, address string, log *slog.Logger) error {
	if k.External != nil {
		k.Verify = k.External.Keys()
		k.Signer = serviceaccount.NewExternalSigner(cfg.ServiceAccountIssuers[0], k.External.Sign)
		k.discover(cfg, address, log)
		return nil
	}
	files, flag := cfg.ServiceAccountKeyFiles, "--service-account-key-file"
	if len(files) == 0 && signing != "" {
		files, flag = []string{signing}, "--service-account-signing-key-file"
	}
	if len(files) == 0 {
		return nil
	}
	keys, err := serviceaccount.LoadKeys(files...)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	k.Verify = keys
	if signing != "" && len(cfg.ServiceAccountIssuers) > 0 {
		pem, err := os.ReadFile(signing)
		if err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		key, err := pki.ParsePrivateKey(pem)
		if err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		if k.Signer, err = serviceaccount.NewSigner(cfg.ServiceAccountIssuers[0], key); err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		if k.Legacy, err = serviceaccount.NewSigner(serviceaccount.LegacyIssuer, key); err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
	}
	k.discover(cfg, address, log)
	return nil
}

// discover creates the discovery documents with the issuer's keys.
func (k *Keys) discover(cfg *config.Plane, address string, log *slog.Logger) {
	var err error
	k.Discovery, err = serviceaccount.NewDiscovery(cfg.ServiceAccountIssuers[0], cfg.ServiceAccountJWKSURI, address, k.Verify)
	if err != nil {
		log.Warn("the issuer of service-account tokens cannot be discovered", "error", err)
	}
}

// ClientCAPEM returns the bundle of --client-ca-file; nil if there is none.
func (k *Keys) ClientCAPEM() []byte {
	if k.ClientCA == nil {
		return nil
	}
	return k.ClientCA.PEM()
}

// RequestHeaderCAPEM returns the bundle of --requestheader-client-ca-file; nil if there is none.
func (k *Keys) RequestHeaderCAPEM() []byte {
	if k.RequestHeaderCA == nil {
		return nil
	}
	return k.RequestHeaderCA.PEM()
}

// NamedCertificate is a certificate in use, with the flag that names its file.
type NamedCertificate struct {
	Flag        string
	Certificate *x509.Certificate
	Use         Use
}

// Use is what a certificate is for.
type Use int

const (
	// AsServer is for one that this server shows its clients.
	AsServer Use = iota
	// AsClient is for one that it shows other servers.
	AsClient
	// AsAuthority is for one that is not its own: it has signed those of clients.
	AsAuthority
)

// Certificates returns the certificates by which this server is known, and those by which it knows its clients.
func (k *Keys) Certificates() []NamedCertificate {
	var out []NamedCertificate
	add := func(flag string, use Use, f *pki.CertFile) {
		if f == nil {
			return
		}
		pair, err := f.GetCertificate(nil)
		if err != nil || pair == nil || len(pair.Certificate) == 0 {
			return
		}
		if c, err := x509.ParseCertificate(pair.Certificate[0]); err == nil {
			out = append(out, NamedCertificate{Flag: flag, Certificate: c, Use: use})
		}
	}
	add("--tls-cert-file", AsServer, k.Serving)
	for _, c := range k.sni {
		add("--tls-sni-cert-key", AsServer, c.file)
	}
	add("--proxy-client-cert-file", AsClient, k.FrontProxy)
	for flag, b := range map[string]*pki.BundleFile{"--client-ca-file": k.ClientCA, "--requestheader-client-ca-file": k.RequestHeaderCA} {
		if b == nil {
			continue
		}
		for _, c := range b.Certificates() {
			out = append(out, NamedCertificate{Flag: flag, Certificate: c, Use: AsAuthority})
		}
	}
	return out
}

// Public returns the keys without those by which tokens and certificates are signed.
func (k *Keys) Public() *Keys {
	public := *k
	public.Signer, public.Legacy, public.Authority = nil, nil, nil
	return &public
}

// Close releases the resources that Load acquired.
func (k *Keys) Close() error {
	if k.External == nil {
		return nil
	}
	return k.External.Close()
}
