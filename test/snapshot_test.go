package test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// kanzenSays runs kanzen to its end and returns what it prints.
func kanzenSays(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	stdout, stderr, code := output(t, binaries.kanzen, args...)
	if code != wantCode {
		t.Fatalf("%v: exit code %d: %s%s", args, code, stdout, stderr)
	}
	return stdout, stderr
}

var gizmos = schema.GroupVersionResource{Group: "snapshot.test", Version: "v1", Resource: "gizmos"}

// populate makes a namespace with objects that own one another, a secret, and a custom resource.
func populate(t *testing.T, k *kanzen) {
	t.Helper()
	ctx, c := t.Context(), k.client()
	d, err := dynamic.NewForConfig(k.config())
	must(t, err)
	_, err = d.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "gizmos.snapshot.test"},
		"spec": map[string]any{"group": "snapshot.test", "scope": "Namespaced", "names": map[string]any{"plural": "gizmos", "kind": "Gizmo"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.CoreV1().Namespaces().Create(ctx, namespace("shop"), metav1.CreateOptions{})
	must(t, err)
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	owner, err := c.AppsV1().Deployments("shop").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.AppsV1().ReplicaSets("shop").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "a-replica", Labels: labels, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: owner.UID}}},
		Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.CoreV1().Services("shop").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(t, err)
	within(t, 30*time.Second, "the custom resource is served", func(ctx context.Context) bool {
		_, err := d.Resource(gizmos).Namespace("shop").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "snapshot.test/v1", "kind": "Gizmo", "metadata": map[string]any{"name": "g"}, "spec": map[string]any{"size": int64(3)}}}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
}

// TestSnapshot saves a server that is being written to, as etcdutl reads it, and restores it: all of it to another
// directory, and a namespace that was deleted into the running server.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	keys := filepath.Join(dir, "encryption.yaml")
	must(t, os.WriteFile(keys, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm: {keys: [{name: one, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}]}
`), 0o600))
	data := filepath.Join(dir, "data")
	k := serve(t, data, "--encryption-provider-config="+keys)
	populate(t, k)
	c := k.client()
	at, encrypted := "--data-dir="+data, "--encryption-provider-config="+keys

	writer := writeAllTheTime(t, c)
	file := filepath.Join(dir, "one.db")
	said, _ := kanzenSays(t, 0, "snapshot", "save", file, at)
	n, _ := writer.end()
	t.Logf("%d writes meanwhile; %s", n, strings.TrimSpace(said))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	status, err := snapshot.NewV3(zap.NewNop()).Status(file)
	if err != nil || status.TotalKey < 100 {
		t.Errorf("etcdutl reads %+v, %v", status, err)
	}
	var found struct {
		Revision  int64
		Keys      int
		Resources []struct {
			Name       string
			Objects    int
			Encryption map[string]int
		}
	}
	said, _ = kanzenSays(t, 0, "snapshot", "inspect", file, "-o", "json")
	must(t, json.Unmarshal([]byte(said), &found))
	if found.Revision != status.Revision || found.Keys != status.TotalKey {
		t.Errorf("%d keys at %d, etcdutl has %+v", found.Keys, found.Revision, status)
	}
	counts := map[string]int{}
	for _, r := range found.Resources {
		counts[r.Name] = r.Objects
		if r.Name == "secrets" && r.Encryption["aesgcm"] != 1 {
			t.Errorf("secrets are encrypted by %v", r.Encryption)
		}
	}
	if counts["gizmos.snapshot.test"] != 1 || counts["deployments.apps"] != 1 || counts["secrets"] != 1 {
		t.Errorf("%v", counts)
	}

	// The running server differs by what was done since.
	must(t, createConfigMap(ctx, c, "later"))
	said, _ = kanzenSays(t, 0, "snapshot", "diff", file, at, encrypted, "--namespace=default")
	if !strings.Contains(said, "+ configmaps default/later\n") || strings.Contains(said, "- ") {
		t.Errorf("diff: %s", said)
	}
	other := filepath.Join(dir, "other.db")
	_, err = c.AppsV1().Deployments("shop").Patch(ctx, "web", "application/merge-patch+json", []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{})
	must(t, err)
	kanzenSays(t, 0, "snapshot", "save", other, at)
	said, _ = kanzenSays(t, 0, "snapshot", "diff", file, other, encrypted, "--resource=deployments.apps")
	if said != "~ deployments.apps shop/web  spec.replicas\n" {
		t.Errorf("diff: %q", said)
	}

	restoreNamespace(t, k, c, file, at, encrypted)
	restoreAll(t, dir, file, keys, found.Revision)
}

func restoreNamespace(t *testing.T, k *kanzen, c kubernetes.Interface, file, at, encrypted string) {
	t.Helper()
	ctx := t.Context()
	d, err := dynamic.NewForConfig(k.config())
	must(t, err)
	// What differs is told, and updated only with --overwrite.
	said, _ := kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--resource=deployments.apps")
	if said != "deployments.apps shop/web differs: spec.replicas\n" {
		t.Errorf("restore: %q", said)
	}
	kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--resource=deployments.apps", "--overwrite")
	if got, err := c.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{}); err != nil || *got.Spec.Replicas != 1 {
		t.Errorf("not overwritten: %v, %v", got, err)
	}
	service, err := c.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
	must(t, c.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}))
	within(t, 60*time.Second, "the namespace is gone", func(ctx context.Context) bool {
		_, err := c.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	dry, _ := kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--namespace=shop", "--dry-run")
	if _, err := c.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has restored: %v", err)
	}
	said, summary := kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--namespace=shop")
	for _, want := range []string{"namespaces shop created", "secrets shop/key created", "gizmos.snapshot.test shop/g created", "replicasets.apps shop/a-replica created"} {
		if !strings.Contains(said, want) || !strings.Contains(dry, want) {
			t.Errorf("no %q in\n%s or\n%s", want, said, dry)
		}
	}
	t.Log(summary)
	owner, err := c.AppsV1().Deployments("shop").Get(ctx, "web", metav1.GetOptions{})
	must(t, err)
	owned, err := c.AppsV1().ReplicaSets("shop").Get(ctx, "a-replica", metav1.GetOptions{})
	if err != nil || owned.OwnerReferences[0].UID != owner.UID {
		t.Errorf("the owner has UID %s: %+v, %v", owner.UID, owned, err)
	}
	secret, err := c.CoreV1().Secrets("shop").Get(ctx, "key", metav1.GetOptions{})
	if err != nil || string(secret.Data["password"]) != "hunter2" {
		t.Errorf("%v", err)
	}
	if again, err := c.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{}); err != nil || again.Spec.ClusterIP != service.Spec.ClusterIP {
		t.Errorf("the service has another address: %v, %v", again, err)
	}
	if g, err := d.Resource(gizmos).Namespace("shop").Get(ctx, "g", metav1.GetOptions{}); err != nil {
		t.Error(err)
	} else if size, _, _ := unstructured.NestedInt64(g.Object, "spec", "size"); size != 3 {
		t.Errorf("%v", g)
	}
	// Again changes nothing.
	if said, _ := kanzenSays(t, 0, "snapshot", "restore", file, at, encrypted, "--namespace=shop"); strings.Contains(said, "created") || strings.Contains(said, "failed") {
		t.Errorf("again: %s", said)
	}
}

// restoreAll starts a server on a restored directory. Clients that resume are told to list again.
func restoreAll(t *testing.T, dir, file, keys string, revision int64) {
	t.Helper()
	ctx, data := t.Context(), filepath.Join(dir, "restored")
	kanzenSays(t, 0, "snapshot", "restore", file, "--to-data-dir="+data)
	_, errs := kanzenSays(t, 1, "snapshot", "restore", file, "--to-data-dir="+data)
	if !strings.Contains(errs, "not empty") {
		t.Errorf("onto data: %s", errs)
	}
	k := serve(t, data, "--encryption-provider-config="+keys)
	c := k.client()
	secret, err := c.CoreV1().Secrets("shop").Get(ctx, "key", metav1.GetOptions{})
	if err != nil || string(secret.Data["password"]) != "hunter2" {
		t.Errorf("%v", err)
	}
	list, err := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	if v, err := strconv.ParseInt(list.ResourceVersion, 10, 64); err != nil || v < revision+1_000_000_000 {
		t.Errorf("the revision is %d, and was %d", v, revision)
	}
	watched, err := c.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "100"})
	if err == nil { // it begins, and ends with the reason
		e := <-watched.ResultChan()
		watched.Stop()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch of the past: %v", err)
	}
	must(t, createConfigMap(ctx, c, "goes-on"))
	if code, _ := k.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	cut := filepath.Join(dir, "cut.db")
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(cut, text[:len(text)-100], 0o600))
	text[len(text)/2] ^= 1
	flipped := filepath.Join(dir, "flipped.db")
	must(t, os.WriteFile(flipped, text, 0o600))
	for _, bad := range []string{cut, flipped} {
		for _, command := range [][]string{{"inspect", bad}, {"restore", bad, "--to-data-dir=" + filepath.Join(dir, "bad")}} {
			_, errs := kanzenSays(t, 1, append([]string{"snapshot"}, command...)...)
			if !strings.Contains(errs, "no complete snapshot") {
				t.Errorf("%v: %s", command, errs)
			}
		}
	}
}

// TestSnapshotIsGuarded has users without the right get no snapshot: one who may read every path has none.
func TestSnapshotIsGuarded(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	c, ctx := k.client(), t.Context()
	_, err := c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-all"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}}, {APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads-all"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-all"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}}}, metav1.CreateOptions{})
	must(t, err)
	config := k.config()
	status := func(method, user string) (code int) {
		as := rest.CopyConfig(config)
		if user != "" {
			as.Impersonate.UserName = user
		}
		client, err := rest.HTTPClientFor(as)
		must(t, err)
		req, err := http.NewRequestWithContext(ctx, method, config.Host+"/kanzen/snapshot", nil)
		must(t, err)
		resp, err := client.Do(req)
		must(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	within(t, 30*time.Second, "the role is in force", func(context.Context) bool { return status(http.MethodGet, "reader") == http.StatusMethodNotAllowed })
	for _, q := range []struct {
		method, user string
		want         int
	}{{http.MethodPost, "reader", 403}, {http.MethodPost, "nobody", 403}, {http.MethodPost, "", 200}, {http.MethodGet, "", 405}} {
		if got := status(q.method, q.user); got != q.want {
			t.Errorf("%s by %q: %d, not %d", q.method, q.user, got, q.want)
		}
	}
}

// TestSnapshotOfCluster saves from an etcd that has a socket, with and without TLS; what was saved is restored and served.
func TestSnapshotOfCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain, secure := etcdServer(t), "https://127.0.0.1:"+freePort(t)
	member, pki := "https://127.0.0.1:"+freePort(t), filepath.Join(dir, "tls", "pki", "etcd")
	for name, c := range map[string]struct{ serve, save []string }{
		"plain": {[]string{"--etcd-servers=" + plain}, []string{"--etcd-servers=" + plain}},
		"tls": {[]string{"--etcd-listen-client-urls=" + secure, "--etcd-listen-peer-urls=" + member}, []string{"--etcd-servers=" + secure,
			"--etcd-cafile=" + filepath.Join(pki, "ca.crt"), "--etcd-certfile=" + filepath.Join(pki, "client.crt"), "--etcd-keyfile=" + filepath.Join(pki, "client.key")}},
	} {
		k := serve(t, filepath.Join(dir, name), append(c.serve, noRootCA)...)
		for n := range 20 {
			must(t, createConfigMap(t.Context(), k.client(), "saved-"+strconv.Itoa(n)))
		}
		file := filepath.Join(dir, name+".db")
		kanzenSays(t, 0, append([]string{"snapshot", "save", file}, c.save...)...)
		must(t, createConfigMap(t.Context(), k.client(), "later"))
		restored := filepath.Join(dir, name+"-restored")
		kanzenSays(t, 0, "snapshot", "restore", file, "--to-data-dir="+restored)
		list, err := serve(t, restored, noRootCA).client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if len(list.Items) != 20 {
			t.Errorf("%s: %d objects were restored", name, len(list.Items))
		}
	}
	// Without a certificate nothing is saved, and no file is left.
	file := filepath.Join(dir, "refused.db")
	_, said := kanzenSays(t, 1, "snapshot", "save", file, "--etcd-servers="+secure, "--etcd-cafile="+filepath.Join(pki, "ca.crt"))
	if _, err := os.Stat(file); err == nil || said == "" {
		t.Errorf("saved without a certificate: %v %s", err, said)
	}
}
