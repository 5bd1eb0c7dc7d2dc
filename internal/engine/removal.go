package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/store"
)

// removeObject deletes an object, or begins its deletion. Without an item the outcome is that it was removed; otherwise obj is the
// object while its deletion, begun now or earlier, is pending.
func (w *write) removeObject(ctx context.Context, options *metav1.DeleteOptions) (*outcome, error) {
	w.dryRun = admission.IsDryRun(options.DryRun)
	if w.dryRun {
		w.recordTarget(ctx, nil)
	}
	found, err := w.current(ctx)
	if err != nil {
		return nil, err
	}
	out, err := w.perform(ctx, found, false, func(ctx context.Context, found *store.Item) (*decision, error) {
		return w.decideRemoval(ctx, found, options.DeepCopy())
	})
	if err == nil && out.rev != 0 {
		out.obj.SetResourceVersion(formatRev(out.rev))
	}
	return out, err
}

// decideRemoval decides on the deletion of what was found.
func (w *write) decideRemoval(ctx context.Context, found *store.Item, options *metav1.DeleteOptions) (*decision, error) {
	if found == nil {
		return nil, store.ErrNotFound
	}
	obj, err := w.Decode(ctx, found)
	if err != nil {
		return nil, cmp.Or(w.corruptItem(ctx, found), w.unreadable(ctx, found, err))
	}
	if err := w.preconditions(options, obj); err != nil {
		return nil, err
	}
	if w.which.OtherUID(obj) { // an object of a collection whose name another one has by now
		return nil, store.ErrNotFound
	}
	if f := w.R.Rules.CheckDelete; f != nil && !w.collection {
		if err := f(ctx, obj); err != nil {
			return nil, err
		}
	}
	act, graceful := w.begin(ctx, obj, options)
	if act == actKeep {
		return &decision{found: found, obj: obj}, nil
	}
	old, err := w.Decode(ctx, found)
	if err != nil {
		return nil, err
	}
	if err := w.admitDelete(ctx, old, options); err != nil {
		return nil, err
	}
	if act == actRemove {
		// What is removed is answered as it was stored: only a graceful deletion would have written it without these finalizers.
		if !graceful {
			obj.SetFinalizers(old.GetFinalizers())
		}
		return &decision{found: found, act: actRemove, old: old, obj: obj}, nil
	}
	return w.putting(ctx, found, obj, old)
}

// admitDelete asks admission about a deletion.
func (w *write) admitDelete(ctx context.Context, old Object, options *metav1.DeleteOptions) error {
	if w.part {
		return nil
	}
	a := w.attributes(ctx, admission.Delete, nil, old, options)
	a.Name = old.GetName()
	if err := w.e.Admit.Admit(ctx, a); err != nil {
		return err
	}
	return w.e.Admit.Validate(ctx, a)
}

// preconditions checks that the object is the one that the client wants to
// delete.
func (w *write) preconditions(o *metav1.DeleteOptions, obj Object) error {
	if o.Preconditions == nil {
		return nil
	}
	if uid := o.Preconditions.UID; uid != nil && *uid != obj.GetUID() {
		return w.unmet(obj, "UID", *uid, obj.GetUID(), "deleted and then recreated")
	}
	if rv := o.Preconditions.ResourceVersion; rv != nil && *rv != obj.GetResourceVersion() {
		return w.unmet(obj, "ResourceVersion", *rv, obj.GetResourceVersion(), "modified")
	}
	return nil
}

// unmet is the error about a precondition of a deletion. For namespaces kube-apiserver has other words.
func (w *write) unmet(obj Object, what string, asked, has any, perhaps string) error {
	if w.isNamespaces() {
		//lint:ignore ST1005 kube-apiserver's words
		return apierrors.NewConflict(w.gr(), obj.GetName(), fmt.Errorf("Precondition failed: %s in precondition: %v, %s in object meta: %v", what, asked, what, has))
	}
	return apierrors.NewConflict(schema.GroupResource{Group: w.hub.Group, Resource: w.GVK.Kind}, obj.GetName(), fmt.Errorf(
		"the %s in the precondition (%v) does not match the %s in record (%v). The object might have been %s", what, asked, what, has, perhaps))
}

// begin determines what a deletion does (actKeep: it is under way already, and nothing changes) and changes obj accordingly: its
// deletion timestamp and grace period, generation and finalizers. It says whether the deletion is a graceful one that begins, or is shortened.
func (w *write) begin(ctx context.Context, obj Object, o *metav1.DeleteOptions) (_ act, graceful bool) {
	if g := o.GracePeriodSeconds; g != nil && *g < 0 {
		o.GracePeriodSeconds = new(int64)
		*o.GracePeriodSeconds = 1
	}
	graceful, pending := w.graceful(ctx, obj, o)
	if pending {
		return actKeep, false
	}
	held := w.R.Rules.Held != nil && w.R.Rules.Held(obj)
	if held && obj.GetDeletionTimestamp() != nil {
		return actKeep, false // whatever this deletion says of dependents
	}
	if !held || !w.R.Rules.HeldAlone {
		if finalizers := w.finalizers(obj, held, o); !sameSet(finalizers, obj.GetFinalizers()) {
			obj.SetFinalizers(finalizers)
		}
	}
	if held {
		now := metav1.NewTime(w.e.Clock.Now())
		obj.SetDeletionTimestamp(&now)
		w.R.Rules.Terminating(obj)
		return actPut, graceful
	}
	if len(obj.GetFinalizers()) > 0 {
		if !graceful {
			w.markDeleting(obj)
		}
		return actPut, graceful
	}
	if graceful && *o.GracePeriodSeconds > 0 {
		return actPut, graceful
	}
	return actRemove, graceful
}

// graceful begins a graceful deletion if the kind has one. pending says that a
// deletion is under way and that this one does not shorten it.
func (w *write) graceful(ctx context.Context, obj Object, o *metav1.DeleteOptions) (graceful, pending bool) {
	if w.R.Rules.Grace == nil {
		return false, false
	}
	if t := obj.GetDeletionTimestamp(); t != nil {
		have := obj.GetDeletionGracePeriodSeconds()
		if have == nil || *have == 0 {
			return false, false
		}
		if o.GracePeriodSeconds == nil || *o.GracePeriodSeconds >= *have {
			return false, true
		}
		want := *o.GracePeriodSeconds
		at := t.Add(time.Duration(want-*have) * time.Second)
		if now := w.e.Clock.Now(); at.Before(now) {
			at = now
			if want != 0 {
				want = 1
			}
		}
		mt := metav1.NewTime(at)
		obj.SetDeletionTimestamp(&mt)
		obj.SetDeletionGracePeriodSeconds(&want)
		return true, false
	}
	g := w.R.Rules.Grace(ctx, obj, o)
	o.GracePeriodSeconds = &g
	at := metav1.NewTime(w.e.Clock.Now().Add(time.Duration(g) * time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&g)
	if n := obj.GetGeneration(); n > 0 {
		obj.SetGeneration(n + 1)
	}
	return true, false
}

// markDeleting begins the deletion of an object that finalizers still hold.
func (w *write) markDeleting(obj Object) {
	now := metav1.NewTime(w.e.Clock.Now())
	t := obj.GetDeletionTimestamp()
	if n := obj.GetGeneration(); t == nil && n > 0 {
		obj.SetGeneration(n + 1)
	}
	if t == nil || t.After(now.Time) {
		obj.SetDeletionTimestamp(&now)
	}
	zero := int64(0)
	obj.SetDeletionGracePeriodSeconds(&zero)
}

// finalizers returns the finalizers of an object whose deletion begins: the
// propagation policy is stored as one, for the garbage collector. The deprecated option not to orphan dependents says of an object that its
// kind holds, and of no other, that it is to go after them.
func (w *write) finalizers(obj Object, held bool, o *metav1.DeleteOptions) []string {
	have := obj.GetFinalizers()
	var want string
	switch {
	case w.R.NoGarbageCollection:
	case orphanDependents(o) != nil:
		if *orphanDependents(o) {
			want = metav1.FinalizerOrphanDependents
		} else if held {
			want = metav1.FinalizerDeleteDependents
		}
	case o.PropagationPolicy != nil:
		switch *o.PropagationPolicy {
		case metav1.DeletePropagationOrphan:
			want = metav1.FinalizerOrphanDependents
		case metav1.DeletePropagationForeground:
			want = metav1.FinalizerDeleteDependents
		}
	case slices.Contains(have, metav1.FinalizerOrphanDependents):
		want = metav1.FinalizerOrphanDependents
	case slices.Contains(have, metav1.FinalizerDeleteDependents):
		want = metav1.FinalizerDeleteDependents
	case w.R.Rules.DefaultOrphan:
		want = metav1.FinalizerOrphanDependents
	}
	var out []string
	for _, f := range have {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if want != "" {
		out = append(out, want)
	}
	return out
}

// orphanDependents returns the deprecated option for dependents.
func orphanDependents(o *metav1.DeleteOptions) *bool {
	//lint:ignore SA1019 deprecated for clients, but still served
	return o.OrphanDependents
}

func sameSet(a, b []string) bool {
	for _, s := range a {
		if !slices.Contains(b, s) {
			return false
		}
	}
	for _, s := range b {
		if !slices.Contains(a, s) {
			return false
		}
	}
	return true
}
