package discovery

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// TestUnhashed leaves only custom resources their hashes.
func TestUnhashed(t *testing.T) {
	resources := func() []*engine.Resource {
		return []*engine.Resource{{Plural: "things", Kind: "Thing", Prefix: "things", Hub: schema.GroupVersion{Group: "g", Version: "v1"}}}
	}
	for name, c := range map[string]struct {
		custom, unhashed, has bool
	}{
		"built in":          {false, false, true},
		"built in, without": {false, true, false},
		"custom":            {true, false, true},
		"custom, without":   {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			gvs := []GroupVersion{{GroupVersion: schema.GroupVersion{Group: "g", Version: "v1"}, Custom: c.custom, Resources: resources}}
			if c.unhashed {
				gvs = Unhashed(gvs)
			}
			if got := gvs[0].resourceList().APIResources[0].StorageVersionHash; (got != "") != c.has {
				t.Errorf("hash %q, want one: %t", got, c.has)
			}
		})
	}
}
