package kanzentest_test

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

//go:embed testdata/crds
var crds embed.FS

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widget(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "spec": spec}}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func mustCreate(t testing.TB, k *kubernetes.Clientset, name string) {
	t.Helper()
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestInstall takes CRDs from each kind of source, and objects of the kind that they define.
func TestInstall(t *testing.T) {
	t.Parallel()
	text, err := crds.ReadFile("testdata/crds/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := fs.Sub(crds, "testdata")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := kanzentest.YAML(string(text)).Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]kanzentest.Source{
		"directory": kanzentest.Path("testdata/crds"), "file": kanzentest.Path("testdata/crds/widgets.yaml"),
		"fs": kanzentest.FS(crds, "testdata/crds"), "file of an fs": kanzentest.FS(sub, "crds/widgets.yaml"),
		"text": kanzentest.YAML(string(text)), "values": kanzentest.Objects(objects[0]),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := widget(map[string]any{"size": int64(1)})
			w.SetNamespace("team")
			ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "team"}}
			// What needs the others comes first here.
			s := kanzentest.Start(t, kanzentest.Install(kanzentest.Objects(w, ns), source))
			d := dynamic.NewForConfigOrDie(s.Config())
			got, err := d.Resource(widgets).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			if err != nil || got.GetKind() != "Widget" {
				t.Errorf("%v, %v", got, err)
			}
			if _, err := d.Resource(widgets).Namespace("default").Create(t.Context(), widget(map[string]any{"size": int64(0)}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("a widget of size 0: %v", err)
			}
			// What is there is updated.
			w.Object["spec"] = map[string]any{"size": int64(7)}
			if err := s.Install(t.Context(), source, kanzentest.Objects(w)); err != nil {
				t.Fatal(err)
			}
			got, err = d.Resource(widgets).Namespace("team").Get(t.Context(), "a", metav1.GetOptions{})
			if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); err != nil || size != 7 {
				t.Errorf("size %d, %v", size, err)
			}
		})
	}
}

func TestInstallSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	for want, source := range map[string]kanzentest.Source{
		"no such file":                kanzentest.Path("testdata/none"),
		"without apiVersion and kind": kanzentest.YAML("a: b"),
		"set its TypeMeta":            kanzentest.Objects(&corev1.Pod{}),
		"no matches for kind":         kanzentest.YAML("apiVersion: none.example.com/v1\nkind: None\nmetadata: {name: a}"),
		"must be plural.group":        kanzentest.YAML(strings.Replace(mustRead(t), "name: widgets.example.com", "name: wrong", 1)),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := s.Install(ctx, source)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) && want != "must be plural.group" {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func mustRead(t *testing.T) string {
	t.Helper()
	text, err := crds.ReadFile("testdata/crds/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// painter is an admission webhook that paints widgets red, and refuses green ones.
func painter(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch {
	case r.URL.Path == "/validate" && strings.Contains(string(review.Request.Object.Raw), "green"):
		answer.Allowed, answer.Result = false, &metav1.Status{Message: "not green"}
	case r.URL.Path == "/mutate" && !strings.Contains(string(review.Request.Object.Raw), "colour"):
		json := admissionv1.PatchTypeJSONPatch
		answer.PatchType, answer.Patch = &json, []byte(`[{"op": "add", "path": "/spec/colour", "value": "red"}]`)
	}
	review.Response = answer
	_ = json.NewEncoder(w).Encode(&review)
}

const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: painter}
webhooks:
- name: mutate.example.com
  clientConfig: {service: {name: painter, namespace: system, path: /mutate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: painter}
webhooks:
- name: validate.example.com
  clientConfig: {service: {name: painter, namespace: system, path: /validate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// TestWebhooks has admission webhooks served by a handler, without a socket.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Webhooks(http.HandlerFunc(painter), kanzentest.Path("testdata/crds"), kanzentest.YAML(webhooks)))
	all := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).Namespace("default")
	if _, err := all.Create(t.Context(), widget(map[string]any{"colour": "green"}), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "not green") {
		t.Errorf("a green widget: %v", err)
	}
	made, err := all.Create(t.Context(), widget(map[string]any{"size": int64(1)}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, _, _ := unstructured.NestedString(made.Object, "spec", "colour"); c != "red" {
		t.Errorf("painted %q", c)
	}
}

// TestConversionWebhook has a CRD's conversion webhook served by a handler.
func TestConversionWebhook(t *testing.T) {
	t.Parallel()
	objects, err := kanzentest.Path("testdata/crds").Read()
	if err != nil {
		t.Fatal(err)
	}
	d := objects[0]
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	old := (&unstructured.Unstructured{Object: versions[0].(map[string]any)}).DeepCopy().Object
	old["name"], old["storage"] = "v1alpha1", false
	if err := unstructured.SetNestedSlice(d.Object, append(versions, any(old)), "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	d.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": map[string]any{"name": "a", "namespace": "b", "path": "/convert"}}}}
	convert := func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			metav1.TypeMeta
			Request struct {
				UID               string                      `json:"uid"`
				DesiredAPIVersion string                      `json:"desiredAPIVersion"`
				Objects           []unstructured.Unstructured `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for n := range review.Request.Objects {
			o := &review.Request.Objects[n]
			o.SetAPIVersion(review.Request.DesiredAPIVersion)
			_ = unstructured.SetNestedField(o.Object, "converted", "spec", "colour")
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
			"response": map[string]any{"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"}}})
	}
	s := kanzentest.Start(t, kanzentest.Webhooks(http.HandlerFunc(convert), kanzentest.Objects(d)))
	c := dynamic.NewForConfigOrDie(s.Config())
	if _, err := c.Resource(widgets).Namespace("default").Create(t.Context(), widget(map[string]any{"colour": "blue"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "widgets"}).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if colour, _, _ := unstructured.NestedString(got.Object, "spec", "colour"); colour != "converted" {
		t.Errorf("colour %q", colour)
	}
}

// TestUsers has each form of a role, and the ways to reach the server as a user.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	for _, c := range []struct {
		role            string
		mayList, mayGet bool // configmaps of default, pods of kube-system
	}{
		{"", false, false},
		{"view", true, true},
		{"view in default", true, false},
		{"get,list configmaps,pods", true, true},
		{"* configmaps in default", true, false},
		{"list deployments.apps", false, false},
	} {
		var roles []string
		if c.role != "" {
			roles = []string{c.role}
		}
		u := s.User(t, "user-"+strings.NewReplacer(" ", "-", "*", "all", ",", "-", ".", "-").Replace(c.role), roles...)
		socket, err := u.SocketConfig()
		if err != nil {
			t.Fatal(err)
		}
		kubeconfig, err := u.Kubeconfig()
		if err != nil {
			t.Fatal(err)
		}
		fromFile, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		for way, cfg := range map[string]*rest.Config{"in process": u.Config(), "socket": socket, "kubeconfig": fromFile} {
			k := client(t, cfg)
			_, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if may := err == nil; may != c.mayList || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%q, %s: list configmaps: %v", c.role, way, err)
			}
			_, err = k.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{})
			if may := err == nil; may != c.mayGet || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%q, %s: list pods: %v", c.role, way, err)
			}
			who, err := k.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil || who.Status.UserInfo.Username != u.Name || strings.Join(who.Status.UserInfo.Groups, ",") != "system:authenticated" {
				t.Errorf("%q, %s: %v, %v", c.role, way, who, err)
			}
		}
	}
	if _, err := s.AddUser(t.Context(), "x", nil, "three words here"); err == nil {
		t.Error("a role of three words")
	}
}

func TestUsersWithoutSocket(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	u, err := s.AddUser(t.Context(), "system:serviceaccount:team:bot", []string{"dev"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Kubeconfig(); err == nil || !strings.Contains(err.Error(), "Listen") {
		t.Errorf("kubeconfig: %v", err)
	}
	who, err := client(t, u.Config()).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || strings.Join(who.Status.UserInfo.Groups, ",") != "dev,system:serviceaccounts,system:serviceaccounts:team,system:authenticated" {
		t.Errorf("%v, %v", who, err)
	}
	anonymous := client(t, s.ConfigFor("system:anonymous"))
	if _, err := anonymous.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous: %v", err)
	}
}

// TestClock lets events and tokens expire.
func TestClock(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]time.Time{"now": {}, "in another year": time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kanzentest.NewClock(begin)
			s := kanzentest.Start(t, kanzentest.WithClock(c))
			k := client(t, s.Config())
			if _, err := k.CoreV1().Events("default").Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
				InvolvedObject: corev1.ObjectReference{Namespace: "default"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			life := int64(3600)
			token, err := k.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			review := func() bool {
				r, err := k.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return r.Status.Authenticated
			}
			if !begin.IsZero() && token.Status.ExpirationTimestamp.Year() != begin.Year() {
				t.Errorf("the token ends %v", token.Status.ExpirationTimestamp)
			}
			if !review() {
				t.Fatal("a new token is refused")
			}
			c.Advance(30 * time.Minute)
			if _, err := k.CoreV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{}); err != nil || !review() {
				t.Errorf("after half an hour: %v", err)
			}
			before := c.Now()
			c.Advance(2 * time.Hour)
			if d := c.Now().Sub(before); d < 2*time.Hour {
				t.Errorf("the clock went on by %v", d)
			}
			within(t, func(ctx context.Context) bool {
				_, err := k.CoreV1().Events("default").Get(ctx, "e", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			})
			if review() {
				t.Error("the token has not expired")
			}
		})
	}
}

// TestRequests asserts on what clients asked.
func TestRequests(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("before any: %v", got)
	}
	k := client(t, s.Config())
	mustCreate(t, k, "a")
	alice := client(t, s.ConfigFor("alice"))
	if _, err := alice.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	got := s.Requests(kanzentest.Match{Resource: "configmaps"})
	if len(got) != 2 || got[0].Verb != "create" || got[0].Code != http.StatusCreated || got[0].User != "kubernetes-admin" ||
		got[1].Verb != "get" || got[1].Code != http.StatusForbidden || got[1].User != "alice" || got[1].Name != "a" || got[1].Namespace != "default" {
		t.Errorf("%v", got)
	}
	for n, m := range map[int]kanzentest.Match{
		0: {Resource: "configmaps.apps"}, 1: {Verbs: "get,list", Resource: "configmaps", User: "alice", Name: "a", Namespace: "default"}, 2: {},
	} {
		if got := s.Requests(m); len(got) != n {
			t.Errorf("%+v: %v", m, got)
		}
	}
	go func() { _, _ = alice.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}) }()
	if r, err := s.AwaitRequest(t.Context(), kanzentest.Match{Resource: "nodes"}); err != nil || r.Code != http.StatusForbidden {
		t.Errorf("%v, %v", r, err)
	}
	// The controllers' own are kept apart.
	if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.AwaitRequest(t.Context(), kanzentest.Match{Internal: true, Verbs: "create", Resource: "serviceaccounts", Namespace: "n"}); err != nil || r.User == "" {
		t.Errorf("%v, %v", r, err)
	}
	quiet := kanzentest.Start(t, kanzentest.NoRecord())
	mustCreate(t, client(t, quiet.Config()), "a")
	if got := quiet.Requests(); got != nil {
		t.Errorf("without a record: %v", got)
	}
}

// TestFaults injects each kind of fault, with and without a record.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]kanzentest.Option{"record": nil, "no record": {kanzentest.NoRecord()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := kanzentest.Start(t, options...)
			k := client(t, s.Config())
			mustCreate(t, k, "a")
			update := func() error {
				c, err := k.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
				if err == nil {
					c.Data = map[string]string{"at": time.Now().String()}
					_, err = k.CoreV1().ConfigMaps("default").Update(t.Context(), c, metav1.UpdateOptions{})
				}
				return err
			}
			second := s.Inject(kanzentest.Conflict("configmaps", 2))
			for n, want := range []bool{false, true, false} {
				if err := update(); apierrors.IsConflict(err) != want || !want && err != nil {
					t.Errorf("update %d: %v", n+1, err)
				}
			}
			if second.Applied() != 1 {
				t.Errorf("applied %d times", second.Applied())
			}
			s.Inject(kanzentest.Conflict("configmaps", 1))
			if err := retry.RetryOnConflict(retry.DefaultRetry, update); err != nil {
				t.Errorf("a client that retries: %v", err)
			}
			// client-go waits and comes again by itself.
			busy := s.Inject(kanzentest.TooManyRequests(kanzentest.Match{Verbs: "list", Resource: "secrets"}, 1, 1))
			if _, err := k.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || busy.Applied() != 1 {
				t.Errorf("429: %v, applied %d times", err, busy.Applied())
			}
			slow := s.Inject(kanzentest.Slow("secrets", 50*time.Millisecond))
			began := time.Now()
			if _, err := k.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil || time.Since(began) < 50*time.Millisecond {
				t.Errorf("a slow list: %v after %v", err, time.Since(began))
			}
			slow.Remove()
			forever := s.Inject(kanzentest.Fault{On: kanzentest.Match{Resource: "nodes", User: "kubernetes-admin"}, Times: -1, Err: apierrors.NewInternalError(errors.New("broken"))})
			for range 3 {
				if _, err := k.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
					t.Errorf("%v", err)
				}
			}
			if forever.Applied() != 3 {
				t.Errorf("applied %d times", forever.Applied())
			}
			if len(options) == 0 {
				if r := s.Requests(kanzentest.Match{Resource: "nodes"}); len(r) != 3 || !r[0].Fault || r[0].Code != http.StatusInternalServerError {
					t.Errorf("%v", r)
				}
			}
			if err := s.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := k.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("after Reset: %v", err)
			}
		})
	}
}

// TestStopEtcd has etcd away and back.
func TestStopEtcd(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	restore := s.StopEtcd()
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "etcdserver: request timed out") {
		t.Errorf("a write without etcd: %v", err)
	}
	restore()
	restore()
	within(t, func(ctx context.Context) bool {
		_, err := k.CoreV1().ConfigMaps("default").Create(ctx, configMap("a"), metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
	within(t, func(ctx context.Context) bool {
		_, err := k.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
		return err == nil
	})
}

// follow starts an informer of ConfigMaps and returns its store.
func follow(t *testing.T, k *kubernetes.Clientset) cache.Store {
	t.Helper()
	store, c := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(k.CoreV1().RESTClient(), "configmaps", "default", fields.Everything()),
		ObjectType:    &corev1.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	go c.Run(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), c.HasSynced) {
		t.Fatal("no sync")
	}
	return store
}

// TestReset goes back to the beginning, with an informer on: after each reset it has what the server has.
func TestReset(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Install(kanzentest.Objects(configMap("installed"))))
	k := client(t, s.Config())
	names := func() []string {
		all, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range all.Items {
			out = append(out, c.Name)
		}
		return out
	}
	first := names()
	store := follow(t, k)
	for range 5 {
		mustCreate(t, k, "a")
		mustCreate(t, k, "b")
		if err := k.CoreV1().ConfigMaps("default").Delete(t.Context(), "installed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Install(t.Context(), kanzentest.Path("testdata/crds")); err != nil {
			t.Fatal(err)
		}
		u := s.User(t, "alice", "view")
		if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, func(context.Context) bool { _, ok, _ := store.GetByKey("default/b"); return ok })
		if err := s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := names(); strings.Join(got, " ") != strings.Join(first, " ") {
			t.Errorf("after the reset: %v, at first %v", got, first)
		}
		if _, err := k.CoreV1().Namespaces().Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace: %v", err)
		}
		if _, err := client(t, u.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("alice: %v", err)
		}
		if _, err := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the CRD: %v", err)
		}
		within(t, func(context.Context) bool {
			_, a, _ := store.GetByKey("default/a")
			_, installed, _ := store.GetByKey("default/installed")
			return !a && installed && len(store.ListKeys()) == len(first)
		})
	}
	// The history from before a reset is gone.
	_, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a list of the past: %v", err)
	}
	if err := kanzentest.Start(t, kanzentest.Etcd()).Reset(t.Context()); err == nil {
		t.Error("Reset of an etcd")
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	var of []string
	for range 2 {
		t.Run("A Sub/Test with ünusual characters and a name that is longer than most", func(t *testing.T) {
			ns := s.Namespace(t)
			of = append(of, ns)
			if _, err := k.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	if of[0] == of[1] || !strings.HasPrefix(of[0], "testnamespace-a-sub-test-with") {
		t.Errorf("%q", of)
	}
	for _, ns := range of {
		within(t, func(ctx context.Context) bool {
			_, err := k.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// TestEndWatches ends the watches of one resource.
func TestEndWatches(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	ended, err := k.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	stays, err := k.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stays.Stop()
	s.EndWatches(kanzentest.Match{Resource: "configmaps"})
	for range ended.ResultChan() { //nolint:revive // until it is closed
	}
	if _, err := k.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-stays.ResultChan(); e.Object.(*corev1.Secret).Name != "s" {
		t.Errorf("%v", e)
	}
	s.Inject(kanzentest.Expired("configmaps"))
	if _, err := k.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("an expired watch: %v", err)
	}
}

func TestControllersAndFlags(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Controllers(), kanzentest.Flags("--event-ttl=5m", "--disable-admission-plugins=ServiceAccount"))
	k := client(t, s.Config())
	if _, err := k.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without controllers there is a service account: %v", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("without the plugin: %v", err)
	}
	for _, wrong := range []kanzentest.Option{kanzentest.Flags("--none"), kanzentest.Controllers("none"), func(o *kanzentest.Options) { o.Listen = "nowhere" }} {
		if s, err := kanzentest.New(t.Context(), wrong); err == nil {
			t.Errorf("%v", s.Stop())
		}
	}
}

// TestOwnIdentities has servers that begin with the same objects, but are different clusters.
func TestOwnIdentities(t *testing.T) {
	t.Parallel()
	a, b := client(t, kanzentest.Start(t).Config()), client(t, kanzentest.Start(t).Config())
	uid := func(k *kubernetes.Clientset) string {
		ns, err := k.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(ns.UID)
	}
	if uid(a) == uid(b) {
		t.Error("two clusters are one")
	}
	token, err := a.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[*kubernetes.Clientset]bool{a: true, b: false} {
		r, err := k.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
		if err != nil || r.Status.Authenticated != want {
			t.Errorf("a token of the first: %v, %v", r.Status, err)
		}
	}
}

// TestFailures runs a failing test in another process and reads what it leaves.
func TestFailures(t *testing.T) {
	t.Parallel()
	if os.Getenv("KANZENTEST_TO_FAIL") != "" {
		s := kanzentest.Start(t)
		k := client(t, s.Config())
		mustCreate(t, k, "found")
		if _, err := k.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Fatal("as it should")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailures$")
	cmd.Env = append(os.Environ(), "KANZENTEST_TO_FAIL=1", "KANZENTEST_FAILURES="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the requests and objects of the server are in "+filepath.Join(dir, "TestFailures")) {
		t.Fatalf("%v\n%s", err, out)
	}
	requests, err := os.ReadFile(filepath.Join(dir, "TestFailures", "requests.jsonl"))
	if err != nil || !strings.Contains(string(requests), `"Resource":"secrets"`) {
		t.Errorf("%s, %v", requests, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "TestFailures/objects/configmaps/default_found.yaml")); err != nil || !strings.Contains(string(text), "name: found") {
		t.Errorf("%s, %v", text, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "TestFailures/objects/secrets/default_s.yaml"))
	if err != nil || strings.Contains(string(text), "aHVudGVyMg") || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s, %v", text, err)
	}
}
