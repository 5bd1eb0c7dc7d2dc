package fieldmanager

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
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
	total, own, asked, again := 0, 0, 0, 0
	synctest.Test(t, func(t *testing.T) {
		for range *definitions {
			ds := []definition{r.definition(), r.definition()}
			for _, v := range []string{"v2"} { // spec and status stay, for there to be something to keep
				ds[1][v] = ds[0][v]
			}
			for range 10 {
				o := &custom{r: r, live: newThing("v1")}
				for range 15 {
					ok, managed := o.write(t, ds[r.Intn(8)/7])
					if t.Failed() {
						return
					}
					total++
					switch {
					case ok:
						own++
					case managed:
						asked++
					}
				}
				again += o.again
			}
		}
	})
	t.Logf("%d writes: %d by ourselves, %d by the library, which has refused the others; %d have applied the same", total, own, asked, again)
	if own < total/3 || asked > own/5 || again < total/200 {
		t.Error("too much is left to the library")
	}
}

// custom is an object that is written again and again.
type custom struct {
	r       random
	live    *unstructured.Unstructured
	applied *unstructured.Unstructured
	applier string
	again   int // how often the same was applied without the library
}

// write writes the object and reports whether that was done without the library, and whether the object has managers.
func (o *custom) write(t *testing.T, d definition) (own, managed bool) {
	r := o.r
	version, sub := pick(r, "v1", "v1", "v1", "v2"), pick(r, "", "", "status")
	c := Config{Types: d, GoTypes: NewGoTypes(), Versions: d, Kind: apischema.GroupVersionKind{Group: group, Version: version, Kind: "Thing"},
		Hub: apischema.GroupVersion{Group: group, Version: "v1"}, Subresource: sub, Custom: true, Clock: clock.RealClock{},
		Served: []apischema.GroupVersion{{Group: group, Version: "v1"}, {Group: group, Version: "v2"}}}
	switch c.Reset = fieldpath.NewSet(fieldpath.MakePathOrDie("status")); {
	case sub != "":
		c.Reset = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
	case r.Intn(4) == 0:
		c.Filter = fieldpath.NewIncludeMatcherFilter(fieldpath.MakePrefixMatcherOrDie("spec"))
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Intn(3) == 0 && len(o.live.GetManagedFields()) > 0 {
		for range 2 {
			if o.apply(t, m, version) {
				o.again++
			}
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
	manager := fmt.Sprint(r.Intn(14))

	before := jsonOf(o.live)
	want, sent := obj.DeepCopy(), obj.DeepCopy()
	m.library.UpdateNoErrors(o.live.DeepCopy(), want, manager)
	ok := m.update(o.live, obj, manager)
	if got := jsonOf(obj); !ok && got != jsonOf(sent) {
		t.Errorf("an object has changed to %s", got)
	}
	if !ok {
		m.Update(o.live, obj, manager)
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
	return ok, len(want.GetManagedFields()) > 0
}

// apply applies a part of the object, or the same as before.
func (o *custom) apply(t *testing.T, m *Manager, version string) (own bool) {
	r := o.r
	if o.applied == nil || o.applied.GetAPIVersion() != group+"/"+version || r.Intn(6) == 0 {
		o.applied = o.live.DeepCopy()
		o.applied.SetManagedFields(nil)
		o.applied.SetAPIVersion(group + "/" + version)
		o.applier = pick(r, "a", "b", "kubectl")
		for _, name := range []string{"spec", "status"} {
			if f, ok := o.applied.Object[name].(map[string]any); ok {
				r.prune(f)
			}
		}
	}
	force := r.Intn(4) > 0
	before := jsonOf(o.live)
	own = m.reapply(o.live, o.applied, o.applier) != nil
	want, err := m.library.Apply(o.live.DeepCopy(), o.applied.DeepCopy(), o.applier, force)
	got, ourErr := m.Apply(o.live, o.applied.DeepCopy(), o.applier, force)
	if (err == nil) != (ourErr == nil) || err == nil && jsonOf(got) != jsonOf(want) || jsonOf(o.live) != before {
		t.Errorf("%s\nlive %s\napplied %s\n got %s %v\nwant %s %v", version, before, jsonOf(o.applied), jsonOf(got), ourErr, jsonOf(want), err)
	}
	if err == nil {
		o.live = want.(*unstructured.Unstructured)
	}
	return own && err == nil
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
	m, err := New(Config{Types: d, GoTypes: NewGoTypes(), Versions: d, Kind: apischema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"},
		Hub: apischema.GroupVersion{Group: group, Version: "v1"}, Custom: true, Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))})
	if err != nil {
		t.Fatal(err)
	}
	write := func() string {
		obj := newThing("v1")
		obj.SetLabels(map[string]string{"a": "b", "c": "d"})
		return jsonOf(m.Update(newThing("v1"), obj, "m"))
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
