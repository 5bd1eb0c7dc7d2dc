package builtin

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Chosen is which groups, versions and resources are served: those of --runtime-config, and otherwise every version that
// is neither beta nor alpha.
type Chosen struct {
	// stages are the values of api/all, api/ga, api/beta and api/alpha that hold, the last one first.
	stages    []stage
	versions  map[schema.GroupVersion]bool
	resources map[schema.GroupVersionResource]bool
	// absent are the versions that the Kubernetes version that is emulated does not have, or no longer.
	absent map[schema.GroupVersionResource]bool
	Emulation
	wrong []error
}

type stage struct {
	matches *regexp.Regexp
	served  bool
}

// stages are the keys that choose versions by their stage, in the order in which they apply.
func stages() []struct{ key, matches string } {
	return []struct{ key, matches string }{
		{"api/all", ``}, {"api/ga", `^v\d+$`}, {"api/beta", `^v\d+beta\d+$`}, {"api/alpha", `^v\d+alpha\d+$`},
	}
}

// registered are the versions of the built-in groups that kube-apiserver 1.37 knows, served or not.
func registered() map[string]string {
	return map[string]string{
		"": "v1", "admission.k8s.io": "v1 v1beta1", "admissionregistration.k8s.io": "v1 v1beta1 v1alpha1", "apiextensions.k8s.io": "v1 v1beta1",
		"apiregistration.k8s.io": "v1 v1beta1", "apps": "v1 v1beta2 v1beta1", "authentication.k8s.io": "v1 v1beta1 v1alpha1",
		"authorization.k8s.io": "v1 v1beta1", "autoscaling": "v2 v1", "batch": "v1 v1beta1", "certificates.k8s.io": "v1 v1beta1 v1alpha1",
		"coordination.k8s.io": "v1 v1beta1 v1alpha2", "discovery.k8s.io": "v1 v1beta1", "events.k8s.io": "v1 v1beta1",
		"extensions": "v1beta1", "flowcontrol.apiserver.k8s.io": "v1 v1beta3 v1beta2 v1beta1", "imagepolicy.k8s.io": "v1alpha1",
		"internal.apiserver.k8s.io": "v1alpha1", "lifecycle.k8s.io": "v1alpha1", "networking.k8s.io": "v1 v1beta1", "node.k8s.io": "v1 v1beta1 v1alpha1",
		"policy": "v1 v1beta1", "rbac.authorization.k8s.io": "v1 v1beta1 v1alpha1", "resource.k8s.io": "v1 v1beta2 v1beta1 v1alpha3",
		"scheduling.k8s.io": "v1 v1beta1 v1alpha3", "storage.k8s.io": "v1 v1beta1 v1alpha1", "storagemigration.k8s.io": "v1 v1beta1",
	}
}

// pairs reads key=value pairs, separated by commas; the value may be missing.
func pairs(values []string) map[string]string {
	out := map[string]string{}
	for _, pair := range strings.Split(strings.Join(values, ","), ",") {
		if pair != "" {
			key, value, _ := strings.Cut(pair, "=")
			out[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return out
}

// coreKeys rewrites the keys that kube-apiserver takes as the core group, whatever they name of it, and drops api/legacy, which
// has no meaning any more.
func coreKeys(asked map[string]string) map[string]string {
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		switch value := asked[key]; {
		case key == "v1", strings.HasPrefix(key, "v1/"), key == "api/v1", strings.HasPrefix(key, "api/v1/"):
			delete(asked, key)
			asked["/v1"] = value
		case key == "api/legacy":
			delete(asked, key)
		}
	}
	return asked
}

// Choose reads the values of --runtime-config. Its errors are kube-apiserver's.
func Choose(values []string) (*Chosen, error) {
	asked := coreKeys(pairs(values))
	if len(asked) == 1 && asked["api/all"] == "false" {
		return nil, errors.New("invalid runtime-config with only api/all=false")
	}
	c := &Chosen{versions: map[schema.GroupVersion]bool{}, resources: map[schema.GroupVersionResource]bool{}}
	for _, s := range stages() {
		value, ok := asked[s.key]
		delete(asked, s.key)
		if !ok {
			continue
		}
		if value != "true" && value != "false" {
			return nil, fmt.Errorf("invalid value %s=%s", s.key, value)
		}
		c.stages = slices.Insert(c.stages, 0, stage{regexp.MustCompile(s.matches), value == "true"})
	}
	known := registered()
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		gv, resource, err := parseKey(key)
		if err != nil {
			return nil, err
		}
		if _, ok := known[gv.Group]; !ok {
			unknown = append(unknown, gv.String())
			continue
		}
		if err := c.choose(key, asked[key], gv, resource); err != nil {
			return nil, err
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("unknown api groups %s", strings.Join(slices.Compact(unknown), ","))
	}
	return c, nil
}

// parseKey reads group/version or group/version/resource.
func parseKey(key string) (gv schema.GroupVersion, resource string, err error) {
	parts := strings.Split(key, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[1] == "" {
		return gv, "", fmt.Errorf("runtime-config invalid key %s", key)
	}
	if len(parts) == 3 {
		resource = parts[2]
	}
	return schema.GroupVersion{Group: parts[0], Version: parts[1]}, resource, nil
}

// choose applies one pair for a version or a resource.
func (c *Chosen) choose(key, value string, gv schema.GroupVersion, resource string) error {
	if !slices.Contains(strings.Fields(registered()[gv.Group]), gv.Version) {
		return fmt.Errorf("group version %s that has not been registered", gv)
	}
	on := true
	if value != "" {
		var err error
		if on, err = strconv.ParseBool(value); err != nil {
			return fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
		}
	}
	switch {
	case strings.Count(key, "/") == 1:
		c.versions[gv] = on
	case strings.ToLower(resource) != resource:
		return fmt.Errorf("invalid key %v: group/version/resource and resource is always lowercase plural, not %q", key, resource)
	default:
		c.resources[gv.WithResource(resource)] = on
	}
	return nil
}

// Serves reports whether a version of a resource is served.
func (c *Chosen) Serves(gvr schema.GroupVersionResource) bool {
	if c == nil {
		c = &Chosen{}
	}
	if c.absent[gvr] {
		return false
	}
	if on, ok := c.resources[gvr]; ok {
		return on
	}
	if on, ok := c.versions[gvr.GroupVersion()]; ok {
		return on
	}
	return c.serves(gvr.GroupVersion()) || c.forward(gvr)
}

// serves reports whether a version is served, but for what is said of its resources.
func (c *Chosen) serves(gv schema.GroupVersion) bool {
	if on, ok := c.versions[gv]; ok {
		return on
	}
	for _, s := range c.stages {
		if s.matches.MatchString(gv.Version) {
			return s.served
		}
	}
	return !strings.Contains(gv.Version, "alpha") && !strings.Contains(gv.Version, "beta")
}

// narrow replaces resources with versions that are not served by ones without these, apart from the storage version.
func (c *Chosen) narrow(resources []*engine.Resource) []*engine.Resource {
	for n, r := range resources {
		unserved := func(v *engine.Version) bool { return v.GroupVersion != r.Hub && !c.Serves(v.WithResource(r.Plural)) }
		if slices.ContainsFunc(r.Versions, unserved) {
			narrower := *r
			narrower.Versions = slices.DeleteFunc(slices.Clone(r.Versions), unserved)
			resources[n] = &narrower
		}
	}
	return resources
}
