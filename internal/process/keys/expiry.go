package keys

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file warns of certificates that others refuse, or soon will. None keeps a server from its start, as in kube-apiserver:
// what renews certificates may run on it.

// expirySoon is how long before its end a certificate is warned of.
const expirySoon = 30 * 24 * time.Hour

// WatchExpiry warns of certificates, again once a day while the reason lasts.
func WatchExpiry(ctx context.Context, certificates func() []NamedCertificate, clk clock.Clock, log *slog.Logger) {
	seldom := logs.NewSeldom(log, clk, 24*time.Hour)
	for ctx.Err() == nil {
		for _, n := range certificates() {
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

// InUse returns what returns the certificates of the settings, and those by which etcd and kubelets know this server.
func (k *Keys) InUse(root *config.Process, cfg *config.Plane) func() []NamedCertificate {
	return func() []NamedCertificate { return slices.Concat(k.Certificates(), ofClients(root, cfg)) }
}

// ofClients returns the certificates by which etcd and kubelets know this server.
func ofClients(root *config.Process, cfg *config.Plane) []NamedCertificate {
	var out []NamedCertificate
	for _, f := range []struct{ flag, cert, key string }{
		{"--etcd-certfile", root.EtcdCertFile, root.EtcdKeyFile},
		{"--kubelet-client-certificate", cfg.KubeletCertFile, cfg.KubeletKeyFile},
	} {
		if f.cert == "" {
			continue
		}
		if pair, err := pki.LoadPair(f.cert, f.key); err == nil { // who uses it logs what cannot be read
			out = append(out, NamedCertificate{Flag: f.flag, Certificate: pair.Leaf, Use: AsClient})
		}
	}
	return out
}

// fault says what is wrong with a certificate, and what to do; "" if nothing is.
func fault(n NamedCertificate, now time.Time) (what string, args []any) {
	c := n.Certificate
	subject, effect, advice := "a certificate", "clients refuse it", "replace the file, which is read again at once"
	usage, needed, peers := x509.ExtKeyUsageServerAuth, "serverAuth", "servers"
	switch n.Use {
	case AsClient:
		effect, usage, needed, peers = "servers refuse it", x509.ExtKeyUsageClientAuth, "clientAuth", "clients"
	case AsAuthority:
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
	case n.Use == AsAuthority && c.BasicConstraintsValid && !c.IsCA:
		return "a certificate in a file of authorities is none, and lets in only the client whose certificate it is: put its issuer's certificate there", nil
	case n.Use != AsAuthority && !allows(c, usage):
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

// Faulty returns the certificates that have a fault.
func Faulty(all []NamedCertificate, now time.Time) (out []findings.Certificate) {
	for _, n := range all {
		what, args := fault(n, now)
		if what == "" {
			continue
		}
		c := findings.Certificate{Flag: n.Flag, Subject: n.Certificate.Subject.String(), Fault: what, Expiring: len(args) > 0 && args[0] == "expires"}
		for i := 0; i+1 < len(args); i += 2 {
			c.Details = append(c.Details, fmt.Sprintf("%v: %v", args[i], args[i+1]))
		}
		out = append(out, c)
	}
	return out
}
