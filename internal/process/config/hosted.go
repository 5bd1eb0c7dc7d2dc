package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// This file has the settings of control planes that live below another one in its process.

// hosted are the bounds of requests under way of a hosted control plane: shares of a machine that many use.
const hostedReading, hostedWriting = 60, 30

// Hosted returns the settings of a control plane below the one that c is of. It serves the same API, of the same version and with
// the same gates, plugins and encryption. Its keys are brought, its requests come by the other one's port, and prefix is where its
// objects are. What is done once for a process or a machine is not done by it: compaction, snapshots, the flight recorder and its
// page, the audit log; nor does it take those of the settings that name who the users and what the webhooks of the other one are.
func (c *Config) Hosted(prefix string) *Config {
	h := *c
	h.Flags, h.RuntimeConfig = nil, slices.Clone(c.RuntimeConfig)
	h.IsHosted, h.NoListener = true, true
	h.DataDir, h.EtcdPrefix = "", prefix
	h.withoutProcess()
	h.EgressSelectorConfigFile = ""
	h.MaxReadOnlyInFlight, h.MaxMutatingInFlight = min(c.MaxReadOnlyInFlight, hostedReading), min(c.MaxMutatingInFlight, hostedWriting)
	d := Standalone()
	h.hostedUsers(&d)
	h.AuditPolicyFile, h.AuditLog, h.AuditWebhookConfigFile = "", d.AuditLog, ""
	h.AdmissionConfigFile = ""
	h.KubeletCAFile, h.KubeletCertFile, h.KubeletKeyFile = "", "", ""
	return &h
}

// hostedUsers sets who the users are: those of the plane itself, by its own keys, tokens and roles.
func (c *Config) hostedUsers(d *Config) {
	c.ClientCAFile, c.TokenAuthFile, c.TLSCertFile, c.TLSKeyFile, c.TLSSNICertKeys = "", "", "", "", nil
	c.AuthenticationConfigFile, c.OIDCIssuerURL, c.OIDCClientID, c.OIDCCAFile, c.OIDCRequiredClaims = "", "", "", "", nil
	c.TokenWebhookFile = ""
	c.RequestHeaderCAFile, c.ProxyClientCertFile, c.ProxyClientKeyFile = "", "", ""
	c.BootstrapTokenAuth = true
	c.ServiceAccountIssuers, c.ServiceAccountKeyFiles, c.ServiceAccountSigningKey, c.ServiceAccountSigningEndpoint = d.ServiceAccountIssuers, nil, "", ""
	c.ServiceAccountJWKSURI, c.APIAudiences = "", nil
	c.AuthorizationModes, c.AuthorizationPolicyFile, c.AuthorizationConfigFile, c.AuthorizationWebhookFile = d.AuthorizationModes, "", "", ""
	c.AnonymousHealthOnly = true
}

func (c *Config) validatePlanes(bad func(flag, format string, args ...any)) {
	if _, err := c.StorageClasses(); err != nil {
		bad("planes-storage", "%v", err)
	} else if len(c.PlanesStorage) > 0 && !c.Planes {
		bad("planes-storage", "goes together with --planes")
	}
	switch domain := c.PlanesDomain; {
	case domain == "":
	case !c.Planes:
		bad("planes-domain", "goes together with --planes")
	case len(validation.IsDNS1123Subdomain(domain)) > 0:
		bad("planes-domain", "%q is not a domain: %s", domain, strings.Join(validation.IsDNS1123Subdomain(domain), "; "))
	}
}

// Forked returns the settings of a control plane that begins with what the one that c is of holds, in memory, and goes its own way. Its
// users are the same, and so are its plugins, webhooks and policies. controllers are those that it runs.
func (c *Config) Forked(controllers []string) *Config {
	f := *c
	f.Flags, f.RuntimeConfig = nil, slices.Clone(c.RuntimeConfig)
	f.IsHosted, f.NoListener = true, true
	f.DataDir, f.Controllers = "", controllers
	f.withoutProcess()
	f.EncryptionConfigFile = "" // it is in memory alone
	f.EtcdOverrides = nil
	return &f
}

// withoutProcess leaves out what is done once for a process or a machine.
func (c *Config) withoutProcess() {
	c.Planes, c.PlanesDomain, c.PlanesStorage = false, "", nil
	c.EtcdCompactionInterval, c.SnapshotSchedule, c.SnapshotKeysPassphraseFile = 0, "", ""
	c.FlightRecorderMemory, c.FlightRecorderDir, c.Console = 0, "", false
	c.History = 0
	c.DebugSocketPath, c.TracingConfigFile = "", ""
	c.Profiling, c.ContentionProfiling = false, false // they are of the process
	c.EndpointReconcilerType, c.KubernetesServiceNodePort = "none", 0
	c.PeerCAFile, c.PeerAdvertiseIP, c.PeerAdvertisePort = "", "", "" // all servers of the process serve it the same
	c.ShutdownDelay, c.ShutdownRetryAfter, c.WatchTermination = 0, false, 0
}
