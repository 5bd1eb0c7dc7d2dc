package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount/external"
	"github.com/kanzen-io/kanzen/internal/pki"
)

// keys are all secrets and certificates the server works with, its own or
// brought.
type keys struct {
	serving         *pki.CertFile
	sni             []sniCertificate
	clientCA        *pki.BundleFile // nil: no client certificates
	requestHeaderCA *pki.BundleFile // nil: no front proxy
	signer          *serviceaccount.Signer
	verify          serviceaccount.KeySource  // nil: no tokens
	external        *external.Signer          // nil: the keys are here
	discovery       *serviceaccount.Discovery // nil: the issuer cannot be discovered
	tokenFile       authn.TokenAuthenticator
	// files are those that the server made for itself; nil if none.
	files *pki.Files
}

// loadKeys reads what was brought and, below a data directory, makes the rest.
// It writes into cfg which files these are.
func loadKeys(ctx context.Context, cfg *Config, port int, clk clock.WithTicker, r prometheus.Registerer, log *slog.Logger) (*keys, error) {
	k := &keys{}
	if cfg.DataDir != "" {
		if err := k.own(cfg, port, clk); err != nil {
			return nil, err
		}
	}
	if cfg.TLSCertFile == "" {
		ranges, err := cfg.serviceRanges()
		if err != nil {
			return nil, err
		}
		cfg.TLSCertFile, cfg.TLSKeyFile, err = pki.SelfSigned(cfg.CertDir, "apiserver", cfg.hostname(), pki.SelfSignedAlternates(cfg.BindAddress, firstAddress(ranges[0])), clk)
		if err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	var err error
	if k.serving, err = pki.NewCertFile(cfg.TLSCertFile, cfg.TLSKeyFile, clk, log); err != nil {
		return nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	if k.sni, err = loadSNI(cfg.TLSSNICertKeys, clk, log); err != nil {
		return nil, err
	}
	if cfg.ClientCAFile != "" {
		if k.clientCA, err = pki.NewBundleFile(cfg.ClientCAFile, clk, log); err != nil {
			return nil, fmt.Errorf("--client-ca-file: %w", err)
		}
	}
	if cfg.RequestHeaderCAFile != "" {
		if k.requestHeaderCA, err = pki.NewBundleFile(cfg.RequestHeaderCAFile, clk, log); err != nil {
			return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
		}
	}
	if cfg.TokenAuthFile != "" {
		audiences := cfg.APIAudiences
		if len(audiences) == 0 {
			audiences = cfg.ServiceAccountIssuers
		}
		if k.tokenFile, err = authn.TokenFile(cfg.TokenAuthFile, audiences, log); err != nil {
			return nil, fmt.Errorf("--token-auth-file: %w", err)
		}
	}
	if path := cfg.ServiceAccountSigningEndpoint; path != "" {
		if k.external, err = external.Dial(ctx, path, clk, external.NewMetrics(r), log); err != nil {
			return nil, fmt.Errorf("--service-account-signing-endpoint: %w", err)
		}
		if limit := k.external.MaxLife; cfg.ServiceAccountMaxExpiration > limit {
			return k, fmt.Errorf("--service-account-max-token-expiration: cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", cfg.ServiceAccountMaxExpiration, limit)
		}
	}
	return k, k.serviceAccounts(cfg, port, log)
}

// own makes sure of the server's own keys.
func (k *keys) own(cfg *Config, port int, clk clock.PassiveClock) error {
	ranges, err := cfg.serviceRanges()
	if err != nil {
		return err
	}
	host := "127.0.0.1"
	if ip := cfg.BindAddress; ip != nil && !ip.IsUnspecified() {
		host = ip.String()
	}
	o := pki.Options{
		Dir: filepath.Join(cfg.DataDir, "pki"), ServiceIP: firstAddress(ranges[0]), Clock: clk,
		Server: "https://" + net.JoinHostPort(host, strconv.Itoa(port)),
	}
	if cfg.AdvertiseAddress != nil {
		o.Hosts = append(o.Hosts, cfg.AdvertiseAddress.String())
	}
	if cfg.BindAddress != nil && !cfg.BindAddress.IsUnspecified() {
		o.Hosts = append(o.Hosts, cfg.BindAddress.String())
	}
	if cfg.ExternalHostname != "" {
		o.Hosts = append(o.Hosts, cfg.ExternalHostname)
	}
	f, err := pki.Ensure(o)
	if err != nil {
		return fmt.Errorf("keys and certificates in %s: %w", o.Dir, err)
	}
	k.files = f
	for flag, file := range map[*string]string{
		&cfg.TLSCertFile: f.ServingCert, &cfg.TLSKeyFile: f.ServingKey,
		&cfg.ClientCAFile: f.CACert, &cfg.ServiceAccountSigningKey: f.ServiceAccountKey,
	} {
		if *flag == "" && (flag != &cfg.ServiceAccountSigningKey || cfg.ServiceAccountSigningEndpoint == "") {
			*flag = file
		}
	}
	return nil
}

// serviceAccounts loads the keys that sign and verify tokens.
func (k *keys) serviceAccounts(cfg *Config, port int, log *slog.Logger) error {
	if k.external != nil {
		k.verify = k.external.Keys()
		k.signer = serviceaccount.NewExternalSigner(cfg.ServiceAccountIssuers[0], k.external.Sign)
		k.discover(cfg, port, log)
		return nil
	}
	files := cfg.ServiceAccountKeyFiles
	if len(files) == 0 && cfg.ServiceAccountSigningKey != "" {
		files = []string{cfg.ServiceAccountSigningKey}
	}
	if len(files) == 0 {
		return nil
	}
	keys, err := serviceaccount.LoadKeys(files...)
	if err != nil {
		return fmt.Errorf("--service-account-key-file: %w", err)
	}
	k.verify = keys
	if cfg.ServiceAccountSigningKey != "" && len(cfg.ServiceAccountIssuers) > 0 {
		pem, err := os.ReadFile(cfg.ServiceAccountSigningKey)
		if err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		key, err := pki.ParsePrivateKey(pem)
		if err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		if k.signer, err = serviceaccount.NewSigner(cfg.ServiceAccountIssuers[0], key); err != nil {
			return fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
	}
	k.discover(cfg, port, log)
	return nil
}

// discover makes the documents by which others find the issuer's keys.
func (k *keys) discover(cfg *Config, port int, log *slog.Logger) {
	host := cfg.hostname()
	if ip, err := cfg.advertise(); cfg.ExternalHostname == "" && err == nil {
		host = ip.String()
	}
	var err error
	k.discovery, err = serviceaccount.NewDiscovery(cfg.ServiceAccountIssuers[0], cfg.ServiceAccountJWKSURI, net.JoinHostPort(host, strconv.Itoa(port)), k.verify)
	if err != nil {
		log.Warn("the issuer of service-account tokens cannot be discovered", "error", err)
	}
}

func (c *Config) hostname() string {
	if c.ExternalHostname != "" {
		return c.ExternalHostname
	}
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}

func (k *keys) clientCAPEM() []byte {
	if k.clientCA == nil {
		return nil
	}
	return k.clientCA.PEM()
}

func (k *keys) requestHeaderCAPEM() []byte {
	if k.requestHeaderCA == nil {
		return nil
	}
	return k.requestHeaderCA.PEM()
}
