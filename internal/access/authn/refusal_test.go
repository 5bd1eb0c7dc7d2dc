package authn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// TestRefusal has a server with a front proxy refuse credentials of all kinds.
func TestRefusal(t *testing.T) {
	clients, proxies := newAuthority(t), newAuthority(t)
	errs := map[string]error{
		"expired":   fmt.Errorf("verify: %w", serviceaccount.ErrExpired),
		"oldlogin":  fmt.Errorf("verify: %w", &gooidc.TokenExpiredError{}),
		"unused":    fmt.Errorf("verify: %w", serviceaccount.ErrMarkedInvalid),
		"away":      &url.Error{Op: "Post", URL: "https://hook", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		"slow":      context.DeadlineExceeded,
		"oldissuer": &url.Error{Op: "Get", URL: "https://issuer", Err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}},
		"gone":      context.Canceled,
		"bad":       errors.New("bad"),
	}
	tokens := ForAudiences(audiences, func(_ context.Context, token string) (user.Info, error) { return nil, errs[token] })
	a := New(Config{
		RequestHeader: &RequestHeader{HeaderNames: StandardHeaders(), Authorities: func() *x509.CertPool { return proxies.pool }},
		ClientCA:      func() *x509.CertPool { return clients.pool },
		Tokens:        Tokens{Authenticators: []TokenAuthenticator{tokens}, Audiences: audiences},
		Clock:         clocktesting.NewFakePassiveClock(now),
	})
	cert := func(by *authority, usage x509.ExtKeyUsage, until time.Time) *x509.Certificate {
		return pkitest.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: "node-3"}, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage}}, by.Pair).Cert
	}
	soon := now.Add(time.Hour)
	for name, c := range map[string]struct {
		cert                 *x509.Certificate
		authorization        string
		wantName, wantReason string
	}{
		"nothing":             {},
		"expired certificate": {cert: cert(clients, x509.ExtKeyUsageClientAuth, now.Add(-time.Minute)), wantName: "node-3", wantReason: "CertificateExpired"},
		"unknown authority":   {cert: cert(newAuthority(t), x509.ExtKeyUsageClientAuth, soon), wantName: "node-3", wantReason: "CertificateOfUnknownAuthority"},
		"server certificate":  {cert: cert(clients, x509.ExtKeyUsageServerAuth, soon), wantName: "node-3", wantReason: "CertificateInvalid"},
		"expired token":       {authorization: "Bearer expired", wantReason: "TokenExpired"},
		"expired login":       {authorization: "Bearer oldlogin", wantReason: "TokenExpired"},
		"unused token":        {authorization: "Bearer unused", wantReason: "TokenMarkedInvalid"},
		"unknown token":       {authorization: "Bearer other", wantReason: "TokenInvalid"},
		"bad token":           {authorization: "Bearer bad", wantReason: "TokenInvalid"},
		"basic":               {authorization: "Basic VDpU", wantReason: "TokenInvalid"},
		"authenticator away":  {authorization: "Bearer away", wantReason: "TokenNotChecked"},
		"authenticator slow":  {authorization: "Bearer slow", wantReason: "TokenNotChecked"},
		"issuer's own fault":  {authorization: "Bearer oldissuer", wantReason: "TokenNotChecked"},
		"client gone":         {authorization: "Bearer gone"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/api", nil)
			if c.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
			}
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			_, ok, err := a.Authenticate(r)
			if ok {
				t.Fatal("not refused")
			}
			if name, reason := Refusal(r, err); name != c.wantName || reason != c.wantReason {
				t.Errorf("%q %q, want %q %q, of %v", name, reason, c.wantName, c.wantReason, err)
			}
		})
	}
}
