package fieldmanager

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

var (
	definitions = flag.Int("definitions", 15, "random definitions, for TestManagersOfCustomResources")
	seed        = flag.Int64("seed", 1, "seed of the first")
)

const group = "example.com"

// definition is a random definition of a custom resource: the types of its versions.
type definition map[string]*typed.ParseableType

func (d definition) TypeOf(obj runtime.Object) (*typed.ParseableType, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if t := d[gvk.Version]; t != nil {
		return t, nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("test", gvk)
}

func (d definition) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, err := d.TypeOf(obj)
	if err != nil {
		return nil, err
	}
	return t.FromUnstructured(obj.(*unstructured.Unstructured).Object, opts...)
}

func (d definition) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: v.AsValue().Unstructured().(map[string]any)}, nil
}

func (d definition) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gv := target.(apischema.GroupVersion)
	if d[gv.Version] == nil {
		return nil, runtime.NewNotRegisteredErrForKind("test", gv.WithKind("Thing"))
	}
	if in.GetObjectKind().GroupVersionKind().GroupVersion() == gv {
		return in, nil
	}
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	out.SetAPIVersion(gv.String())
	return out, nil
}

func (d definition) Convert(_, _, _ any) error { return fmt.Errorf("not supported") }

func (d definition) ConvertFieldLabel(apischema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", fmt.Errorf("not supported")
}

func (d definition) Default(runtime.Object) {}

func (d definition) New(gvk apischema.GroupVersionKind) (runtime.Object, error) {
	return newThing(gvk.Version), nil
}

func newThing(version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/" + version, "kind": "Thing"}}
}

// TestManagersOfCustomResources writes random objects of random definitions in two versions and compares the managers with
// the library's. Now and then the definition changes. With -definitions it writes more.
func TestManagersOfCustomResources(t *testing.T) {
	klog.SetLogger(logr.Discard())
	r := random{rand.New(rand.NewSource(*seed))}
	total := tally{}
	synctest.Test(t, func(t *testing.T) {
		for range *definitions {
			total.add(t, r, 10)
		}
	})
	own, asked, sum := total.own, total.asked, total.applies
	t.Logf("%d writes: %d by ourselves, %d by the library, which has refused the others; applies: %+v", total.writes, own, asked, sum)
	if own < total.writes/3 || asked > own/5 || sum.own < sum.asked {
		t.Error("too much is left to the library")
	}
}

// FuzzManagersOfCustomResources does the same from a seed.
func FuzzManagersOfCustomResources(f *testing.F) {
	klog.SetLogger(logr.Discard())
	f.Add(int64(1))
	f.Fuzz(func(t *testing.T, seed int64) {
		synctest.Test(t, func(t *testing.T) {
			new(tally).add(t, random{rand.New(rand.NewSource(seed))}, 3)
		})
	})
}

// tally counts writes.
type tally struct {
	writes, own, asked int
	applies            applies
}

// add writes objects of a random definition, which is another now and then.
func (c *tally) add(t *testing.T, r random, objects int) {
	ds := []definition{r.definition(), r.definition()}
	for _, v := range []string{"v2"} { // spec and status stay, for there to be something to keep
		ds[1][v] = ds[0][v]
	}
	for range objects {
		o := &custom{r: r, live: newThing("v1"), version: pick(r, "v1", "v1", "v2")}
		for range 15 {
			ok, managed := o.write(t, ds[r.Intn(8)/7])
			if t.Failed() {
				return
			}
			c.writes++
			switch {
			case ok:
				c.own++
			case managed:
				c.asked++
			}
		}
		c.applies.own += o.applies.own
		c.applies.refused += o.applies.refused
		c.applies.asked += o.applies.asked
	}
}

// custom is an object that is written again and again.
type custom struct {
	r       random
	version string // of most writes
	live    *unstructured.Unstructured
	applied *unstructured.Unstructured
	applier string
	applies applies
}

// write writes the object and reports whether that was done without the library, and whether the object has managers that
// the library did not refuse to keep.
func (o *custom) write(t *testing.T, d definition) (own, managed bool) {
	r := o.r
	version, sub := o.version, pick(r, "", "", "status")
	if r.Intn(20) == 0 {
		version = pick(r, "v1", "v2")
	}
	c := Config{Types: d, Versions: func(context.Context) Versions { return d }, Kind: apischema.GroupVersionKind{Group: group, Version: version, Kind: "Thing"},
		Hub: apischema.GroupVersion{Group: group, Version: "v1"}, Subresource: sub, Custom: true, Clock: clock.RealClock{},
		Served: []apischema.GroupVersion{{Group: group, Version: "v1"}, {Group: group, Version: "v2"}}}
	if c.Reset = fieldpath.NewSet(fieldpath.MakePathOrDie("status")); sub != "" {
		c.Reset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Intn(3) == 0 {
		if r.Intn(12) == 0 {
			o.live.SetManagedFields(nil)
		}
		for range 2 {
			o.apply(t, m, d, version)
		}
		return true, true
	}
	obj := o.live.DeepCopy()
	spec := d["v1"]
	root, _ := spec.Schema.FindNamedType("root")
	for _, name := range []string{"spec", "status"} {
		f, _ := root.Map.FindField(name)
		if r.Intn(3) == 0 {
			continue
		}
		obj.Object[name] = r.change(spec.Schema, f.Type, obj.Object[name], 1)
	}
	if r.Intn(3) == 0 {
		obj.SetLabels(map[string]string{pick(r, "a", "b"): pick(r, "a", "b")})
	}
	switch r.Intn(15) {
	case 0, 1, 2:
		obj.SetManagedFields(nil)
	case 3:
		r.spoil(obj.Object)
	}
	time.Sleep(time.Duration(r.Intn(2)) * time.Second)
	if now := time.Now(); now.Nanosecond() > 900_000_000 { // the library sleeps a little when it logs, and managers have whole seconds
		time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
	}
	manager := fmt.Sprint(r.Intn(14))

	before := jsonOf(o.live)
	want, sent := obj.DeepCopy(), obj.DeepCopy()
	_, refused := must(m.library(d)).Update(o.live.DeepCopy(), obj.DeepCopy(), manager)
	must(m.library(d)).UpdateNoErrors(o.live.DeepCopy(), want, manager)
	ok := m.update(d, o.live, obj, manager)
	if got := jsonOf(obj); !ok && got != jsonOf(sent) {
		t.Errorf("an object has changed to %s", got)
	}
	if !ok {
		must(m.Update(context.Background(), o.live, obj, manager))
	}
	if got, want := jsonOf(obj), jsonOf(want); got != want || jsonOf(o.live) != before {
		schema, _ := json.Marshal(d[version].Schema.Types)
		t.Errorf("%s %q\nlive %s\nsent %s\n got %s\nwant %s\nschema %s", version, sub, before, jsonOf(sent), got, want, schema)
	}
	o.live = want
	o.live.SetUID("uid")
	if len(want.GetManagedFields()) == 0 {
		o.live = newThing("v1") // of one without managers there would be no more to compare
	}
	if r.Intn(10) == 0 && len(o.live.GetManagedFields()) > 0 {
		entries := o.live.GetManagedFields()
		entries[0].Operation = metav1.ManagedFieldsOperationApply
		o.live.SetManagedFields(entries)
	}
	return ok, refused == nil && len(want.GetManagedFields()) > 0
}

// apply applies a part of the object, also changed, or the same as before.
func (o *custom) apply(t *testing.T, m *Manager, d definition, version string) {
	r := o.r
	if o.applied == nil || o.applied.GetAPIVersion() != group+"/"+version || r.Intn(6) == 0 {
		for range 5 { // until it is of its type
			o.configure(d, version)
			if _, err := d.ObjectToTyped(o.applied); err == nil {
				break
			}
		}
	}
	force := r.Intn(4) > 0
	before := jsonOf(o.live)
	got, ourErr := m.apply(d, o.live, o.applied.DeepCopy(), o.applier, force)
	own := got != nil || ourErr != nil
	want, err := must(m.library(d)).Apply(o.live.DeepCopy(), o.applied.DeepCopy(), o.applier, force)
	if !own {
		got, ourErr = m.Apply(context.Background(), o.live, o.applied.DeepCopy(), o.applier, force)
	}
	if errorOf(ourErr) != errorOf(err) || err == nil && jsonOf(got) != jsonOf(want) || jsonOf(o.live) != before {
		t.Errorf("%s\nlive %s\napplied %s\n got %s %v\nwant %s %v", version, before, jsonOf(o.applied), jsonOf(got), ourErr, jsonOf(want), err)
	}
	switch {
	case own:
		o.applies.own++
	case errorOf(err) == "refused":
		o.applies.refused++
	default:
		o.applies.asked++
	}
	if err == nil {
		o.live = want.(*unstructured.Unstructured)
		o.live.SetUID("uid")
	}
}

// configure makes what is applied.
func (o *custom) configure(d definition, version string) {
	r := o.r
	o.applied = o.live.DeepCopy()
	o.applied.SetManagedFields(nil)
	o.applied.SetAPIVersion(group + "/" + version)
	o.applied.SetName("a")
	o.applier = pick(r, "a", "b", "kubectl")
	root, _ := d[version].Schema.FindNamedType("root")
	for _, name := range []string{"spec", "status"} {
		f, _ := root.Map.FindField(name)
		for range r.Intn(3) {
			o.applied.Object[name] = r.change(d[version].Schema, f.Type, o.applied.Object[name], 1)
		}
		if of, ok := o.applied.Object[name].(map[string]any); ok {
			r.prune(of)
		}
	}
	if r.Intn(3) == 0 {
		delete(o.applied.Object, "status")
	}
	if r.Intn(3) == 0 {
		o.applied.SetLabels(map[string]string{pick(r, "a", "b"): pick(r, "a", "b")})
	}
}

// applies counts applies: those without the library, those that it has refused, and the others that it was asked for.
type applies struct{ own, refused, asked int }

// errorOf is what clients learn of a conflict, which the library tells them in any order, and that there is another error.
func errorOf(err error) string {
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &status) || !apierrors.IsConflict(err):
		return "refused"
	}
	s := status.Status()
	slices.SortStableFunc(s.Details.Causes, func(a, b metav1.StatusCause) int { return strings.Compare(a.Message, b.Message) })
	return jsonOf(s)
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestManagerIsShared writes by one manager from several goroutines.
func TestManagerIsShared(t *testing.T) {
	r := random{rand.New(rand.NewSource(*seed))}
	d := r.definition()
	m, err := New(Config{Types: d, Versions: func(context.Context) Versions { return d }, Kind: apischema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"},
		Hub: apischema.GroupVersion{Group: group, Version: "v1"}, Custom: true, Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))})
	if err != nil {
		t.Fatal(err)
	}
	write := func() string {
		obj := newThing("v1")
		obj.SetLabels(map[string]string{"a": "b", "c": "d"})
		return jsonOf(must(m.Update(context.Background(), newThing("v1"), obj, "m")))
	}
	want := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"labels":{"a":"b","c":"d"},"managedFields":[{"apiVersion":"example.com/v1",` +
		`"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:c":{}}}},"manager":"m","operation":"Update","time":"1970-01-01T00:00:01Z"}]}}`
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if got := write(); got != want {
					t.Errorf("got %s, want %s", got, want)
					return
				}
			}
		})
	}
	group.Wait()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
