package builtin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Emulation says what a server that emulates an older version of Kubernetes serves beyond what that had. Alpha versions are
// never among it.
type Emulation struct {
	// Forward serves, of what is served, the more stable versions too.
	Forward bool
	// ForwardAsked serves newer versions and resources that --runtime-config names.
	ForwardAsked bool
	// Removed serves for one more release what that version no longer has.
	Removed bool
}

// emulate takes away what is newer than a version of Kubernetes, and what it no longer has. What is asked for and taken away is
// an error of Wrong.
func (c *Chosen) emulate(emulated *version.Version, resources []*engine.Resource) {
	c.absent = map[schema.GroupVersionResource]bool{}
	left, taken := map[schema.GroupVersion]bool{}, map[schema.GroupVersion]bool{}
	for _, r := range resources {
		older := map[string]bool{} // groups of which an older version of the resource is served
		for _, v := range ascending(r.Versions) {
			gvr := v.WithResource(r.Plural)
			keep, err := c.keeps(v, gvr, emulated, older[gvr.Group])
			if err != nil {
				c.wrong = append(c.wrong, err)
			}
			if !keep {
				c.absent[gvr] = true
				taken[gvr.GroupVersion()] = true
				continue
			}
			served := c.Serves(gvr)
			left[gvr.GroupVersion()] = left[gvr.GroupVersion()] || served
			older[gvr.Group] = older[gvr.Group] || served && !strings.Contains(gvr.Version, "alpha")
		}
	}
	for _, gv := range slices.SortedFunc(maps.Keys(taken), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		if c.versions[gv] && !left[gv] {
			c.wrong = append(c.wrong, fmt.Errorf("cannot enable version %s in runtime-config because all the resources have been introduced after the current version %s."+
				" Consider setting --runtime-config-emulation-forward-compatible=true", gv, emulated))
		}
	}
}

// ascending are the versions of a resource, the least stable first.
func ascending(versions []*engine.Version) []*engine.Version {
	return slices.SortedFunc(slices.Values(versions), func(a, b *engine.Version) int {
		return apiversion.CompareKubeAwareVersionStrings(a.Version, b.Version)
	})
}

// keeps says whether a version of a resource is there in a version of Kubernetes.
func (c *Chosen) keeps(v *engine.Version, gvr schema.GroupVersionResource, emulated *version.Version, older bool) (bool, error) {
	if until := removed(v); until != nil && !until.GreaterThan(emulated) && !(c.Removed && until.EqualTo(emulated)) {
		return false, nil
	}
	since := introduced(v)
	asked := c.resources[gvr]
	switch {
	case since == nil || !since.GreaterThan(emulated), c.Forward && older, c.ForwardAsked && (asked || c.versions[gvr.GroupVersion()]):
		return true, nil
	case asked:
		return false, fmt.Errorf("cannot enable resource %s in runtime-config because it is introduced at %s after the current version %s."+
			" Consider setting --runtime-config-emulation-forward-compatible=true", gvr, since, emulated)
	}
	return false, nil
}

// forward says that a version is served because a less stable one is that the caller has asked for.
func (c *Chosen) forward(gvr schema.GroupVersionResource) bool {
	if !c.Forward {
		return false
	}
	for _, lower := range strings.Fields(registered()[gvr.Group]) {
		gv := schema.GroupVersion{Group: gvr.Group, Version: lower}
		if strings.Contains(lower, "alpha") || apiversion.CompareKubeAwareVersionStrings(lower, gvr.Version) >= 0 {
			continue
		}
		if c.resources[gv.WithResource(gvr.Resource)] || c.serves(gv) {
			return true
		}
	}
	return false
}

// Wrong returns what was asked for that is not in the version of Kubernetes that is emulated. It is known once the Resources are made.
func (c *Chosen) Wrong() error { return errors.Join(c.wrong...) }
