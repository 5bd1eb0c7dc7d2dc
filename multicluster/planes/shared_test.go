package planes

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func object(plane, name, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: map[string]string{Annotation: plane}}, Data: map[string]string{"d": data}}
}

func informer() *shared {
	return newShared(&toolscache.ListWatch{}, &corev1.ConfigMap{}, 0, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}).(*shared)
}

// told is what a handler is told, as text.
type told struct {
	mu  sync.Mutex
	all []string
}

func (w *told) add(what string, o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lost, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		what, o = what+" lost", lost.Obj
	}
	m := o.(*corev1.ConfigMap)
	w.all = append(w.all, fmt.Sprintf("%s %s=%s", what, m.Name, m.Data["d"]))
}

func (w *told) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, initially bool) {
			if initially {
				w.add("first", o)
			} else {
				w.add("add", o)
			}
		},
		UpdateFunc: func(_, o any) { w.add("update", o) }, DeleteFunc: func(o any) { w.add("delete", o) },
	}
}

// is compares what a handler was told, when all of it is delivered.
func (w *told) is(t *testing.T, s *shared, want ...string) {
	t.Helper()
	s.queues.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.all, want) {
		t.Errorf("%q, want %q", w.all, want)
	}
	w.all = nil
}

// A handler is told of one plane, in order: of what is there, of changes, and of what was lost meanwhile.
func TestShared(t *testing.T) {
	s, a, b := informer(), &told{}, &told{}
	la, err := s.listen("a", a.handler(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace([]any{object("a", "x", "1"), object("b", "x", "2"), object("b", "y", "3")}, "1"); err != nil {
		t.Fatal(err)
	}
	a.is(t, s, "first x=1")
	if !la.HasSynced() || !s.HasSynced() {
		t.Error("not synced after the first list")
	}
	lb, err := s.listen("b", b.handler(), false)
	if err != nil {
		t.Fatal(err)
	}
	s.queues.Wait()
	slices.Sort(b.all)
	b.is(t, s, "first x=2", "first y=3")
	for _, err := range []error{s.Add(object("a", "z", "4")), s.Update(object("a", "z", "5")), s.Delete(object("b", "y", "3")), s.Delete(object("b", "none", ""))} {
		if err != nil {
			t.Error(err)
		}
	}
	a.is(t, s, "add z=4", "update z=5")
	b.is(t, s, "delete y=3")
	if err := s.Replace([]any{object("a", "z", "5")}, "9"); err != nil {
		t.Fatal(err)
	}
	a.is(t, s, "update z=5", "delete lost x=1")
	b.is(t, s, "delete lost x=2")
	if err := s.Resync(); err != nil {
		t.Fatal(err)
	}
	a.is(t, s, "update z=5")
	s.ignore(lb)
	s.ignore(lb)
	if len(s.slices) != 1 {
		t.Errorf("slices of planes without anything: %v", s.slices)
	}
	if err := s.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of nobody"}}); err == nil {
		t.Error("an object without a plane is taken")
	}
	if err := s.AddIndexers(toolscache.Indexers{"d": func(o any) ([]string, error) { return []string{o.(*corev1.ConfigMap).Data["d"]}, nil }}); err != nil {
		t.Fatal(err)
	}
	for plane, want := range map[string]int{"a": 1, "b": 0} {
		if found, err := s.read(plane).ByIndex("d", "5"); err != nil || len(found) != want {
			t.Errorf("%s: %v %v", plane, found, err)
		}
	}
}

// Handlers come and go while objects do: none is told of another plane, or after all has ended.
func TestSharedAtOnce(t *testing.T) {
	s := informer()
	if err := s.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 8 {
		plane := fmt.Sprint(n % 4)
		all.Go(func() {
			for m := range 200 {
				o := object(plane, fmt.Sprint(m%10), fmt.Sprint(m))
				if m%3 == 0 {
					_ = s.Delete(o)
				} else {
					_ = s.Add(o)
				}
				s.read(plane).List()
			}
		})
		all.Go(func() {
			for range 50 {
				l, err := s.listen(plane, toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
					if len(o.(*corev1.ConfigMap).Annotations) > 0 {
						t.Error("an object with the annotation")
					}
				}}, false)
				if err != nil {
					t.Error(err)
					return
				}
				<-l.HasSyncedChecker().Done()
				s.ignore(l)
			}
		})
	}
	all.Wait()
	s.queues.Wait()
	for plane, one := range s.slices {
		if len(one.listeners) > 0 {
			t.Errorf("plane %s has listeners", plane)
		}
	}
}
