package config

import (
	"strings"
	"testing"
	"time"
)

func TestAuthenticationFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		says   string // part of the error; empty: none
	}{
		"nothing":           {func(*Config) {}, ""},
		"issuer alone":      {func(c *Config) { c.OIDCIssuerURL = "https://x" }, "must be specified together"},
		"two equal issuers": {func(c *Config) { c.ServiceAccountIssuers = []string{"a", "a"} }, "is already specified"},
		"short tokens":      {func(c *Config) { c.ServiceAccountMaxExpiration = time.Minute }, "between 1 hour and 2^32 seconds"},
		"signer and key":    {func(c *Config) { c.ServiceAccountSigningEndpoint, c.ServiceAccountSigningKey = "/s", "/k" }, "can't be set with"},
		"socket":            {func(c *Config) { c.ServiceAccountSigningEndpoint = "@a b" }, "abstract socket"},
		"empty header":      {func(c *Config) { c.RequestHeaderUserHeaders = []string{" "} }, "empty value"},
		"uid header":        {func(c *Config) { c.RequestHeaderUIDHeaders = []string{"X-Uid"} }, "X-Remote-Uid"},
		"uid header off": {func(c *Config) {
			c.RequestHeaderUIDHeaders, c.FeatureGates = []string{"X-Remote-Uid"}, []string{"RemoteRequestHeaderUID=false"}
		}, `requires the "RemoteRequestHeaderUID" feature to be enabled`},
		"unknown mode":        {func(c *Config) { c.AuthorizationModes = []string{"X"} }, "not a valid mode"},
		"mode twice":          {func(c *Config) { c.AuthorizationModes = []string{"RBAC", "RBAC"} }, "more than once"},
		"ABAC without file":   {func(c *Config) { c.AuthorizationModes = []string{"ABAC"} }, "must be specified with the mode ABAC"},
		"webhook's file only": {func(c *Config) { c.AuthorizationWebhookFile = "/f" }, "without the mode Webhook"},
	} {
		cfg := Standalone()
		c.change(&cfg)
		_, _, err := cfg.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestFrontProxyUID has users named without a UID while the gate is off, also by the server's own front proxy.
func TestFrontProxyUID(t *testing.T) {
	for flag, want := range map[string]int{"": 1, "RemoteRequestHeaderUID=false": 0} {
		cfg := Standalone()
		cfg.FeatureGates = []string{flag}
		_, plane, err := cfg.Validate()
		if err != nil {
			t.Fatal(err)
		}
		if headers, _ := plane.FrontProxy(); len(headers.UID) != want || len(headers.Username) != 1 {
			t.Errorf("%q: %+v", flag, headers)
		}
	}
}
