package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// kinds serves a few kinds from a log in memory: deployments in two versions, with a status and a scale; pods, which are
// deleted gracefully and have subresources of other kinds; widgets, which have no Go type; and virtual resources.
type kinds struct {
	// admits is called with each write that is validated; nil: nothing is. It may be called by several goroutines.
	admits func(*admission.Attributes)
	t      *testing.T
	db     *memory.DB
	store  *store.Cluster
	clock  tickerClock
	eps    map[schema.GroupVersionResource]*Endpoint
	// mayCreate is the answer of authorization to a create by another verb.
	mayCreate error
	// connected is called for each connection.
	connected func(sub *Subresource)
}

// tickerClock signals when a goroutine begins to wait for a ticker.
type tickerClock struct {
	*clocktesting.FakeClock
	made chan struct{}
}

func (c tickerClock) NewTicker(d time.Duration) clock.Ticker {
	defer func() {
		select {
		case c.made <- struct{}{}:
		default:
		}
	}()
	return c.FakeClock.NewTicker(d)
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// defaultPod sets the one default that pods have here.
func defaultPod(obj Object) {
	spec := &obj.(*corev1.Pod).Spec
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways)
}

// observed admits everything.
type observed struct{ *kinds }

func (observed) Admit(context.Context, *admission.Attributes) error { return nil }

func (o observed) Validate(_ context.Context, a *admission.Attributes) error {
	if o.admits != nil {
		o.admits(a)
	}
	return nil
}

// newKinds serves the kinds, and further ones.
func newKinds(t *testing.T, further ...*Resource) *kinds {
	t.Helper()
	x := &kinds{t: t, db: memory.New(clock.RealClock{}), clock: tickerClock{clocktesting.NewFakeClock(epoch), make(chan struct{}, 1)}, eps: map[schema.GroupVersionResource]*Endpoint{}}
	x.store = store.NewCluster(x.db, store.Options{Prefix: "/registry/", EncodingBytes: 1 << 20})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = x.store.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := x.db.Close(); err != nil {
			t.Error(err)
		}
	})
	var made atomic.Int64
	next := func(format string) func() string {
		return func() string { return fmt.Sprintf(format, made.Add(1)) }
	}
	e := New(Config{
		Store: x.store, Admit: observed{x}, Clock: x.clock, MinWatch: 5 * time.Second, MaxBody: 1 << 20, Types: openapi.NewTypeConverter(),
		NewUID: next("uid-%d"), NameSuffix: next("s%d"), Log: slog.New(slog.DiscardHandler),
		Authorize: func(context.Context, *request.Info) error { return x.mayCreate },
		Connect: func(w http.ResponseWriter, _ *http.Request, sub *Subresource, _ runtime.Object) error {
			x.connected(sub)
			_, err := w.Write([]byte("{}"))
			return err
		},
	})
	for _, r := range append(further, deployments(), pods(), widgets(), reviews(), computed()) {
		eps, err := e.Endpoints(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, ep := range eps {
			x.eps[ep.GVR] = ep
		}
	}
	return x
}

// viaJSON converts between versions that differ in their Go types only.
func viaJSON(to func() Object) func(context.Context, Object) (Object, error) {
	return func(_ context.Context, from Object) (Object, error) {
		b, err := json.Marshal(from)
		if err != nil {
			return nil, err
		}
		obj := to()
		return obj, json.Unmarshal(b, obj)
	}
}

// deployments may not have negative replicas, and cause a warning if they are paused.
func deployments() *Resource {
	hub := func() Object { return &appsv1.Deployment{} }
	old := func() Object { return &appsv1beta1.Deployment{} }
	validate := func(d *appsv1.Deployment) field.ErrorList {
		if r := d.Spec.Replicas; r != nil && *r < 0 {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), *r, "must be greater than or equal to 0")}
		}
		return nil
	}
	rules := Typed[*appsv1.Deployment]{
		PrepareCreate: func(_ context.Context, d *appsv1.Deployment) { d.Generation, d.Status = 1, appsv1.DeploymentStatus{} },
		Validate:      func(_ context.Context, d *appsv1.Deployment) field.ErrorList { return validate(d) },
		PrepareUpdate: func(_ context.Context, d, old *appsv1.Deployment) {
			d.Status = old.Status
			if ptr.Deref(d.Spec.Replicas, 1) != ptr.Deref(old.Spec.Replicas, 1) || d.Spec.Paused != old.Spec.Paused {
				d.Generation++
			}
		},
		ValidateUpdate: func(_ context.Context, d, _ *appsv1.Deployment) field.ErrorList { return validate(d) },
		Warn: func(_ context.Context, d, _ *appsv1.Deployment) []string {
			if d.Spec.Paused {
				return []string{"it is paused"}
			}
			return nil
		},
		Reset: fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	}.Rules()
	status := Typed[*appsv1.Deployment]{
		PrepareUpdate: func(_ context.Context, d, old *appsv1.Deployment) { d.Spec, d.Labels = old.Spec, old.Labels },
		Reset:         fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels")),
	}.Rules()
	return &Resource{
		Plural: "deployments", Singular: "deployment", Kind: "Deployment", Namespaced: true, Prefix: "deployments", Hub: appsv1.SchemeGroupVersion,
		Versions: []*Version{
			{GroupVersion: appsv1.SchemeGroupVersion, New: hub, NewList: func() runtime.Object { return &appsv1.DeploymentList{} },
				Default: func(obj Object) {
					if d := obj.(*appsv1.Deployment); d.Spec.Replicas == nil {
						d.Spec.Replicas = ptr.To[int32](1)
					}
				}},
			{GroupVersion: appsv1beta1.SchemeGroupVersion, New: old, NewList: func() runtime.Object { return &appsv1beta1.DeploymentList{} },
				ToHub: viaJSON(hub), FromHub: viaJSON(old), Deprecation: &Deprecation{Warning: "apps/v1beta1 Deployment is deprecated"}},
		},
		Rules: rules,
		Types: func() (fieldmanager.Types, error) { return deduced{managedfields.NewDeducedTypeConverter()}, nil }, // has all versions
		Fields: func(obj Object) fields.Set {
			return fields.Set{"spec.paused": strconv.FormatBool(obj.(*appsv1.Deployment).Spec.Paused)}
		},
		Table: &Table{
			Columns: []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name"}, {Name: "Replicas", Type: "integer"}},
			Row: func(obj Object) ([]any, []metav1.TableRowCondition) {
				return []any{obj.GetName(), int64(ptr.Deref(obj.(*appsv1.Deployment).Spec.Replicas, 1))}, nil
			},
		},
		Subresources: []*Subresource{
			{Name: "status", Verbs: []string{"get", "patch", "update"}, Rules: &status},
			{Name: "scale", Verbs: []string{"get", "patch", "update"}, Kind: scaleGVK, Scale: &Scale{
				Get: func(obj Object) (int32, int32, string, error) {
					d := obj.(*appsv1.Deployment)
					return ptr.Deref(d.Spec.Replicas, 1), d.Status.Replicas, "app=x", nil
				},
				Set:  func(obj Object, n int32) error { obj.(*appsv1.Deployment).Spec.Replicas = &n; return nil },
				Path: fieldpath.MakePathOrDie("spec", "replicas"),
			}},
		},
	}
}

// pods are deleted within 30 seconds, are bound by one subresource and connected to by another.
func pods() *Resource {
	rules := Typed[*corev1.Pod]{
		Grace: func(_ context.Context, _ *corev1.Pod, o *metav1.DeleteOptions) int64 {
			return ptr.Deref(o.GracePeriodSeconds, 30)
		},
		CheckDelete: func(_ context.Context, p *corev1.Pod) error {
			if p.Labels["keep"] != "" {
				return apierrors.NewForbidden(corev1.Resource("pods"), p.Name, errors.New("it is kept"))
			}
			return nil
		},
		WarnDelete: func(*metav1.DeleteOptions) string { return "pods are mortal" },
	}.Rules()
	return &Resource{
		Plural: "pods", Kind: "Pod", Namespaced: true, Prefix: "pods", Hub: corev1.SchemeGroupVersion, Rules: rules, ReturnDeleted: true,
		Versions: []*Version{{GroupVersion: corev1.SchemeGroupVersion, New: func() Object { return &corev1.Pod{} }, NewList: func() runtime.Object { return &corev1.PodList{} }, Default: defaultPod}},
		Subresources: []*Subresource{
			{Name: "binding", Verbs: []string{"create"}, Kind: schema.GroupVersionKind{Kind: "Binding"}, Alike: []schema.GroupVersion{{Version: "v1beta1"}}, New: func() Object { return &corev1.Binding{} },
				Create: func(ctx context.Context, name string, body Object, check Check, _ *metav1.CreateOptions) (runtime.Object, error) {
					if err := check(ctx, body); err != nil {
						return nil, err
					}
					if name == "gone" {
						return nil, store.ErrNotFound
					}
					if body.(*corev1.Binding).Target.Name == "" {
						return body, nil
					}
					return &metav1.Status{Status: metav1.StatusSuccess}, nil
				}},
			{Name: "exec", Verbs: []string{"create", "get"}, Kind: schema.GroupVersionKind{Kind: "PodExecOptions"}, Connect: "exec", MustCreate: true,
				Options: func(q url.Values, _ string) (runtime.Object, error) {
					if q.Get("command") == "" {
						return nil, errors.New("you must specify a command")
					}
					return &corev1.PodExecOptions{Command: q["command"]}, nil
				}},
		},
	}
}

// widgets are stored as JSON and may have a spec.replicas, which their scale reads and writes.
func widgets() *Resource {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	return &Resource{
		Plural: "widgets", Kind: "Widget", Namespaced: true, Prefix: "example.com/widgets", Hub: gv, Codec: &countingCodec{},
		Types:    func() (fieldmanager.Types, error) { return deduced{managedfields.NewDeducedTypeConverter()}, nil },
		Versions: []*Version{{GroupVersion: gv, New: func() Object { return &unstructured.Unstructured{Object: map[string]any{}} }}},
		Rules:    Rules{CreateOnUpdate: true, NeedsResourceVersion: true},
		Subresources: []*Subresource{{Name: "scale", Verbs: []string{"get", "patch", "update"}, Kind: scaleGVK, Scale: &Scale{
			Get: func(obj Object) (int32, int32, string, error) {
				n, found, err := unstructured.NestedInt64(obj.(*unstructured.Unstructured).Object, "spec", "replicas")
				if err == nil && !found {
					err = NoReplicas(".spec.replicas")
				}
				return int32(n), 0, "", err
			},
			Set: func(obj Object, n int32) error {
				return unstructured.SetNestedField(obj.(*unstructured.Unstructured).Object, int64(n), "spec", "replicas")
			},
			Path: fieldpath.MakePathOrDie("spec", "replicas"),
		}}},
	}
}

// reviews are answered and not stored.
func reviews() *Resource {
	gv := authorizationv1.SchemeGroupVersion
	return &Resource{
		Plural: "subjectaccessreviews", Kind: "SubjectAccessReview", Hub: gv, Verbs: []string{"create"},
		Versions: []*Version{{GroupVersion: gv, New: func() Object { return &authorizationv1.SubjectAccessReview{} }}},
		Create: func(ctx context.Context, obj Object, check Check, _ *metav1.CreateOptions) (Object, error) {
			if err := check(ctx, obj); err != nil {
				return nil, err
			}
			r := obj.(*authorizationv1.SubjectAccessReview)
			switch r.Spec.User {
			case "":
				return nil, apierrors.NewBadRequest("no user")
			case "nobody":
				return nil, nil
			}
			r.Status.Allowed = r.Spec.User == "alice"
			return r, nil
		},
	}
}

// computed are made for each request.
func computed() *Resource {
	gv := corev1.SchemeGroupVersion
	one := func(name string) *corev1.ComponentStatus {
		return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": name}}}
	}
	return &Resource{
		Plural: "componentstatuses", Kind: "ComponentStatus", Hub: gv, Verbs: []string{"get", "list"},
		Versions: []*Version{{GroupVersion: gv, New: func() Object { return &corev1.ComponentStatus{} }, NewList: func() runtime.Object { return &corev1.ComponentStatusList{} }}},
		Get: func(_ context.Context, name string) (Object, error) {
			if name != "etcd" && name != "scheduler" {
				return nil, apierrors.NewNotFound(corev1.Resource("componentstatuses"), name)
			}
			return one(name), nil
		},
		List: func(_ context.Context, p Page) (iter.Seq[Object], error) {
			return Listed([]Object{one("etcd"), one("scheduler")}, p), nil
		},
	}
}

// contentTypes are the content types of patches, by the names that the tests use.
var contentTypes = map[string]string{
	"merge": "application/merge-patch+json", "json": "application/json-patch+json", "apply": "application/apply-patch+yaml",
	"strategic": "application/strategic-merge-patch+json",
}

// request makes a request of "METHOD PATH" or "PATCH/KIND PATH", with headers "Name: value".
func (x *kinds) request(ctx context.Context, what, body string, headers ...string) *http.Request {
	method, path, _ := strings.Cut(what, " ")
	method, patch, _ := strings.Cut(method, "/")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if patch != "" {
		r.Header.Set("Content-Type", contentTypes[patch])
	}
	r.Header.Set("User-Agent", "tester/1")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	i, err := request.NewInfo(r)
	if err != nil {
		x.t.Fatal(err)
	}
	return r.WithContext(request.WithInfo(ctx, i))
}

// do serves a request.
func (x *kinds) do(what, body string, headers ...string) *httptest.ResponseRecorder {
	x.t.Helper()
	w := httptest.NewRecorder()
	x.serve(w, x.request(x.t.Context(), what, body, headers...))
	return w
}

func (x *kinds) serve(w http.ResponseWriter, r *http.Request) {
	x.t.Helper()
	i := request.InfoFrom(r.Context())
	ep := x.eps[schema.GroupVersionResource{Group: i.Group, Version: i.Version, Resource: i.Resource}]
	if ep == nil {
		x.t.Fatalf("nothing serves %s", r.URL.Path)
	}
	ep.ServeHTTP(w, r)
}

// expect serves a request and compares the answer in JSON with want: a code, and then any number of PATH=VALUE.
func (x *kinds) expect(what, body, want string, headers ...string) map[string]any {
	x.t.Helper()
	w := x.do(what, body, headers...)
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		x.t.Fatalf("%s: %d %v: %s", what, w.Code, err, w.Body)
	}
	terms := strings.Fields(want)
	if code := strconv.Itoa(w.Code); code != terms[0] {
		x.t.Errorf("%s: got %s, want %s: %s", what, code, want, w.Body)
		return doc
	}
	for _, term := range terms[1:] {
		path, value, _ := strings.Cut(term, "=")
		if got := at(doc, path); got != value {
			x.t.Errorf("%s: %s is %q, want %q in %s", what, path, got, value, w.Body)
		}
	}
	return doc
}

// at finds the value at a path "a.b.0.c" of a document, "" where there is none. "#" is the length of a list.
func at(doc any, path string) string {
	key, rest, more := strings.Cut(path, ".")
	var v any
	switch d := doc.(type) {
	case map[string]any:
		v = d[key]
	case []any:
		if key == "#" {
			return strconv.Itoa(len(d))
		}
		if n, err := strconv.Atoi(key); err == nil && n < len(d) {
			v = d[n]
		}
	}
	if more {
		return at(v, rest)
	}
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, fmt.Sprint(e))
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(v)
}

const (
	deploys = "/apis/apps/v1/namespaces/ns/deployments"
	podsAt  = "/api/v1/namespaces/ns/pods"
	widgAt  = "/apis/example.com/v1/namespaces/ns/widgets"
)

func deployment(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q}%s}`, name, rest)
}
