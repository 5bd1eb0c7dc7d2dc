package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/admission/manifest"
)

// Names of manifests are refused for new objects while the feature is on; else, and for objects that are there, they are warned of.
func TestNamesOfManifests(t *testing.T) {
	for _, on := range []bool{false, true} {
		for _, r := range Resources(Deps{Manifests: on}) {
			obj, old := r.Versions[0].New(), r.Versions[0].New()
			for _, name := range []string{"a", "a" + manifest.Suffix} {
				obj.SetName(name)
				old.SetName(name)
				static := name != "a"
				refused := strings.Contains(fmt.Sprint(r.Rules.Validate(t.Context(), obj)), "reserved for static manifest-based configurations")
				if refused != (on && static) {
					t.Errorf("%s %s with the feature %v: refused %v", r.Kind, name, on, refused)
				}
				if n := len(r.Rules.Warn(t.Context(), obj, nil)); n > 0 != (static && !on) {
					t.Errorf("%s %s with the feature %v: %d warnings at its creation", r.Kind, name, on, n)
				}
				if n := len(r.Rules.Warn(t.Context(), obj, old)); n > 0 != static {
					t.Errorf("%s %s with the feature %v: %d warnings at a change", r.Kind, name, on, n)
				}
			}
		}
	}
}
