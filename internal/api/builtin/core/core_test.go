package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// fakeObjects is a store of objects by "resource/namespace/name".
type fakeObjects map[string]engine.Object

func (f fakeObjects) key(r schema.GroupResource, namespace, name string) string {
	return r.Resource + "/" + namespace + "/" + name
}

func (f fakeObjects) Get(_ context.Context, r schema.GroupResource, namespace, name string) (engine.Object, error) {
	if obj, found := f[f.key(r, namespace, name)]; found {
		return obj.DeepCopyObject().(engine.Object), nil
	}
	return nil, apierrors.NewNotFound(r, name)
}

func (f fakeObjects) List(_ context.Context, r schema.GroupResource, namespace string) ([]engine.Object, error) {
	var out []engine.Object
	for _, k := range slices.Sorted(maps.Keys(f)) {
		if strings.HasPrefix(k, r.Resource+"/"+namespace+"/") {
			out = append(out, f[k])
		}
	}
	return out, nil
}

func (f fakeObjects) Update(ctx context.Context, r schema.GroupResource, w request.Which, dryRun bool, change func(engine.Object) error) (engine.Object, error) {
	obj, err := f.Get(ctx, r, w.Namespace(), w.Name())
	if err != nil {
		return nil, err
	}
	if w.OtherUID(obj) || w.Changed(obj) {
		return nil, apierrors.NewConflict(r, w.Name(), errors.New("it is not what was seen"))
	}
	if err := change(obj); err != nil {
		return nil, err
	}
	if !dryRun {
		obj.SetResourceVersion(obj.GetResourceVersion() + "1")
		f[f.key(r, w.Namespace(), w.Name())] = obj
	}
	return obj, nil
}

func (f fakeObjects) Delete(_ context.Context, r schema.GroupResource, w request.Which, o *metav1.DeleteOptions) error {
	k, name := f.key(r, w.Namespace(), w.Name()), w.Name()
	obj, found := f[k]
	if !found {
		return apierrors.NewNotFound(r, name)
	}
	o = w.Delete(o)
	if w.OtherUID(obj) {
		return apierrors.NewConflict(r, name, errors.New("it is not what was seen"))
	}
	if p := o.Preconditions; p != nil && p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(r, name, fmt.Errorf("precondition"))
	}
	if len(o.DryRun) == 0 {
		delete(f, k)
	}
	return nil
}

// fakeRange allocates addresses and ports and records their owners.
type fakeRange struct {
	families []corev1.IPFamily
	taken    map[string]bool
	next     int
}

func (f *fakeRange) Families() []corev1.IPFamily { return f.families }

func (f *fakeRange) take(name string, dryRun bool) error {
	if f.taken[name] {
		return fmt.Errorf("%s is taken", name)
	}
	if !dryRun {
		f.taken[name] = true
	}
	return nil
}

type fakeIPs struct{ *fakeRange }

func (f fakeIPs) Allocate(_ context.Context, _ *corev1.Service, family corev1.IPFamily, ip netip.Addr, dryRun bool) (netip.Addr, error) {
	if !ip.IsValid() {
		f.next++
		ip = netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", f.next))
		if family == corev1.IPv6Protocol {
			ip = netip.MustParseAddr(fmt.Sprintf("fd00::%d", f.next))
		}
	}
	return ip, f.take(ip.String(), dryRun)
}

func (f fakeIPs) Release(_ context.Context, _ *corev1.Service, ip netip.Addr) error {
	delete(f.taken, ip.String())
	return nil
}

type fakePorts struct{ *fakeRange }

func (f fakePorts) Allocate(_ context.Context, _ *corev1.Service, port int32, dryRun bool) (int32, error) {
	if port == 0 {
		f.next++
		port = 30000 + int32(f.next)
	}
	return port, f.take(fmt.Sprint(port), dryRun)
}

func (f fakePorts) Release(_ context.Context, _ *corev1.Service, port int32) error {
	delete(f.taken, fmt.Sprint(port))
	return nil
}

func newDeps(families ...corev1.IPFamily) (Deps, *fakeRange, fakeObjects) {
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	taken, objects := &fakeRange{families: families, taken: map[string]bool{}}, fakeObjects{}
	return Deps{
		Now:       func() time.Time { return now },
		NewUID:    func() types.UID { return "uid" },
		Objects:   objects,
		Addresses: fakeIPs{taken},
		NodePorts: fakePorts{taken},
	}, taken, objects
}

func resourceOf(t *testing.T, d Deps, plural string) *engine.Resource {
	t.Helper()
	for _, r := range Resources(d) {
		if r.Plural == plural {
			return r
		}
	}
	t.Fatalf("no resource %s", plural)
	return nil
}

// parse decodes an object as a client sends it, and sets defaults.
func parse[T engine.Object](t *testing.T, r *engine.Resource, text string) T {
	t.Helper()
	obj := r.Versions[0].New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if f := r.Versions[0].Default; f != nil {
		f(obj)
	}
	return obj.(T)
}

// faults formats the errors as "path Reason", sorted.
func faults(errs field.ErrorList) []string {
	out := []string{}
	for _, e := range errs {
		out = append(out, e.Field+" "+strings.TrimPrefix(string(e.Type), "FieldValue"))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func causes(err error) []string {
	var errs field.ErrorList
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Details != nil {
		for _, c := range s.Status().Details.Causes {
			errs = append(errs, &field.Error{Type: field.ErrorType(c.Type), Field: c.Field})
		}
	}
	return faults(errs)
}

func TestDiscovery(t *testing.T) {
	text, err := os.ReadFile("testdata/discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		ResponseKind     struct{ Group, Version, Kind string }
		Scope            string
		SingularResource string
		ShortNames       []string
		Categories       []string
		Verbs            []string
		Subresources     []struct {
			Subresource  string
			ResponseKind struct{ Group, Version, Kind string }
			Verbs        []string
		}
	}
	want := map[string]entry{}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	d, _, _ := newDeps()
	for _, r := range Resources(d) {
		var got entry
		got.ResponseKind.Kind, got.SingularResource, got.ShortNames, got.Categories = r.Kind, r.Singular, r.ShortNames, r.Categories
		got.Scope, got.Verbs = "Cluster", r.Verbs
		if r.Namespaced {
			got.Scope = "Namespaced"
		}
		if r.Verbs == nil {
			got.Verbs = all
		}
		w := want[r.Plural]
		subs := w.Subresources
		w.Subresources = nil
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s: got %+v, want %+v", r.Plural, got, w)
		}
		if len(subs) != len(r.Subresources) {
			t.Errorf("%s: got %d subresources, want %d", r.Plural, len(r.Subresources), len(subs))
			continue
		}
		for i, s := range r.Subresources {
			kind := s.Kind.Kind
			if kind == "" {
				kind = r.Kind
			}
			if s.Name != subs[i].Subresource || !slices.Equal(s.Verbs, subs[i].Verbs) || kind != subs[i].ResponseKind.Kind || s.Kind.Group != subs[i].ResponseKind.Group {
				t.Errorf("%s/%s: got %v %v, want %+v", r.Plural, s.Name, s.Verbs, s.Kind, subs[i])
			}
		}
		delete(want, r.Plural)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", slices.Sorted(maps.Keys(want)))
	}
}

func TestStoragePrefixes(t *testing.T) {
	d, _, _ := newDeps()
	for plural, want := range map[string]string{
		"services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions",
		"replicationcontrollers": "controllers", "pods": "pods", "bindings": "",
	} {
		if got := resourceOf(t, d, plural).Prefix; got != want {
			t.Errorf("%s: got %q, want %q", plural, got, want)
		}
	}
}

func TestEventVersions(t *testing.T) {
	d, _, _ := newDeps()
	r := resourceOf(t, d, "events")
	in := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"},
		Regarding:  corev1.ObjectReference{Kind: "Pod", Name: "p"}, Note: "n", Reason: "r", Type: "Normal", Action: "a",
		ReportingController: "c", ReportingInstance: "i", EventTime: metav1.MicroTime{Time: now},
		Series:           &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.MicroTime{Time: now}},
		DeprecatedSource: corev1.EventSource{Component: "s"}, DeprecatedCount: 3,
	}
	hub, err := r.Versions[1].ToHub(t.Context(), in.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Fields(hub); f["involvedObject.name"] != "p" || f["source"] != "s" || f["reportingComponent"] != "c" {
		t.Errorf("fields: %v", f)
	}
	out, err := r.Versions[1].FromHub(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, want %+v", out, in)
	}

	ctx := request.WithInfo(context.Background(), &request.Info{Group: "events.k8s.io", Version: "v1"})
	want := []string{"count Invalid", "source Invalid"}
	if got := faults(r.Rules.Validate(ctx, hub)); !slices.Equal(got, want) {
		t.Errorf("as events.k8s.io: got %q, want %q", got, want)
	}
	ctx = request.WithInfo(context.Background(), &request.Info{Version: "v1"})
	if errs := r.Rules.Validate(ctx, hub); len(errs) > 0 {
		t.Errorf("as core: %v", errs)
	}
}

func TestNamespaceLife(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "namespaces")
	n := parse[*corev1.Namespace](t, r, `{metadata: {name: a}, spec: {finalizers: [example.com/x]}, status: {phase: Terminating}}`)
	r.Rules.PrepareCreate(ctx, n)
	if n.Status.Phase != corev1.NamespaceActive || len(n.Spec.Finalizers) != 2 || n.Labels[corev1.LabelMetadataName] != "a" {
		t.Errorf("new namespace: %+v", n)
	}
	if !r.Rules.Held(n) {
		t.Error("a namespace with finalizers may go")
	}
	changed := n.DeepCopy()
	changed.Spec.Finalizers = nil
	r.Rules.PrepareUpdate(ctx, changed, n)
	if len(changed.Spec.Finalizers) != 2 {
		t.Error("an update took finalizers away")
	}
	finalize := r.Subresources[0].Rules
	changed.Spec.Finalizers = nil
	finalize.PrepareUpdate(ctx, changed, n)
	if !r.Rules.Held(changed) {
		t.Error("the first deletion of a namespace without finalizers removes it")
	}
	changed.DeletionTimestamp = &metav1.Time{Time: now}
	if r.Rules.Held(changed) {
		t.Error("finalize did not take the finalizers away")
	}
	n.DeletionTimestamp = &metav1.Time{Time: now}
	want := []string{"status.Phase Invalid"}
	if got := faults(r.Subresources[1].Rules.ValidateUpdate(ctx, n, n)); !slices.Contains(got, want[0]) {
		t.Errorf("active though deleted: got %q", got)
	}
}

func TestImmutableData(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "configmaps")
	old := parse[*corev1.ConfigMap](t, r, `{metadata: {name: a, namespace: b, resourceVersion: "1"}, data: {k: v}, immutable: true}`)
	c := parse[*corev1.ConfigMap](t, r, `{metadata: {name: a, namespace: b, resourceVersion: "1"}, data: {k: w}, binaryData: {k: eA==}}`)
	want := []string{"binaryData Forbidden", "data Forbidden", "data[k] Invalid", "immutable Forbidden"}
	if got := faults(r.Rules.ValidateUpdate(ctx, c, old)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSecretTypes(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "secrets")
	tests := []struct {
		text string
		want []string
	}{
		{`{stringData: {a: b}}`, nil},
		{`{type: kubernetes.io/tls}`, []string{"data[tls.crt] Required", "data[tls.key] Required"}},
		{`{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: "{"}}`, []string{"data[.dockerconfigjson] Invalid"}},
		{`{type: kubernetes.io/basic-auth}`, []string{"data[password] Required", "data[username] Required"}},
		{`{type: kubernetes.io/basic-auth, stringData: {username: u}}`, nil},
		{`{type: kubernetes.io/ssh-auth, stringData: {ssh-privatekey: ""}}`, []string{"data[ssh-privatekey] Required"}},
		{`{type: kubernetes.io/service-account-token}`, []string{"metadata.annotations[kubernetes.io/service-account.name] Required"}},
		{`{data: {a/b: eA==}}`, []string{"data[a/b] Invalid"}},
	}
	for _, tt := range tests {
		s := parse[*corev1.Secret](t, r, tt.text)
		s.Name, s.Namespace = "a", "b"
		if got := faults(r.Rules.Validate(ctx, s)); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
		if s.StringData != nil {
			t.Errorf("%s: stringData is kept", tt.text)
		}
	}
}

func TestLimitRange(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "limitranges")
	l := parse[*corev1.LimitRange](t, r, `{metadata: {namespace: b}, spec: {limits: [{type: Container, max: {cpu: 2}, min: {cpu: 1, memory: 1Gi}}]}}`)
	r.Rules.PrepareCreate(ctx, l)
	if l.Name != "uid" || l.Spec.Limits[0].Default.Cpu().String() != "2" || l.Spec.Limits[0].DefaultRequest.Memory().String() != "1Gi" {
		t.Errorf("defaults: %+v", l)
	}
	l = parse[*corev1.LimitRange](t, r, `{metadata: {name: a, namespace: b}, spec: {limits: [
		{type: Container, max: {cpu: 1}, min: {cpu: 2}, maxLimitRequestRatio: {cpu: 0.5}},
		{type: Pod, default: {cpu: 1}, max: {x: 1}}, {type: PersistentVolumeClaim}, {type: Pod}]}}`)
	want := []string{
		"spec.limits[0].default[cpu] Invalid", "spec.limits[0].maxLimitRequestRatio[cpu] Invalid", "spec.limits[0].min[cpu] Invalid",
		"spec.limits[0].defaultRequest[cpu] Invalid", "spec.limits[1].default Forbidden", "spec.limits[1].max[x] Invalid",
		"spec.limits[2].limits Required", "spec.limits[3].type Duplicate",
	}
	slices.Sort(want)
	if got := faults(r.Rules.Validate(ctx, l)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClaimUpdate(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "persistentvolumeclaims")
	const meta = `metadata: {name: a, namespace: b, resourceVersion: "1"}`
	const modes = `accessModes: [ReadWriteOnce]`
	tests := []struct {
		name, old, spec string
		want            []string
	}{
		{"grow when bound", `{` + meta + `, spec: {` + modes + `, resources: {requests: {storage: 1Gi}}}, status: {phase: Bound}}`,
			`{` + modes + `, resources: {requests: {storage: 2Gi}}}`, nil},
		{"grow when pending", `{` + meta + `, spec: {` + modes + `, resources: {requests: {storage: 1Gi}}}}`,
			`{` + modes + `, resources: {requests: {storage: 2Gi}}}`, []string{"spec Forbidden"}},
		{"shrink below capacity", `{` + meta + `, spec: {` + modes + `, resources: {requests: {storage: 3Gi}}}, status: {phase: Bound, capacity: {storage: 2Gi}}}`,
			`{` + modes + `, resources: {requests: {storage: 2Gi}}}`, []string{"spec.resources.requests.storage Forbidden"}},
		{"bind", `{` + meta + `, spec: {` + modes + `, resources: {requests: {storage: 1Gi}}}}`,
			`{volumeName: v, ` + modes + `, resources: {requests: {storage: 1Gi}}}`, nil},
		{"late class", `{` + meta + `, spec: {` + modes + `, resources: {requests: {storage: 1Gi}}}}`,
			`{storageClassName: c, ` + modes + `, resources: {requests: {storage: 1Gi}}}`, nil},
		{"data source of an older claim", `{` + meta + `, spec: {dataSource: {kind: PersistentVolumeClaim, name: x}, ` + modes + `, resources: {requests: {storage: 1Gi}}}}`,
			`{dataSource: {kind: PersistentVolumeClaim, name: x}, ` + modes + `, resources: {requests: {storage: 1Gi}}}`, nil},
	}
	for _, tt := range tests {
		old := parse[*corev1.PersistentVolumeClaim](t, r, tt.old)
		c := parse[*corev1.PersistentVolumeClaim](t, r, `{`+meta+`, spec: `+tt.spec+`}`)
		r.Rules.PrepareUpdate(ctx, c, old)
		if got := faults(r.Rules.ValidateUpdate(ctx, c, old)); !slices.Equal(got, append([]string{}, tt.want...)) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReplicationController(t *testing.T) {
	ctx := context.Background()
	d, _, _ := newDeps()
	r := resourceOf(t, d, "replicationcontrollers")
	c := parse[*corev1.ReplicationController](t, r, `{metadata: {name: a, namespace: b}, spec: {template: {metadata: {labels: {x: z}}, spec: {containers: [{name: a, image: a}]}}}}`)
	if *c.Spec.Replicas != 1 || c.Spec.Selector["x"] != "z" || c.Labels["x"] != "z" {
		t.Errorf("defaults: %+v", c)
	}
	c.Labels["other"] = "z"
	if c.Spec.Template.Labels["other"] != "" {
		t.Error("the labels are the template's own map")
	}
	r.Rules.PrepareCreate(ctx, c)
	if errs := r.Rules.Validate(ctx, c); len(errs) > 0 || c.Generation != 1 {
		t.Errorf("generation %d, %v", c.Generation, errs)
	}
	scale := r.Subresources[0].Scale
	scale.Set(c, 5)
	replicas, _, selector, _ := scale.Get(c)
	if replicas != 5 || selector != "x=z" {
		t.Errorf("scale: %d %q", replicas, selector)
	}
}
