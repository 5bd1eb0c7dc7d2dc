package keys

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// Of returns the keys of a control plane that has no files: those of a set, which somebody keeps for it. It listens on no port of its
// own, so it has no serving certificate; address is where its clients reach it, and rootCA the authority of the certificate there.
func Of(set pki.Shared, cfg *config.Plane, address string, rootCA []byte, now time.Time, log *slog.Logger) (*Keys, error) {
	k := &Keys{RootCA: rootCA}
	var err error
	if k.Authority, err = pki.ParseAuthority(set.ClientAuthority()); err != nil {
		return nil, fmt.Errorf("the authority of clients: %w", err)
	}
	if k.ClientCA, err = pki.BundleOf(set.ClientAuthority().Cert); err != nil {
		return nil, fmt.Errorf("the authority of clients: %w", err)
	}
	proxies, err := pki.ParseAuthority(set.FrontProxyAuthority())
	if err != nil {
		return nil, fmt.Errorf("the authority of front proxies: %w", err)
	}
	if k.RequestHeaderCA, err = pki.BundleOf(set.FrontProxyAuthority().Cert); err != nil {
		return nil, fmt.Errorf("the authority of front proxies: %w", err)
	}
	own, err := proxies.NewPair(pki.Subject{Name: pki.FrontProxyName}, now)
	if err != nil {
		return nil, err
	}
	if k.FrontProxy, err = pki.CertOf(own); err != nil {
		return nil, err
	}
	key, err := pki.ParsePrivateKey(set.ServiceAccountKey())
	if err != nil {
		return nil, fmt.Errorf("the key of service accounts: %w", err)
	}
	if k.Verify, err = serviceaccount.NewKeys(key); err != nil {
		return nil, err
	}
	if k.Signer, err = serviceaccount.NewSigner(cfg.ServiceAccountIssuers[0], key); err != nil {
		return nil, err
	}
	if k.Legacy, err = serviceaccount.NewSigner(serviceaccount.LegacyIssuer, key); err != nil {
		return nil, err
	}
	k.discover(cfg, address, log)
	return k, nil
}
