package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/base/logs"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// Validate returns the settings of the process and of the control plane at its root, or all errors in them, each with its flag. What it
// returns is a copy: the Config may change.
func (c *Config) Validate() (*Process, *Plane, error) {
	own := *c
	own.derive()
	if err := own.validate(); err != nil {
		return nil, nil, err
	}
	p, plane := own.Process, own.Plane // own has the flags too, which are larger
	return &p, &plane, nil
}

// derive notes in one part what the other part says. What is wrong there, validate tells.
func (c *Config) derive() {
	gates, _ := features.Parse(c.FeatureGates, c.Versions())
	c.Plane.gates, c.Process.gates = gates, &gates
	if ranges, err := c.ServiceRanges(); err == nil {
		c.services = FirstAddress(ranges[0])
	}
	c.ownKeys = c.DataDir != ""
	c.anonymousAsked = c.given != nil && c.given("anonymous-auth")
}

// reporter takes what is wrong with a flag's value.
type reporter func(flag, format string, args ...any)

// validate returns all errors in the settings.
func (c *Config) validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	for _, part := range []func(reporter){
		c.validateBrought, c.validateStorage, c.validatePairs, c.validateKubelets, c.validateAuthentication, c.validateAuthorization, c.validateServices,
		c.validatePeers, c.validateListener, c.validateBrowsers, c.validateRequests, c.validateBounds, c.validateDebugSocket, c.validateEtcd,
		c.validateSnapshots, c.validateRecorder, c.validateHistory, c.validateAudit, c.validateCompatibility, c.validateMetrics, c.validateElection,
		c.validatePlanes, c.validateNames,
	} {
		part(bad)
	}
	return errors.Join(errs...)
}

// validateBrought checks that everything is configured that the server does not create itself.
func (c *Config) validateBrought(bad reporter) {
	if c.DataDir != "" {
		return
	}
	if c.Embedded() {
		bad("etcd-servers", "must be specified")
	}
	if len(c.ServiceAccountIssuers) == 0 {
		bad("service-account-issuer", "must be specified")
	}
	if c.ServiceAccountSigningKey == "" && c.ServiceAccountSigningEndpoint == "" {
		bad("service-account-signing-key-file", "must be specified")
	}
}

// validateStorage checks where the objects lie.
func (c *Config) validateStorage(bad reporter) {
	c.validateEtcdServers(bad)
	if c.KeyPrefix() == "//" {
		bad("etcd-prefix", "%q must name something", c.EtcdPrefix)
	}
	if _, err := c.EtcdOverridden(); err != nil {
		bad("etcd-servers-overrides", "%v", err)
	}
	if c.EncryptionConfigReload && c.EncryptionConfigFile == "" {
		bad("encryption-provider-config-automatic-reload", "must be set with --encryption-provider-config")
	}
}

// validatePairs checks that certificates have their keys.
func (c *Config) validatePairs(bad reporter) {
	for _, p := range []struct{ certFlag, cert, keyFlag, key string }{
		{"tls-cert-file", c.TLSCertFile, "tls-private-key-file", c.TLSKeyFile},
		{"proxy-client-cert-file", c.ProxyClientCertFile, "proxy-client-key-file", c.ProxyClientKeyFile},
		{"etcd-certfile", c.EtcdCertFile, "etcd-keyfile", c.EtcdKeyFile},
		{"kubelet-client-certificate", c.KubeletCertFile, "kubelet-client-key", c.KubeletKeyFile},
	} {
		if (p.cert == "") != (p.key == "") {
			bad(p.certFlag, "goes together with --%s", p.keyFlag)
		}
	}
}

func (c *Config) validateKubelets(bad reporter) {
	if c.KubeletPort > 65535 {
		bad("kubelet-port", "%d is not a port", c.KubeletPort)
	}
	if c.KubeletTimeout < 0 {
		bad("kubelet-timeout", "must not be negative")
	}
	if c.MaxConnectionBytesPerSecond < 0 {
		bad("max-connection-bytes-per-sec", "must not be negative")
	}
}

// validateListener checks how connections are taken.
func (c *Config) validateListener(bad reporter) {
	if c.SecurePort < 0 || c.SecurePort > 65535 || c.SecurePort == 0 && c.DataDir == "" {
		bad("secure-port", "%d is not a port", c.SecurePort)
	}
	if _, err := TLSVersion(c.TLSMinVersion); err != nil {
		bad("tls-min-version", "%v", err)
	}
	if _, err := CipherSuites(c.TLSCipherSuites); err != nil {
		bad("tls-cipher-suites", "%v", err)
	}
	if _, err := CurvePreferences(c.TLSCurvePreferences); err != nil {
		bad("tls-curve-preferences", "%v", err)
	}
	if c.GoawayChance < 0 || c.GoawayChance > 0.02 {
		bad("goaway-chance", "must be from 0 to 0.02")
	}
}

// validateBrowsers checks what browsers are told.
func (c *Config) validateBrowsers(bad reporter) {
	for _, o := range c.CORSAllowedOrigins {
		if _, err := regexp.Compile(o); err != nil {
			bad("cors-allowed-origins", "%v", err)
		} else if !strings.Contains(o, "^") && !strings.Contains(o, "//") || !strings.ContainsAny(o, "$:") {
			bad("cors-allowed-origins", "%q does not say where the host begins (^ or //) and ends ($ or :), so it would allow others; as in '^https://example\\.com$'", o)
		}
	}
	for _, d := range c.HSTSDirectives {
		if name, _, _ := strings.Cut(strings.TrimSpace(d), "="); name != "max-age" && d != "includeSubDomains" && d != "preload" {
			bad("strict-transport-security-directives", "%q is none of max-age=n, includeSubDomains, preload", d)
		}
	}
}

// validateRequests checks how long requests may take, and how many there may be.
func (c *Config) validateRequests(bad reporter) {
	if c.RequestTimeout <= 0 {
		bad("request-timeout", "must be positive")
	}
	if c.PriorityAndFairness && max(c.MaxReadOnlyInFlight, 0) == 0 && max(c.MaxMutatingInFlight, 0) == 0 {
		bad("max-requests-inflight", "%d and --max-mutating-requests-inflight=%d must add up to something positive", c.MaxReadOnlyInFlight, c.MaxMutatingInFlight)
	}
}

func (c *Config) validateDebugSocket(bad reporter) {
	path := c.DebugSocketPath
	if path == "" {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		bad("debug-socket-path", "%s is there and is no socket; name another path", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		bad("debug-socket-path", "there is no directory %s", filepath.Dir(path))
	}
}

// validateNames checks what is chosen from a list of names.
func (c *Config) validateNames(bad reporter) {
	if !slices.Contains(logs.Formats, c.LoggingFormat) {
		bad("logging-format", "%q is none of %s", c.LoggingFormat, strings.Join(logs.Formats, ", "))
	}
	if _, err := extensions.Parse(c.ExtensionNames); err != nil {
		bad("extensions", "%v", err)
	}
	if err := controllers.ValidNames(c.Controllers); err != nil {
		bad("controllers", "%v", err)
	}
}
