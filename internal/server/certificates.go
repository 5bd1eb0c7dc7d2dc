package server

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file warns of certificates that others refuse, or soon will. None keeps a server from its start, as in kube-apiserver:
// what renews certificates may run on it.

// expirySoon is how long before its end a certificate is warned of.
const expirySoon = 30 * 24 * time.Hour

// watchCertificates warns of certificates, again once a day while the reason lasts.
func (b *base) watchCertificates(ctx context.Context, k *keys.Keys) {
	clk := b.process.Clock
	seldom := logs.NewSeldom(b.log, clk, 24*time.Hour)
	for ctx.Err() == nil {
		for _, n := range b.certificates(k) {
			if what, args := fault(n, clk.Now()); what != "" {
				subject := n.Certificate.Subject.String()
				args = append([]any{"flag", n.Flag, "subject", subject}, args...)
				seldom.Warn(n.Flag+n.Certificate.SerialNumber.String()+subject, what, args...)
			}
		}
		select {
		case <-clk.After(time.Hour):
		case <-ctx.Done():
		}
	}
}

// certificates returns the certificates of the settings, and those by which etcd and kubelets know this server.
func (b *base) certificates(k *keys.Keys) []keys.NamedCertificate {
	return slices.Concat(k.Certificates(), b.ofClients())
}

// ofClients returns the certificates by which etcd and kubelets know this server.
func (b *base) ofClients() []keys.NamedCertificate {
	var out []keys.NamedCertificate
	for _, f := range []struct{ flag, cert, key string }{
		{"--etcd-certfile", b.root.EtcdCertFile, b.root.EtcdKeyFile},
		{"--kubelet-client-certificate", b.cfg.KubeletCertFile, b.cfg.KubeletKeyFile},
	} {
		if f.cert == "" {
			continue
		}
		if pair, err := pki.LoadPair(f.cert, f.key); err == nil { // who uses it logs what cannot be read
			out = append(out, keys.NamedCertificate{Flag: f.flag, Certificate: pair.Leaf, Use: keys.AsClient})
		}
	}
	return out
}

// fault says what is wrong with a certificate, and what to do; "" if nothing is.
func fault(n keys.NamedCertificate, now time.Time) (what string, args []any) {
	c := n.Certificate
	subject, effect, advice := "a certificate", "clients refuse it", "replace the file, which is read again at once"
	usage, needed, peers := x509.ExtKeyUsageServerAuth, "serverAuth", "servers"
	switch n.Use {
	case keys.AsClient:
		effect, usage, needed, peers = "servers refuse it", x509.ExtKeyUsageClientAuth, "clientAuth", "clients"
	case keys.AsAuthority:
		subject, effect = "a certificate authority of clients", "clients with its certificates are refused"
		advice = "add the new authority to the file, which is read again at once"
	}
	left := c.NotAfter.Sub(now)
	switch {
	case now.Before(c.NotBefore):
		return subject + " is not valid yet, and " + effect + ": set the clock of this machine right, or replace the file, which is read again at once",
			[]any{"valid", c.NotBefore.UTC().Format(time.RFC3339)}
	case left <= 0:
		return subject + " has expired, and " + effect + ": " + advice, []any{"expired", c.NotAfter.UTC().Format(time.RFC3339)}
	case n.Use == keys.AsAuthority && c.BasicConstraintsValid && !c.IsCA:
		return "a certificate in a file of authorities is none, and lets in only the client whose certificate it is: put its issuer's certificate there", nil
	case n.Use != keys.AsAuthority && !allows(c, usage):
		return "a certificate is not for " + peers + ", and " + effect + ": use one with the extended key usage " + needed, nil
	case left < expirySoon:
		return subject + " expires soon: " + advice, []any{"expires", c.NotAfter.UTC().Format(time.RFC3339), "days", int(left.Hours() / 24)}
	}
	return "", nil
}

// allows says whether a certificate may be used so: it says nothing of its use, or names this one.
func allows(c *x509.Certificate, usage x509.ExtKeyUsage) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 || slices.Contains(c.ExtKeyUsage, usage) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}
