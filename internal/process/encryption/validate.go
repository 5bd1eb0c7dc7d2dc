package encryption

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// validate returns what is wrong with a configuration, in upstream's words and at upstream's paths.
func validate(c *apiserver.EncryptionConfiguration, reload bool) field.ErrorList {
	root := field.NewPath("resources")
	if len(c.Resources) == 0 {
		return field.ErrorList{required(root, "resources")}
	}
	var errs field.ErrorList
	plugins := map[string]bool{}
	for i, each := range c.Resources {
		resources, providers := root.Index(i).Child("resources"), root.Index(i).Child("providers")
		if len(each.Resources) == 0 {
			errs = append(errs, required(resources, resources.String()))
		}
		errs = append(errs, validateOverlap(each.Resources, resources)...)
		for j, name := range each.Resources {
			if wrong := wrongResource(name); wrong != "" {
				errs = append(errs, field.Invalid(resources.Index(j), name, wrong))
			}
		}
		if len(each.Providers) == 0 {
			errs = append(errs, required(providers, providers.String()))
		}
		for j, p := range each.Providers {
			errs = append(errs, validateProvider(p, providers.Index(j), plugins, reload)...)
		}
	}
	return errs
}

func required(at *field.Path, what string) *field.Error {
	return field.Required(at, fmt.Sprintf("at least one %s is required", what))
}

// validateOverlap finds resources of one list that are named twice, or are among those of a wildcard.
func validateOverlap(names []string, at *field.Path) field.ErrorList {
	duplicate, overlap := false, false
	for i, name := range names {
		a := schema.ParseGroupResource(name)
		for _, other := range names[i+1:] {
			b := schema.ParseGroupResource(other)
			switch {
			case a == b:
				duplicate = true
				// Upstream compares both ways and reports a duplicate once: the second time, a wildcard overlaps itself.
				overlap = overlap || a.Resource == "*"
			case a == everything || b == everything, a.Group == b.Group && (a.Resource == "*" || b.Resource == "*"):
				overlap = true
			}
		}
	}
	var errs field.ErrorList
	if duplicate {
		errs = append(errs, field.Invalid(at, names, "the same resource cannot be specified multiple times"))
	}
	if overlap {
		errs = append(errs, field.Invalid(at, names, "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"))
	}
	return errs
}

// wrongResource returns why a resource cannot be encrypted; "": it can.
func wrongResource(name string) string {
	gr := schema.ParseGroupResource(name)
	switch {
	case strings.ToLower(name) != name:
		return "resource name should not contain capital letters"
	case name == "*":
		return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
	case name == "apiserveripinfo" || name == "serviceipallocations" || name == "servicenodeportallocations":
		return "resources which do not have REST API/s cannot be encrypted"
	case gr.Group == "events.k8s.io":
		return "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"
	case gr.Group == "extensions":
		return "'extensions' group has been removed and cannot be used for encryption"
	case gr.Group == "*" && gr.Resource != "*":
		return "encrypting the same resource across groups is not supported"
	}
	return ""
}

// validateProvider validates a provider; plugins are the names of the KMS plugins before it.
func validateProvider(p apiserver.ProviderConfiguration, at *field.Path, plugins map[string]bool, reload bool) field.ErrorList {
	var errs field.ErrorList
	switch found := countProviders(p); {
	case found == 0:
		return field.ErrorList{field.Invalid(at, p, "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")}
	case found > 1:
		// Upstream prints the value, which is addresses in memory.
		errs = append(errs, field.Invalid(at, "REDACTED", "more than one provider specified in a single element, should split into different list elements"))
	}
	aes := []int{16, 24, 32}
	switch {
	case p.KMS != nil:
		errs = append(errs, validatePlugin(p.KMS, at.Child("kms"), plugins, reload)...)
		plugins[p.KMS.Name] = true
	case p.AESGCM != nil:
		errs = append(errs, validateKeys(p.AESGCM.Keys, at.Child("aesgcm", "keys"), aes)...)
	case p.AESCBC != nil:
		errs = append(errs, validateKeys(p.AESCBC.Keys, at.Child("aescbc", "keys"), aes)...)
	case p.Secretbox != nil:
		errs = append(errs, validateKeys(p.Secretbox.Keys, at.Child("secretbox", "keys"), []int{32})...)
	}
	return errs
}

func countProviders(p apiserver.ProviderConfiguration) (n int) {
	for _, there := range []bool{p.KMS != nil, p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.Identity != nil} {
		if there {
			n++
		}
	}
	return n
}

// validateKeys validates keys, whose secrets no error shows.
func validateKeys(keys []apiserver.Key, at *field.Path, sizes []int) field.ErrorList {
	if len(keys) == 0 {
		return field.ErrorList{required(at, "keys")}
	}
	var errs field.ErrorList
	for i, k := range keys {
		if k.Name == "" {
			errs = append(errs, field.Required(at.Index(i).Child("name"), "name is a mandatory field for a key"))
		}
		secret := at.Index(i).Child("secret")
		if k.Secret == "" {
			errs = append(errs, field.Required(secret, "secret is a mandatory field for a key"))
			continue
		}
		b, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil {
			errs = append(errs, field.Invalid(secret, "REDACTED", "secrets must be base64 encoded"))
		} else if !slices.Contains(sizes, len(b)) {
			errs = append(errs, field.Invalid(secret, "REDACTED", fmt.Sprintf("secret is not of the expected length, got %d, expected one of %v", len(b), sizes)))
		}
	}
	return errs
}

func validatePlugin(c *apiserver.KMSConfiguration, at *field.Path, names map[string]bool, reload bool) field.ErrorList {
	var errs field.ErrorList
	v1 := c.APIVersion == "v1"
	if c.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "name is a mandatory field for a provider"))
	}
	if !v1 && strings.Contains(c.Name, ":") {
		errs = append(errs, field.Invalid(at.Child("name"), c.Name, fmt.Sprintf("invalid KMS provider name %s, must not contain ':'", c.Name)))
	}
	if (reload || !v1) && names[c.Name] {
		errs = append(errs, field.Invalid(at.Child("name"), c.Name, fmt.Sprintf("duplicate KMS provider name %s, names must be unique", c.Name)))
	}
	if c.Timeout.Duration <= 0 {
		errs = append(errs, field.Invalid(at.Child("timeout"), c.Timeout, "timeout should be a positive value"))
	}
	errs = append(errs, validateEndpoint(c.Endpoint, at.Child("endpoint"))...)
	size := at.Child("cachesize")
	if !v1 && c.CacheSize != nil {
		errs = append(errs, field.Invalid(size, *c.CacheSize, "cachesize is not supported in v2"))
	}
	if v1 && *c.CacheSize == 0 {
		errs = append(errs, field.Invalid(size, *c.CacheSize, "cachesize should be a positive value, or negative to disable"))
	}
	if !v1 && c.APIVersion != "v2" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), c.APIVersion, "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"))
	}
	return errs
}

func validateEndpoint(endpoint string, at *field.Path) field.ErrorList {
	if endpoint == "" {
		return field.ErrorList{field.Invalid(at, "", "endpoint is a mandatory field for a kms")}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return field.ErrorList{field.Invalid(at, endpoint, fmt.Sprintf("invalid endpoint for kms provider, error: %v", err))}
	}
	if u.Scheme != "unix" {
		return field.ErrorList{field.Invalid(at, endpoint, fmt.Sprintf("unsupported scheme %q for KMS provider, only unix is supported", u.Scheme))}
	}
	return nil
}
