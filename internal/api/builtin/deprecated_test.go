package builtin_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
)

// TestDeprecations has the versions that kube-apiserver 1.37 warns of, whether it serves them by default or not.
func TestDeprecations(t *testing.T) {
	chosen, err := builtin.Choose([]string{"api/all=true"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range builtin.Resources(builtin.Deps{Chosen: chosen}) {
		for _, v := range r.Versions {
			if v.Deprecation != nil {
				got[v.WithResource(r.Plural).GroupVersion().String()+" "+r.Plural] = v.Deprecation.Warning
			}
		}
	}
	want := map[string]string{
		"admissionregistration.k8s.io/v1beta1 mutatingadmissionpolicies":        "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy is deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
		"admissionregistration.k8s.io/v1beta1 mutatingadmissionpolicybindings":  "admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicyBinding is deprecated in v1.37+, unavailable in v1.40+; use admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding",
		"admissionregistration.k8s.io/v1alpha1 mutatingadmissionpolicies":       "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy is deprecated in v1.35+, unavailable in v1.38+",
		"admissionregistration.k8s.io/v1alpha1 mutatingadmissionpolicybindings": "admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicyBinding is deprecated in v1.35+, unavailable in v1.38+",
		"certificates.k8s.io/v1beta1 clustertrustbundles":                       "certificates.k8s.io/v1beta1 ClusterTrustBundle is deprecated in v1.37+, unavailable in v1.40+; use certificates.k8s.io/v1 ClusterTrustBundle",
		"certificates.k8s.io/v1beta1 podcertificaterequests":                    "certificates.k8s.io/v1beta1 PodCertificateRequest is deprecated in v1.37+, unavailable in v1.40+; use certificates.k8s.io/v1 PodCertificateRequest",
		"resource.k8s.io/v1alpha3 devicetaintrules":                             "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+",
		"storagemigration.k8s.io/v1beta1 storageversionmigrations":              "storagemigration.k8s.io/v1beta1 StorageVersionMigration is deprecated in v1.37+, unavailable in v1.40+; use storagemigration.k8s.io/v1 StorageVersionMigration",
		"resource.k8s.io/v1beta1 deviceclasses":                                 "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+",
		"resource.k8s.io/v1beta1 resourceclaims":                                "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+",
		"resource.k8s.io/v1beta1 resourceclaimtemplates":                        "resource.k8s.io/v1beta1 ResourceClaimTemplate is deprecated in v1.35+, unavailable in v1.38+",
		"resource.k8s.io/v1beta1 resourceslices":                                "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+",
		"coordination.k8s.io/v1alpha2 leasecandidates":                          "coordination.k8s.io/v1alpha2 LeaseCandidate is deprecated in v1.35+, unavailable in v1.38+",
		"coordination.k8s.io/v1beta1 leasecandidates":                           "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+",
		"resource.k8s.io/v1beta2 deviceclasses":                                 "resource.k8s.io/v1beta2 DeviceClass is deprecated in v1.36+, unavailable in v1.39+",
		"resource.k8s.io/v1beta2 resourceclaims":                                "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+",
		"resource.k8s.io/v1beta2 resourceclaimtemplates":                        "resource.k8s.io/v1beta2 ResourceClaimTemplate is deprecated in v1.36+, unavailable in v1.39+",
		"resource.k8s.io/v1beta2 resourceslices":                                "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+",
		"v1 componentstatuses":                                                  "v1 ComponentStatus is deprecated in v1.19+",
		"v1 endpoints":                                                          "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	}
	if !maps.Equal(got, want) {
		for key, text := range got {
			if want[key] != text {
				t.Errorf("%s: %q, want %q", key, text, want[key])
			}
			delete(want, key)
		}
		if len(want) > 0 {
			t.Errorf("nothing is said of %v", slices.Sorted(maps.Keys(want)))
		}
	}
}
