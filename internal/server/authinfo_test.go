package server

import (
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/pki/pkitest"
)

// bundle is a certificate that ends at some time.
func bundle(t *testing.T, serial int64, end time.Time) string {
	t.Helper()
	return string(pkitest.Issue(t, x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: end}, nil).PEM())
}

// Servers of a cluster add to what the others wrote, while their authorities
// are exchanged one after the other.
func TestAuthInfoAdds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &authInfo{now: func() time.Time { return now }}
	ours, theirs, old := bundle(t, 1, now.Add(time.Hour)), bundle(t, 2, now.Add(time.Hour)), bundle(t, 3, now.Add(-time.Minute))
	if got := a.certificates([]byte(theirs+old+"# no certificate\n"+ours), []byte(ours)); got != theirs+ours {
		t.Errorf("certificates\n%s", got)
	}
	for _, c := range []struct {
		have string
		more []string
		want string
	}{{"", nil, "[]"}, {`["a"]`, []string{"b", "a"}, `["a","b"]`}, {"null", []string{"a"}, `["a"]`}, {"garbage", []string{"a"}, `["a"]`}} {
		if got := union(c.have, c.more); got != c.want {
			t.Errorf("%s and %v: %s, want %s", c.have, c.more, got, c.want)
		}
	}
}

func TestAuthenticationFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		says   string // part of the error; empty: none
	}{
		"nothing":             {func(*config.Config) {}, ""},
		"issuer alone":        {func(c *config.Config) { c.OIDCIssuerURL = "https://x" }, "must be specified together"},
		"two equal issuers":   {func(c *config.Config) { c.ServiceAccountIssuers = []string{"a", "a"} }, "is already specified"},
		"short tokens":        {func(c *config.Config) { c.ServiceAccountMaxExpiration = time.Minute }, "between 1 hour and 2^32 seconds"},
		"signer and key":      {func(c *config.Config) { c.ServiceAccountSigningEndpoint, c.ServiceAccountSigningKey = "/s", "/k" }, "can't be set with"},
		"socket":              {func(c *config.Config) { c.ServiceAccountSigningEndpoint = "@a b" }, "abstract socket"},
		"empty header":        {func(c *config.Config) { c.RequestHeaderUserHeaders = []string{" "} }, "empty value"},
		"uid header":          {func(c *config.Config) { c.RequestHeaderUIDHeaders = []string{"X-Uid"} }, "X-Remote-Uid"},
		"unknown mode":        {func(c *config.Config) { c.AuthorizationModes = []string{"X"} }, "not a valid mode"},
		"mode twice":          {func(c *config.Config) { c.AuthorizationModes = []string{"RBAC", "RBAC"} }, "more than once"},
		"ABAC without file":   {func(c *config.Config) { c.AuthorizationModes = []string{"ABAC"} }, "must be specified with the mode ABAC"},
		"webhook's file only": {func(c *config.Config) { c.AuthorizationWebhookFile = "/f" }, "without the mode Webhook"},
	} {
		cfg := config.Standalone()
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
