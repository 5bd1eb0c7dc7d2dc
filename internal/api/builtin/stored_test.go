package builtin

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Objects are stored in a version that the oldest server can read that takes part in the cluster, and never in one that is less stable for its sake.
func TestStoredVersions(t *testing.T) {
	gates, err := features.Parse([]string{"GenericWorkload=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	for oldest, want := range map[string]map[string]string{
		"1.35": {"MutatingAdmissionPolicy": "v1beta1", "DeviceTaintRule": "v1beta2", "PodGroup": "v1beta1"},
		"1.36": {"MutatingAdmissionPolicy": "v1", "DeviceTaintRule": "v1beta2", "PodGroup": "v1beta1"},
		"1.37": {"MutatingAdmissionPolicy": "v1", "DeviceTaintRule": "v1", "PodGroup": "v1beta1"},
	} {
		got := map[string]string{}
		at := features.At{Emulated: features.Now().Emulated, Compatible: version.MustParse(oldest)}
		for _, r := range Resources(Deps{At: at, Gates: gates}) {
			got[r.Kind] = r.Hub.Version
			if r.Stored != nil {
				got[r.Kind] = r.Stored.Version
			}
		}
		for kind, version := range want {
			if got[kind] != version {
				t.Errorf("%s is stored as %s if %s must read it, want %s", kind, got[kind], oldest, version)
			}
		}
	}
}
