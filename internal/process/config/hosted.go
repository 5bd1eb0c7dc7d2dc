package config

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// This file has the settings of control planes that live below another one in its process.

// hosted are the bounds of requests under way of a hosted control plane: shares of a machine that many use.
const hostedReading, hostedWriting = 60, 30

// Hosted returns the settings of a control plane below the one that c is of. It serves the same API, of the same version and with
// the same gates, plugins and encryption. Its keys are made and brought, its users are those of its own keys, tokens and roles, and prefix
// is where its objects are.
func (c *Plane) Hosted(prefix string) *Plane {
	h := *c
	h.EtcdPrefix, h.shownPrefix, h.ownKeys = prefix, c.KeyPrefix(), true
	h.MaxReadOnlyInFlight, h.MaxMutatingInFlight = min(c.MaxReadOnlyInFlight, hostedReading), min(c.MaxMutatingInFlight, hostedWriting)
	h.Trust = Standalone().Trust
	h.BootstrapTokenAuth = true
	return &h
}

// Forked returns the settings of a control plane that begins with what the one that c is of holds, in memory, and goes its own way. Its
// users are the same, and so are its plugins, webhooks and policies. controllers are those that it runs.
func (c *Plane) Forked(controllers []string) *Plane {
	f := *c
	f.Controllers, f.EncryptionConfigFile = controllers, "" // it is in memory alone
	return &f
}

func (c *Config) validatePlanes(bad reporter) {
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
