package test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/test/peer"
)

var thingsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

// shopOf returns the UIDs of what TestPlaneAndPeer has put into a server.
func shopOf(t *testing.T, c *rest.Config) map[string]string {
	t.Helper()
	k := kubernetes.NewForConfigOrDie(c).CoreV1()
	out := map[string]string{}
	see := func(what string, o metav1.Object, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		out[what] = string(o.GetUID()) + " " + o.GetCreationTimestamp().String()
	}
	ns, err := k.Namespaces().Get(t.Context(), "shop", metav1.GetOptions{})
	see("namespace", ns, err)
	service, err := k.Services("shop").Get(t.Context(), "shop", metav1.GetOptions{})
	see("service", service, err)
	out["address"] = service.Spec.ClusterIP
	thing, err := dynamic.NewForConfigOrDie(c).Resource(thingsResource).Namespace("shop").Get(t.Context(), "t", metav1.GetOptions{})
	see("thing", thing, err)
	return out
}

func sameShop(t *testing.T, where string, got, want map[string]string) {
	t.Helper()
	for what, is := range want {
		if got[what] != is {
			t.Errorf("%s: the %s is %s, not %s", where, what, got[what], is)
		}
	}
}

// TestPlaneAndPeer makes a plane of what kube-apiserver has written to etcd, and a server of kube-apiserver of the plane, on etcd's own.
func TestPlaneAndPeer(t *testing.T) {
	t.Parallel()
	const addresses = "--service-cluster-ip-range=10.43.0.0/16"
	peerFlags := []string{"--disable-admission-plugins=ServiceAccount", addresses}
	etcd := peer.Etcd(t)
	old := peer.StartOn(t, etcd, peerFlags...)
	client := kubernetes.NewForConfigOrDie(old).CoreV1()
	shop := metav1.ObjectMeta{Name: "shop"}
	_, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: shop}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.Services("shop").Create(t.Context(), &corev1.Service{ObjectMeta: shop, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.Secrets("shop").Create(t.Context(), &corev1.Secret{ObjectMeta: shop, StringData: map[string]string{"key": "value"}}, metav1.CreateOptions{})
	must(t, err)
	defineThings(t, old)
	want := shopOf(t, old)

	dir := t.TempDir()
	file, back := filepath.Join(dir, "old.db"), filepath.Join(dir, "back.db")
	kanzenSays(t, 0, "snapshot", "save", file, "--etcd-servers", etcd)
	p := planesOf{serve(t, filepath.Join(dir, "data"), "--planes", addresses), t}
	root := kubernetes.NewForConfigOrDie(p.config()).RESTClient()
	within(t, 20*time.Second, "planes are served", func(ctx context.Context) bool {
		return root.Get().AbsPath("/apis/planes.kanzen.io/v1/planes").Do(ctx).Error() == nil
	})
	if said, _ := kanzenSays(t, 0, "plane", "import", "old", file, "--data-dir", p.dir); !strings.Contains(said, "keys of other kinds left out") {
		t.Errorf("what kube-apiserver keeps of itself: %s", said)
	}
	plane, err := clientcmd.BuildConfigFromFlags("", p.configOf("old"))
	must(t, err)
	sameShop(t, "in the plane", shopOf(t, plane), want)
	in := kubernetes.NewForConfigOrDie(plane).CoreV1()
	must(t, in.Secrets("shop").Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	_, err = in.ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: shop, Data: map[string]string{"of": "the plane"}}, metav1.CreateOptions{})
	must(t, err)

	kanzenSays(t, 0, "plane", "export", "old", back, "--data-dir", p.dir)
	kanzenSays(t, 0, "snapshot", "restore", back, "--to-data-dir", filepath.Join(dir, "restored"))
	again := peer.StartOn(t, peer.EtcdOn(t, filepath.Join(dir, "restored", "etcd")), peerFlags...)
	sameShop(t, "in kube-apiserver", shopOf(t, again), want)
	out := kubernetes.NewForConfigOrDie(again).CoreV1()
	if _, err := out.Secrets("shop").Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was deleted in the plane: %v", err)
	}
	c, err := out.ConfigMaps("shop").Get(t.Context(), "shop", metav1.GetOptions{})
	must(t, err)
	c.Data["of"] = "kube-apiserver"
	_, err = out.ConfigMaps("shop").Update(t.Context(), c, metav1.UpdateOptions{})
	must(t, err)
}

// defineThings makes the definition of things, and one of them, once they are served.
func defineThings(t *testing.T, c *rest.Config) {
	t.Helper()
	d, client := &unstructured.Unstructured{}, dynamic.NewForConfigOrDie(c)
	must(t, yaml.Unmarshal([]byte(definitionOfThings), &d.Object))
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := client.Resource(definitions).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "t"}, "spec": map[string]any{"size": int64(3)}}}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = client.Resource(thingsResource).Namespace("shop").Create(t.Context(), thing, metav1.CreateOptions{}); !apierrors.IsNotFound(err) || time.Now().After(end) {
			break
		}
	}
	must(t, err)
}
