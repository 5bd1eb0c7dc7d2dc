package builtin

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func TestResources(t *testing.T) {
	served := map[schema.GroupVersionResource]bool{}
	prefixes := map[string]string{}
	for _, r := range Resources(Deps{}) {
		for _, v := range r.Versions {
			gvr := v.WithResource(r.Plural)
			if served[gvr] {
				t.Errorf("%s is served twice", gvr)
			}
			served[gvr] = true
			if v.New == nil || v.NewList == nil {
				t.Errorf("%s: no objects", gvr)
			}
		}
		if r.Kind == "" || r.Singular == "" && !slices.Contains([]string{"componentstatuses"}, r.Plural) {
			t.Errorf("%s: no names", r.Plural)
		}
		if r.Prefix == "" {
			continue // nothing is stored
		}
		// Events are served in two groups.
		if other, ok := prefixes[r.Prefix]; ok && r.Prefix != "events" {
			t.Errorf("%s and %s are both stored at %s", other, r.Plural, r.Prefix)
		}
		prefixes[r.Prefix] = r.Plural
		if !slices.ContainsFunc(r.Versions, func(v *engine.Version) bool { return v.GroupVersion == r.Hub }) {
			t.Errorf("%s: stored version %s is not served", r.Plural, r.Hub)
		}
	}
	for _, want := range []string{
		"apps/v1/deployments", "autoscaling/v1/horizontalpodautoscalers", "autoscaling/v2/horizontalpodautoscalers",
		"authorization.k8s.io/v1/subjectaccessreviews", "authentication.k8s.io/v1/tokenreviews",
		"resource.k8s.io/v1/resourceclaims", "networking.k8s.io/v1/servicecidrs",
	} {
		var found bool
		for gvr := range served {
			found = found || gvr.Group+"/"+gvr.Version+"/"+gvr.Resource == want
		}
		if !found {
			t.Errorf("%s is not served", want)
		}
	}
}

// The prefixes in etcd equal those of an upstream cluster.
func TestPrefixes(t *testing.T) {
	want := map[string]string{
		"ingresses": "ingress", "endpointslices": "endpointslices", "leases": "leases", "jobs": "jobs",
		"customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
		"apiservices":               "apiregistration.k8s.io/apiservices",
		"clusterrolebindings":       "clusterrolebindings", "networkpolicies": "networkpolicies",
		"poddisruptionbudgets": "poddisruptionbudgets", "controllerrevisions": "controllerrevisions",
	}
	for _, r := range Resources(Deps{}) {
		if p, ok := want[r.Plural]; ok && r.Prefix != p {
			t.Errorf("%s is stored at %s, want %s", r.Plural, r.Prefix, p)
		}
	}
}
