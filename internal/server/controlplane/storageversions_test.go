package controlplane

import (
	"testing"
	"time"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
)

// Two servers of different versions on one etcd agree only once both store the same.
func TestStorageVersionsOfTwoServers(t *testing.T) {
	now := time.Unix(1000, 0)
	v := &StorageVersions{Now: func() time.Time { return now }}
	obj := &internalv1alpha1.StorageVersion{}
	own := func(server, version string) internalv1alpha1.ServerStorageVersion {
		return internalv1alpha1.ServerStorageVersion{APIServerID: server, EncodingVersion: version}
	}
	for _, c := range []struct {
		server, version string
		servers         int
		common          string // "": none
		since           int64
	}{
		{"a", "g/v1", 1, "g/v1", 1001},
		{"a", "g/v1", 1, "g/v1", 1001},
		{"b", "g/v2", 2, "", 1003},
		{"a", "g/v2", 2, "g/v2", 1004},
		{"b", "g/v2", 2, "g/v2", 1004},
	} {
		now = now.Add(time.Second)
		v.fill(obj, own(c.server, c.version))
		s := &obj.Status
		common := ""
		if s.CommonEncodingVersion != nil {
			common = *s.CommonEncodingVersion
		}
		if len(s.StorageVersions) != c.servers || common != c.common || len(s.Conditions) != 1 || s.Conditions[0].LastTransitionTime.Unix() != c.since ||
			(s.Conditions[0].Status == internalv1alpha1.ConditionTrue) != (c.common != "") {
			t.Errorf("%+v: %+v", c, *s)
		}
	}
}
