package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
)

// accounts are a pod and a widget that hold amounts.
type accounts struct {
	*kinds
	pods, widgets *Endpoint
}

const amount = "amount"

func newAccounts(t *testing.T) *accounts {
	x := newKinds(t)
	a := &accounts{kinds: x, pods: x.eps[corev1.SchemeGroupVersion.WithResource("pods")], widgets: x.eps[schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}]}
	for _, obj := range []Object{&corev1.Pod{}, &unstructured.Unstructured{Object: map[string]any{}}} {
		obj.SetNamespace("ns")
		obj.SetName("account")
		obj.SetAnnotations(map[string]string{amount: "100"})
		ep := a.widgets
		if _, ok := obj.(*corev1.Pod); ok {
			ep = a.pods
		}
		if _, err := ep.CreateObject(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

var errOverdrawn = errors.New("overdrawn")

// adding adds to what an account holds, which must not become less than nothing.
func adding(n int) func(obj Object) error {
	return func(obj Object) error {
		had, err := strconv.Atoi(obj.GetAnnotations()[amount])
		if err != nil {
			return err
		}
		if had+n < 0 {
			return errOverdrawn
		}
		obj.SetAnnotations(map[string]string{amount: strconv.Itoa(had + n)})
		return nil
	}
}

func (a *accounts) holds(ep *Endpoint) int {
	a.t.Helper()
	obj, err := ep.GetObject(a.t.Context(), "ns", "account")
	if err != nil {
		a.t.Fatal(err)
	}
	n, err := strconv.Atoi(obj.GetAnnotations()[amount])
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

// TestTogether has 16 writers move amounts between objects of two kinds. What one loses the other gets, and nobody holds less
// than nothing.
func TestTogether(t *testing.T) {
	const writers, transfers = 16, 20
	a := newAccounts(t)
	account := request.Named("ns", "account")
	var mu sync.Mutex
	moved, refused := 0, 0
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range transfers {
				n := rand.IntN(121) - 60
				err := Together(t.Context(), false, a.pods.Edit(account, adding(-n)), a.widgets.Edit(account, adding(n)))
				mu.Lock()
				switch {
				case err == nil:
					moved += n
				case errors.Is(err, errOverdrawn):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if pod, widget := a.holds(a.pods), a.holds(a.widgets); pod != 100-moved || widget != 100+moved || pod < 0 || widget < 0 {
		t.Errorf("%d and %d, after %d were moved", pod, widget, moved)
	}
	if refused == 0 || refused == writers*transfers {
		t.Errorf("%d of %d refused", refused, writers*transfers)
	}
}

// The flight recorder is told of every object that the server changes as part of a request, with what it was.
func TestTogetherIsRecorded(t *testing.T) {
	a := newAccounts(t)
	account := request.Named("ns", "account")
	var told []string
	a.pods.e.Wrote = func(_ context.Context, w Written) {
		told = append(told, fmt.Sprint(w.Kind, " ", w.Old.GetAnnotations()[amount], " ", w.New.GetAnnotations()[amount]))
	}
	recorded, latency := request.WithLatency(t.Context(), a.clock)
	latency.Record()
	for _, ctx := range []context.Context{recorded, t.Context()} { // what is outside of a request is nobody's act
		if err := Together(ctx, false, a.pods.Edit(account, adding(-1)), a.widgets.Edit(account, adding(1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := Together(recorded, true, a.pods.Edit(account, adding(-1))); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Pod 100 99", "Widget 100 101"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// All of it is refused for the reason of one.
func TestTogetherOrNotAtAll(t *testing.T) {
	a := newAccounts(t)
	account := request.Named("ns", "account")
	obj, err := a.pods.GetObject(t.Context(), "ns", "account")
	if err != nil {
		t.Fatal(err)
	}
	other := obj.DeepCopyObject().(Object)
	other.SetUID("another")
	for name, c := range map[string]struct {
		dryRun bool
		second Proposal
		is     func(error) bool
	}{
		"refused":        {false, a.widgets.Edit(account, adding(-1000)), func(err error) bool { return errors.Is(err, errOverdrawn) }},
		"not there":      {false, a.widgets.Edit(request.Named("ns", "none"), adding(1)), apierrors.IsNotFound},
		"nothing meant":  {false, a.widgets.Edit(request.Which{}, adding(1)), apierrors.IsInternalError},
		"another object": {false, a.widgets.Removal(request.Same(other), nil), apierrors.IsConflict},
		"a dry run":      {true, a.widgets.Edit(account, adding(1)), func(err error) bool { return err == nil }},
	} {
		if err := Together(t.Context(), c.dryRun, a.pods.Edit(account, adding(1)), c.second); !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
		if pod, widget := a.holds(a.pods), a.holds(a.widgets); pod != 100 || widget != 100 {
			t.Errorf("%s: %d and %d", name, pod, widget)
		}
	}
	if err := Together(t.Context(), false, a.pods.Edit(account, adding(1)), a.widgets.Removal(account, &metav1.DeleteOptions{})); err != nil {
		t.Fatal(err)
	}
	if _, err := a.widgets.GetObject(t.Context(), "ns", "account"); !apierrors.IsNotFound(err) || a.holds(a.pods) != 101 {
		t.Errorf("%v, %d", err, a.holds(a.pods))
	}
}
