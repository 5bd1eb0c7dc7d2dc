package test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"

	"golang.org/x/net/websocket"
)

// TestClients uses one server through what client-go has beside informers.
func TestClients(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir(), noRootCA)
	for name, test := range map[string]func(t *testing.T, k *kanzen, ns string){
		"pager": testPager, "retrywatcher": testRetryWatcher, "apply": testApplyConfigurations,
		"until": testUntil, "untyped": testUntypedClients, "websocket": testWebSocketWatch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			test(t, k, name)
		})
	}
}

func makeConfigMaps(t *testing.T, c kubernetes.Interface, ns string, n int) {
	t.Helper()
	for i := range n {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%03d", i), Labels: map[string]string{"test": "yes"}}}
		if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// testPager reads a list in pages that are all of the first page's revision,
// though objects come and go meanwhile.
func testPager(t *testing.T, k *kanzen, ns string) {
	c := k.client()
	makeConfigMaps(t, c, ns, 57)
	pages := 0
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := c.CoreV1().ConfigMaps(ns).List(ctx, o)
		if err != nil {
			return nil, err
		}
		if pages++; pages == 2 {
			late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m999", Labels: map[string]string{"test": "yes"}}}
			if _, err := c.CoreV1().ConfigMaps(ns).Create(ctx, late, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			if err := c.CoreV1().ConfigMaps(ns).Delete(ctx, "m056", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		return list, nil
	})
	p.PageSize = 10
	seen := map[string]bool{}
	err := p.EachListItem(t.Context(), metav1.ListOptions{LabelSelector: "test=yes"}, func(o runtime.Object) error {
		seen[o.(*corev1.ConfigMap).Name] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 57 || !seen["m056"] || seen["m999"] || pages != 6 {
		t.Errorf("%d objects in %d pages; m056: %v, m999: %v", len(seen), pages, seen["m056"], seen["m999"])
	}
}

// testRetryWatcher follows objects over watches that the server ends.
func testRetryWatcher(t *testing.T, k *kanzen, ns string) {
	c := k.client()
	list, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second := int64(1)
	watches := 0
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			watches++
			o.TimeoutSeconds = &second
			return c.CoreV1().ConfigMaps(ns).Watch(ctx, o)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i := 0; i < 12 || watches < 3; i++ {
		name := fmt.Sprintf("r%03d", i)
		if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for e := range w.ResultChan() {
			m, ok := e.Object.(*corev1.ConfigMap)
			if !ok || e.Type != watch.Added {
				t.Fatalf("got %s %T", e.Type, e.Object)
			}
			if m.Name == name {
				break
			}
			if m.Name > name {
				t.Fatalf("got %s before %s", m.Name, name)
			}
		}
	}
}

// testApplyConfigurations has two owners apply to one object by typed
// configurations, and one take back what is its own.
func testApplyConfigurations(t *testing.T, k *kanzen, ns string) {
	maps := k.client().CoreV1().ConfigMaps(ns)
	apply := func(owner string, force bool, data map[string]string) (*corev1.ConfigMap, error) {
		return maps.Apply(t.Context(), applycorev1.ConfigMap("shared", ns).WithData(data), metav1.ApplyOptions{FieldManager: owner, Force: force})
	}
	if _, err := apply("one", false, map[string]string{"a": "1", "b": "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("two", false, map[string]string{"b": "2"}); !apierrors.IsConflict(err) {
		t.Errorf("the other owner's field: got %v, want a conflict", err)
	}
	if _, err := apply("two", true, map[string]string{"b": "2", "c": "2"}); err != nil {
		t.Fatal(err)
	}
	m, err := apply("one", false, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"b": "2", "c": "2"}; fmt.Sprint(m.Data) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", m.Data, want)
	}
	mine, err := applycorev1.ExtractConfigMap(m, "two")
	if err != nil || fmt.Sprint(mine.Data) != fmt.Sprint(map[string]string{"b": "2", "c": "2"}) {
		t.Errorf("what is extracted for the second owner: %v, %v", mine, err)
	}
}

// testUntil waits for a condition with the reflector behind UntilWithSync.
func testUntil(t *testing.T, k *kanzen, ns string) {
	c := k.client()
	lw := cache.NewListWatchFromClient(c.CoreV1().RESTClient(), "configmaps", ns, fields.Everything())
	done := make(chan error, 1)
	go func() {
		_, err := watchtools.UntilWithSync(t.Context(), lw, &corev1.ConfigMap{}, nil, func(e watch.Event) (bool, error) {
			return e.Object.(*corev1.ConfigMap).Data["done"] == "yes", nil
		})
		done <- err
	}()
	makeConfigMaps(t, c, ns, 1)
	if _, err := c.CoreV1().ConfigMaps(ns).Patch(t.Context(), "m000", types.MergePatchType, []byte(`{"data":{"done":"yes"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// testUntypedClients reads and writes with the dynamic and the metadata client.
func testUntypedClients(t *testing.T, k *kanzen, ns string) {
	makeConfigMaps(t, k.client(), ns, 3)
	d := dynamic.NewForConfigOrDie(k.config()).Resource(configMaps).Namespace(ns)
	u, err := d.Get(t.Context(), "m001", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	u.SetAnnotations(map[string]string{"seen": "yes"})
	if u, err = d.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil || u.GetKind() != "ConfigMap" {
		t.Fatal(u, err)
	}
	m := metadata.NewForConfigOrDie(k.config()).Resource(configMaps).Namespace(ns)
	p, err := m.Get(t.Context(), "m001", metav1.GetOptions{})
	if err != nil || p.Annotations["seen"] != "yes" || p.ResourceVersion != u.GetResourceVersion() {
		t.Fatalf("got %+v, %v", p, err)
	}
	if _, err := m.Patch(t.Context(), "m001", types.MergePatchType, []byte(`{"metadata":{"labels":{"test":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test=yes"}); err != nil {
		t.Fatal(err)
	}
	list, err := d.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range list.Items {
		names = append(names, i.GetName())
	}
	if fmt.Sprint(names) != "[kube-root-ca.crt m001]" && fmt.Sprint(names) != "[m001]" {
		t.Errorf("left are %v", names)
	}
}

// testWebSocketWatch watches over a websocket, the token in a subprotocol as
// browsers send it.
func testWebSocketWatch(t *testing.T, k *kanzen, ns string) {
	c := k.client()
	if _, err := c.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "browser"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := c.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "browser", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "browser"}},
	}
	if _, err := c.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := websocket.NewConfig("wss://127.0.0.1:"+k.port()+"/api/v1/namespaces/"+ns+"/configmaps?watch=true", "https://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if config.TlsConfig, err = rest.TLSConfigFor(rest.AnonymousClientConfig(k.config())); err != nil {
		t.Fatal(err)
	}
	config.Protocol = []string{
		"base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token.Status.Token)), "base64.binary.k8s.io"}
	var ws *websocket.Conn
	within(t, 10*time.Second, "the token is let in", func(ctx context.Context) bool { // the binding is new
		ws, err = config.DialContext(ctx)
		return err == nil
	})
	defer ws.Close()
	_ = ws.SetDeadline(time.Now().Add(time.Minute))
	makeConfigMaps(t, c, ns, 3)
	for i := range 3 {
		var message string
		if err := websocket.Message.Receive(ws, &message); err != nil {
			t.Fatal(err)
		}
		var e struct {
			Type   string
			Object corev1.ConfigMap
		}
		if err := json.Unmarshal([]byte(message), &e); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("m%03d", i); e.Type != "ADDED" || e.Object.Name != want {
			t.Errorf("got %s %s, want ADDED %s", e.Type, e.Object.Name, want)
		}
	}
	// A page of another site cannot open one.
	config.Origin = nil
	if _, err := config.DialContext(t.Context()); err == nil {
		t.Error("a websocket without an origin was opened")
	}
}
