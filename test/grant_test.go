package test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGrant asks why things are forbidden and grants them: as an administrator, and as somebody without rights.
func TestGrant(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	ctx, admin := t.Context(), k.as("", "setup", nil)
	contains(t, k.tells("explain-access", "list", "pods", "-n", "default"), "kubernetes-admin may list pods in namespace default")
	// The certificate says the group, which the server has seen.
	contains(t, k.tells("explain-access", "--as", "kubernetes-admin", "list", "pods", "-n", "default"), "kubernetes-admin may list pods", "with the groups with which the server saw this user last:", "system:masters")
	said := k.tells("explain-access", "--as", "alice", "list", "pods", "-n", "default")
	contains(t, said, "alice may not list pods in namespace default", "the server has not seen this user yet", "ClusterRole view", "kanzen grant --as alice list pods -n default")
	for _, name := range []string{"system:controller", "system:node"} {
		if strings.Contains(said, name) {
			t.Errorf("%s is in the way of the answer: %s", name, said)
		}
	}
	if _, text, code := output(t, binaries.kanzen, "explain-access", "--kubeconfig", k.kubeconfig(), "--as", "alice", "gt", "pods"); code == 0 || !strings.Contains(text, `pods has no verb "gt"; it has create`) {
		t.Errorf("%d %s", code, text)
	}

	contains(t, k.tells("grant", "--as", "alice", "list", "pods", "-n", "default"), "kind: Role\n", "resources:\n  - pods", "verbs:\n  - list", "name: grant:alice:list:pods", "kind: RoleBinding", "nothing was created")
	may := func(user, verb, resource string) bool {
		r, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: "default"}}}, metav1.CreateOptions{})
		must(t, err)
		return r.Status.Allowed
	}
	if may("alice", "list", "pods") {
		t.Error("granted without --yes")
	}
	k.tells("grant", "--as", "alice", "list", "pods", "-n", "default", "--yes")
	within(t, 10*time.Second, "alice may list pods", func(context.Context) bool { return may("alice", "list", "pods") })
	if may("alice", "get", "pods") || may("alice", "list", "secrets") {
		t.Error("more was granted than was asked")
	}
	contains(t, k.tells("grant", "--as", "alice", "list", "pods", "-n", "default"), "alice may list pods", "RoleBinding default/grant:alice:list:pods", "Nothing needs to be granted")
	contains(t, k.tells("grant", "--as", "system:serviceaccount:shop:web", "get", "nodes", "n1", "-o", "json"), `"ClusterRole"`, `"resourceNames"`, `"ServiceAccount"`)

	// Alice may ask about herself without rights, and may not grant what she has not.
	out, text, code := output(t, binaries.kanzen, "kubeconfig", "--data-dir", k.dir, "--user", "alice")
	if code != 0 {
		t.Fatal(text)
	}
	path := filepath.Join(t.TempDir(), "alice")
	must(t, os.WriteFile(path, []byte(out), 0o600))
	out, text, code = output(t, binaries.kanzen, "explain-access", "--kubeconfig", path, "list", "pods", "-n", "default")
	contains(t, out, "alice may list pods in namespace default", "bindings and roles are not told")
	if code != 0 {
		t.Error(text)
	}
	out, text, code = output(t, binaries.kanzen, "explain-access", "--kubeconfig", path, "delete", "pods", "-n", "default")
	contains(t, out, "alice may not delete pods in namespace default", "kanzen grant --as alice delete pods -n default")
	if code != 0 {
		t.Error(text)
	}
	if _, text, code = output(t, binaries.kanzen, "grant", "--kubeconfig", path, "--as", "alice", "delete", "pods", "-n", "default", "--yes"); code == 0 || !strings.Contains(text, "forbidden") {
		t.Errorf("%d %s", code, text)
	}
}
