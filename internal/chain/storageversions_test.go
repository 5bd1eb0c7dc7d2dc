package chain

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Writes wait for the storage version of their resource, but for those that it needs itself.
func TestStorageVersions(t *testing.T) {
	t.Parallel()
	told := map[string]bool{"secrets": true, "tokenreviews": true} // or never told, as nothing is stored
	filter := StorageVersions(func(of schema.GroupResource) (bool, error) { return !told[of.Resource], errors.New("no") },
		func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		})
	itself := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	for _, c := range []struct {
		method, path string
		as           user.Info
		held         string
	}{
		{"GET", "/api/v1/namespaces/default/configmaps/a", admin, ""},
		{"GET", "/api/v1/configmaps?watch=1", admin, ""},
		{"POST", "/metrics", admin, ""},
		{"POST", "/api/v1/namespaces/default/secrets", admin, ""},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", admin, ""},
		{"POST", "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions", admin, ""},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a", admin, ""},
		{"POST", "/api/v1/namespaces", itself, ""},
		{"POST", "/api/v1/namespaces/default/configmaps", itself, "configmaps"},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/a/status", admin, "deployments.apps"},
		{"DELETE", "/api/v1/namespaces/default/configmaps", admin, "configmaps"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a", admin, "leases.coordination.k8s.io"},
		{"POST", "/api/v1/namespaces", admin, "namespaces"},
		{"PUT", "/api/v1/namespaces/a", itself, "namespaces"},
	} {
		r := httptest.NewRequestWithContext(request.WithUser(t.Context(), c.as), c.method, c.path, nil)
		info, err := request.NewInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		r = r.WithContext(request.WithInfo(r.Context(), info))
		w := httptest.NewRecorder()
		filter(func(http.ResponseWriter, *http.Request) {})(w, r)
		want := ""
		if c.held != "" {
			want = "wait for storage version registration to complete for resource: " + c.held + ", last seen error: no\n"
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, want)
		}
	}
}
