package apiserverinternal

import (
	"slices"
	"testing"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What servers tell must agree: a server reads what it stores and serves, and the common version is that of all.
func TestValidate(t *testing.T) {
	v1, v2 := "g/v1", "g/v2"
	for _, c := range []struct {
		name   string
		object string
		status internalv1alpha1.StorageVersionStatus
		want   []string // fields that are refused
	}{
		{"new", "core.pods", internalv1alpha1.StorageVersionStatus{}, nil},
		{"names", "pods", internalv1alpha1.StorageVersionStatus{}, []string{"metadata.name"}},
		{"names", "Core.0pods", internalv1alpha1.StorageVersionStatus{}, []string{"metadata.name", "metadata.name"}},
		{"two agree", "g.r", internalv1alpha1.StorageVersionStatus{CommonEncodingVersion: &v1, StorageVersions: []internalv1alpha1.ServerStorageVersion{
			{APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{v1, v2}, ServedVersions: []string{v2}}, {APIServerID: "b", EncodingVersion: v1, DecodableVersions: []string{v1}}}}, nil},
		{"two differ", "g.r", internalv1alpha1.StorageVersionStatus{CommonEncodingVersion: &v1, StorageVersions: []internalv1alpha1.ServerStorageVersion{
			{APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{v1}}, {APIServerID: "b", EncodingVersion: v2, DecodableVersions: []string{v2}}}}, []string{"status.commonEncodingVersion"}},
		{"unset", "g.r", internalv1alpha1.StorageVersionStatus{StorageVersions: []internalv1alpha1.ServerStorageVersion{{APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{v1}}}},
			[]string{"status.commonEncodingVersion"}},
		{"cannot read", "g.r", internalv1alpha1.StorageVersionStatus{CommonEncodingVersion: &v1, StorageVersions: []internalv1alpha1.ServerStorageVersion{
			{APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{"a/b/c"}, ServedVersions: []string{v2}}}},
			[]string{"status.storageVersions[0].decodableVersions[0]", "status.storageVersions[0].decodableVersions", "status.storageVersions[0].servedVersions[0]"}},
		{"twice", "g.r", internalv1alpha1.StorageVersionStatus{CommonEncodingVersion: &v1, StorageVersions: []internalv1alpha1.ServerStorageVersion{
			{APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{v1}}, {APIServerID: "a", EncodingVersion: v1, DecodableVersions: []string{v1}}}},
			[]string{"status.storageVersions[1].apiServerID"}},
		{"conditions", "g.r", internalv1alpha1.StorageVersionStatus{Conditions: []internalv1alpha1.StorageVersionCondition{{Type: "A", Status: "True"}}},
			[]string{"status[0].reason", "status[0].message"}},
	} {
		var got []string
		for _, err := range validate(t.Context(), &internalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: c.object}, Status: c.status}) {
			got = append(got, err.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
