package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/builtin/resource"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
)

var (
	writes = flag.Int("writes", 20, "random writes of each way to write a kind, for TestManagersAreTheLibrarys")
	seed   = flag.Int64("seed", 1, "seed of the first")
)

// way is one way to write a kind: in one version, the object or one of its subresources.
type way struct {
	r     *engine.Resource
	v     *engine.Version
	sub   string
	rules *engine.Rules
}

func ways() (out []way) {
	now := func() time.Time { return time.Unix(1700000000, 0) }
	for _, r := range builtin.Resources(builtin.Deps{Resource: resource.Deps{Now: now}}) {
		for _, v := range r.Versions {
			out = append(out, way{r, v, "", &r.Rules})
			for _, s := range r.Subresources {
				if s.Rules != nil {
					out = append(out, way{r, v, s.Name, s.Rules})
				}
			}
		}
	}
	return out
}

func (w way) kind(v *engine.Version) schema.GroupVersionKind {
	if v.Kind != "" {
		return v.WithKind(v.Kind)
	}
	return v.WithKind(w.r.Kind)
}

// judged are a manager and the library's.
type judged struct {
	way
	ours    *fieldmanager.Manager
	library *managedfields.FieldManager
	asked   int // how often ours has asked the library
	types   *openapi.TypeConverter
	applies applies
}

// applies counts applies: those without the library, those that it has refused, and the others that it was asked for.
type applies struct{ own, refused, asked int }

func judge(t testing.TB, w way, types *openapi.TypeConverter) *judged {
	j := &judged{way: w, types: types}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{}
	c := fieldmanager.Config{
		Types: counting{types, &j.asked}, Versions: func(context.Context) fieldmanager.Versions { return versions{w} }, Kind: w.kind(w.v), Hub: w.r.Hub, Subresource: w.sub,
		Reset: w.rules.Reset, Clock: clock.RealClock{},
	}
	for _, v := range w.r.Versions {
		c.Served = append(c.Served, v.GroupVersion)
		if w.rules.Reset != nil {
			filters[fieldpath.APIVersion(v.GroupVersion.String())] = fieldpath.NewExcludeSetFilter(w.rules.Reset)
		}
	}
	var err error
	if j.ours, err = fieldmanager.New(c); err != nil {
		t.Fatal(err)
	}
	if j.library, err = managedfields.NewDefaultFieldManager(types, versions{w}, versions{w}, versions{w}, c.Kind, c.Hub, w.sub, filters); err != nil {
		t.Fatal(err)
	}
	return j
}

// counting counts what only the library asks.
type counting struct {
	*openapi.TypeConverter
	n *int
}

func (c counting) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	*c.n++
	return c.TypeConverter.ObjectToTyped(obj, opts...)
}

// versions converts between the versions of a kind.
type versions struct{ way }

func (c versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gv := target.(schema.GroupVersion)
	from := c.version(in.GetObjectKind().GroupVersionKind().GroupVersion())
	to := c.version(gv)
	if from == nil || to == nil {
		return nil, runtime.NewNotRegisteredErrForKind(c.r.Plural, gv.WithKind(c.r.Kind))
	}
	if u, ok := in.(runtime.Unstructured); ok {
		obj := from.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), obj); err != nil {
			return nil, err
		}
		in = obj
	}
	if from == to {
		return in, nil
	}
	obj, err := in.DeepCopyObject().(engine.Object), error(nil)
	if from.GroupVersion != c.r.Hub && from.ToHub != nil {
		if obj, err = from.ToHub(context.Background(), obj); err != nil {
			return nil, err
		}
	}
	if to.GroupVersion != c.r.Hub && to.FromHub != nil {
		if obj, err = to.FromHub(context.Background(), obj); err != nil {
			return nil, err
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(c.kind(to))
	return obj, nil
}

func (c versions) version(gv schema.GroupVersion) *engine.Version {
	for _, v := range c.r.Versions {
		if v.GroupVersion == gv {
			return v
		}
	}
	return nil
}

func (c versions) Convert(_, _, _ any) error { return fmt.Errorf("not supported") }

func (c versions) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (c versions) Default(runtime.Object) {}

func (c versions) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	obj := c.version(gvk.GroupVersion()).New()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// TestManagersAreTheLibrarys writes random objects of every kind, in all versions and by all subresources, and compares the
// managers with the library's. With -writes it writes more.
func TestManagersAreTheLibrarys(t *testing.T) {
	kinds := judges(t)
	klog.SetLogger(logr.Discard())
	total, asked, sum := 0, 0, applies{}
	for _, js := range kinds {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewSource(*seed))
			for n := 0; n < *writes*len(js) && !t.Failed(); {
				done := writeOne(t, r, js)
				n += done
				total += done
			}
			for _, j := range js {
				asked += j.asked
				sum.own, sum.refused, sum.asked = sum.own+j.applies.own, sum.refused+j.applies.refused, sum.asked+j.applies.asked
			}
		})
	}
	t.Logf("%d writes, and %d questions to the library; applies: %+v", total, asked, sum)
	if sum.own < 2*sum.asked {
		t.Error("too much is left to the library")
	}
}

// FuzzManagersAreTheLibrarys does the same for one object of a kind, from a seed.
func FuzzManagersAreTheLibrarys(f *testing.F) {
	kinds := judges(f)
	klog.SetLogger(logr.Discard())
	f.Add(uint(0), int64(1))
	f.Fuzz(func(t *testing.T, kind uint, seed int64) {
		synctest.Test(t, func(t *testing.T) {
			writeOne(t, rand.New(rand.NewSource(seed)), kinds[kind%uint(len(kinds))])
		})
	})
}

// judges returns the ways to write each kind that is stored.
func judges(t testing.TB) (out [][]*judged) {
	types := openapi.NewTypeConverter()
	at := map[string]int{}
	for _, w := range ways() {
		if w.r.Prefix == "" {
			continue // nothing of it is stored
		}
		i, ok := at[w.r.Prefix]
		if !ok {
			i = len(out)
			at[w.r.Prefix] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], judge(t, w, types))
	}
	return out
}

// writeOne writes an object several times and returns how often.
func writeOne(t *testing.T, r *rand.Rand, js []*judged) (n int) {
	object := &writing{t: t, m: newMutator(r), js: js, configs: map[string]config{}}
	for range 12 {
		n++
		if !object.write() {
			break
		}
	}
	return n
}

// TestEveryKindIsWalked lists the kinds whose managers the library would have to keep: there are none.
func TestEveryKindIsWalked(t *testing.T) {
	types := openapi.NewTypeConverter()
	for _, w := range ways() {
		if w.r.Prefix == "" {
			continue // nothing of it is stored
		}
		j := judge(t, w, types)
		hub := versions{w}.version(w.r.Hub)
		live, obj := hub.New(), hub.New()
		live.GetObjectKind().SetGroupVersionKind(w.kind(hub))
		obj.GetObjectKind().SetGroupVersionKind(w.kind(hub))
		obj.SetLabels(map[string]string{"a": "b"})
		if must(j.ours.Update(context.Background(), live, obj, "m")); j.asked > 0 {
			t.Errorf("%s %s %s is left to the library", w.r.Prefix, w.v.Version, w.sub)
		}
	}
}

// writing is an object that is written again and again.
type writing struct {
	t    *testing.T
	m    *mutator
	js   []*judged
	live engine.Object
	// spoiled says that a client has sent managers that no server has made.
	spoiled bool
	configs map[string]config // by manager
}

// config is what a manager has applied last.
type config struct {
	by  *judged
	obj *unstructured.Unstructured
}

// write writes the object once, and reports whether to go on with it.
func (w *writing) write() bool {
	r := w.m.r
	j := w.js[r.Intn(len(w.js))]
	hub := versions{j.way}.version(j.r.Hub)
	created := w.live == nil
	if created {
		w.live = hub.New()
		w.live.GetObjectKind().SetGroupVersionKind(j.kind(hub))
	}
	if r.Intn(3) == 0 {
		by := manager(r.Intn(3))
		for range 2 {
			if !w.apply(j, by) {
				return false
			}
		}
		return true
	}
	obj := w.live.DeepCopyObject().(engine.Object)
	switch {
	case created || r.Intn(8) == 0:
		obj = hub.New()
		w.m.fill(obj)
		obj.SetManagedFields(w.live.GetManagedFields())
	default:
		for range r.Intn(4) {
			w.m.mutate(obj)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(j.kind(hub))
	obj.SetUID("")
	if !created {
		obj.SetUID("uid")
	}
	managers, spoiled := w.m.managers(w.live.GetManagedFields())
	obj.SetManagedFields(managers)
	w.spoiled = w.spoiled || spoiled
	time.Sleep(time.Duration(r.Intn(3)) * 700 * time.Millisecond)
	if now := time.Now(); now.Nanosecond() > 900_000_000 { // the library sleeps a little when it logs, and managers have whole seconds
		time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
	}
	by := manager(r.Intn(14))
	if r.Intn(20) == 0 {
		by = ""
	}
	return w.judge(j, obj, by)
}

func manager(n int) string { return fmt.Sprintf("manager-%d", n) }

// apply applies a part of the object or of a random one, or what was applied last.
func (w *writing) apply(j *judged, manager string) bool {
	r := w.m.r
	if w.configs[manager].by != j || r.Intn(4) == 0 {
		for range 4 { // until it is of its type
			obj, ok := w.configure(j)
			if !ok {
				return false
			}
			w.configs[manager] = config{j, obj}
			if _, err := j.types.ObjectToTyped(obj); err == nil {
				break
			}
		}
	}
	if hasEmptyKey(j, w.configs[manager].obj) {
		return true
	}
	if r.Intn(30) == 0 {
		w.live.SetManagedFields(nil)
	}
	applied, force, asked := w.configs[manager].obj, r.Intn(4) > 0, j.asked
	live := w.live.DeepCopyObject().(engine.Object)
	want, err := j.library.Apply(w.live.DeepCopyObject(), applied.DeepCopy(), manager, force)
	got, ourErr := j.ours.Apply(context.Background(), live, applied.DeepCopy(), manager, force)
	if errorOf(ourErr) != errorOf(err) || err == nil && jsonOf(got) != jsonOf(want) || jsonOf(live) != jsonOf(w.live) {
		w.t.Errorf("%s %s %q\nlive %s\napplied %s\n got %s %v\nwant %s %v", j.r.Prefix, j.v.Version, j.sub, jsonOf(w.live), jsonOf(applied), jsonOf(got), ourErr, jsonOf(want), err)
		return false
	}
	switch {
	case j.asked == asked:
		j.applies.own++
	case errorOf(err) == "refused":
		j.applies.refused++
	default:
		j.applies.asked++
	}
	if err == nil {
		w.live = want.(engine.Object)
		w.live.SetUID("uid")
	}
	return true
}

// hasEmptyKey finds an item of a list whose key is the empty text, which validation refuses. Where another manager
// has a field of the item, but not its key, the library removes what is applied there, though it stays among the fields of its
// manager; ours keeps it.
func hasEmptyKey(j *judged, obj *unstructured.Unstructured) (found bool) {
	of, err := j.types.ObjectToTyped(obj)
	if err != nil {
		return false
	}
	set, err := of.ToFieldSet()
	if err != nil {
		return false
	}
	set.Iterate(func(p fieldpath.Path) {
		for _, e := range p {
			found = found || e.Key != nil && slices.ContainsFunc(*e.Key, func(f value.Field) bool { return f.Value.IsString() && f.Value.AsString() == "" })
		}
	})
	return found
}

// configure makes what is applied: a part of the object, changed, or of a random one.
func (w *writing) configure(j *judged) (*unstructured.Unstructured, bool) {
	r := w.m.r
	hub := versions{j.way}.version(j.r.Hub)
	from := w.live.DeepCopyObject().(engine.Object)
	if from.GetUID() == "" || r.Intn(5) == 0 {
		from = hub.New()
		w.m.fill(from)
	}
	for range r.Intn(4) {
		w.m.mutate(from)
	}
	from.GetObjectKind().SetGroupVersionKind(j.kind(hub))
	versioned, err := versions{j.way}.ConvertToVersion(from, j.v.GroupVersion)
	if err != nil {
		return nil, false
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(jsonOf(versioned)), out); err != nil {
		return nil, false
	}
	out.SetManagedFields(nil)
	w.m.prune(out.Object)
	if r.Intn(3) == 0 {
		delete(out.Object, "status")
	}
	out.SetName("a")
	out.SetGroupVersionKind(j.kind(j.v))
	return out, true
}

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

func (w *writing) judge(j *judged, obj engine.Object, manager string) bool {
	live, ours := w.live.DeepCopyObject().(engine.Object), obj.DeepCopyObject().(engine.Object)
	before, asked := jsonOf(live), j.asked
	want := j.library.UpdateNoErrors(w.live.DeepCopyObject(), obj.DeepCopyObject(), manager).(engine.Object)
	got := must(j.ours.Update(context.Background(), live, ours, manager)).(engine.Object)
	if g, w2 := jsonOf(got.GetManagedFields()), jsonOf(want.GetManagedFields()); g != w2 {
		w.t.Errorf("%s %s %q\nlive %s\nsent %s\n got %s\nwant %s", j.r.Prefix, j.v.Version, j.sub, before, jsonOf(obj), g, w2)
		return false
	}
	got.SetManagedFields(nil)
	obj.SetManagedFields(nil)
	if jsonOf(got) != jsonOf(obj) || jsonOf(live) != before {
		w.t.Errorf("%s %s %q: an object has changed", j.r.Prefix, j.v.Version, j.sub)
		return false
	}
	_, refused := j.library.Update(w.live.DeepCopyObject(), obj.DeepCopyObject(), manager)
	if j.asked > asked && !w.spoiled && refused == nil {
		w.t.Errorf("%s %s %q: the library was asked\nlive %s\nsent %s", j.r.Prefix, j.v.Version, j.sub, before, jsonOf(obj))
		return false
	}
	w.live = want
	w.live.SetUID("uid")
	return refused == nil && len(w.live.GetManagedFields()) > 0
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

var timeOfManager = regexp.MustCompile(`,"time":"[^"]*"`)

// untimed is an object as JSON, without the times at which its fields were managed: the library has the machine's clock.
func untimed(v any) string { return timeOfManager.ReplaceAllString(jsonOf(v), "") }

// TestEmptyObjectIsApplied applies an object without fields in the place of none, whose fields its manager says to have applied
// before. Those that a Go object always has were never there to be pruned.
func TestEmptyObjectIsApplied(t *testing.T) {
	types := openapi.NewTypeConverter()
	for _, w := range ways() {
		if w.r.Plural != "flowschemas" || w.sub != "" {
			continue
		}
		j := judge(t, w, types)
		apiVersion := w.v.GroupVersion.String()
		live := versions{w}.version(w.r.Hub).New()
		if err := json.Unmarshal([]byte(`{"apiVersion":"`+apiVersion+`","kind":"FlowSchema","metadata":{"name":"a","uid":"uid","managedFields":[{"manager":"m",
			"operation":"Apply","apiVersion":"`+apiVersion+`","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:distinguisherMethod":{"f:type":{}}}}}]},
			"spec":{"matchingPrecedence":1}}`), live); err != nil {
			t.Fatal(err)
		}
		applied := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"`+apiVersion+`","kind":"FlowSchema","metadata":{"name":"a"},"spec":{"distinguisherMethod":{}}}`), applied); err != nil {
			t.Fatal(err)
		}
		want, err := j.library.Apply(live.DeepCopyObject(), applied.DeepCopy(), "m", true)
		if err != nil || !strings.Contains(jsonOf(want), `"distinguisherMethod":{`) {
			t.Fatal(jsonOf(want), err)
		}
		if got, err := j.ours.Apply(context.Background(), live.DeepCopyObject().(engine.Object), applied.DeepCopy(), "m", true); err != nil || untimed(got) != untimed(want) {
			t.Errorf("got %s %v, want %s", jsonOf(got), err, jsonOf(want))
		}
		return
	}
	t.Error("there are no FlowSchemas")
}
