package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// delete removes an object, or begins its deletion.
func (c *call) delete() error {
	out, err := negotiate(c.req, c.restrict())
	if err != nil {
		return err
	}
	options, err := c.deleteOptions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	if wantsUnsafe(options) {
		if err := c.unsafeDelete(ctx); err != nil {
			return c.storeError(err, c.name)
		}
		return c.answerUnsafe(out)
	}
	if f := c.R.Rules.WarnDelete; f != nil {
		request.AddWarning(ctx, f(options))
	}
	c.span.Event("About to delete object from database")
	obj, gone, err := c.remove(ctx, c.name, options)
	if err != nil {
		return c.storeError(err, c.name)
	}
	c.span.Event("Object deleted from database")
	return c.answerDelete(out, obj, gone, options)
}

// answerDelete answers a deletion: with the object if it still exists or its
// kind returns deleted objects, else with a Status that names it.
func (c *call) answerDelete(out output, obj Object, gone bool, options *metav1.DeleteOptions) error {
	defer c.answers().End()
	code := http.StatusOK
	if orphan := orphanDependents(options); !gone && orphan != nil && !*orphan {
		code = http.StatusAccepted
	}
	if !gone || c.R.ReturnDeleted {
		return c.writeObject(code, out, obj)
	}
	st := &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: obj.GetName(), Group: c.GVR.Group, Kind: c.GVR.Resource, UID: obj.GetUID(),
	}}
	st.SetGroupVersionKind(statusGVK)
	return writeAny(c.w, c.req, code, out, st)
}

// deleteOptions reads the options of a deletion: from the body, or from the
// query if there is no body. (With a body the query is ignored, as in
// kube-apiserver.)
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	options := &metav1.DeleteOptions{}
	if sent, ok := localObject(c.req).(*metav1.DeleteOptions); ok {
		sent.DeepCopyInto(options)
	} else if len(body) == 0 {
		if err := c.decodeQuery(options); err != nil {
			return nil, err
		}
	} else if err := c.decodeDeleteOptions(body, options); err != nil {
		return nil, err
	}
	if !c.e.UnsafeDelete {
		options.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	}
	if err := invalidOptions("DeleteOptions", validation.ValidateDeleteOptions(options)); err != nil {
		return nil, err
	}
	return options, nil
}

func (c *call) decodeDeleteOptions(body []byte, into *metav1.DeleteOptions) error {
	m, err := inputMedia(c.req, true)
	if err != nil {
		return err
	}
	for _, info := range internalscheme.Codecs.SupportedMediaTypes() {
		if info.MediaType != mediaNames[m] {
			continue
		}
		want := metav1.SchemeGroupVersion.WithKind("DeleteOptions")
		obj, _, err := internalscheme.Codecs.DecoderToVersion(info.Serializer, want.GroupVersion()).Decode(body, &want, into)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if obj != into {
			return apierrors.NewBadRequest("decoded object cannot be converted to DeleteOptions")
		}
		// The same as in kube-apiserver's audit log: it has the name of a
		// version that is internal to kube-apiserver.
		seen := into.DeepCopy()
		seen.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: "__internal", Kind: "DeleteOptions"})
		auditRequest(c.req, seen)
	}
	return nil
}

// remove deletes the object of a name. gone says that it was removed; otherwise
// obj is the object while its deletion, begun now or earlier, is pending.
//
// As in change, a refusal that was based on the view is decided again on the
// object in etcd.
func (c *call) remove(ctx context.Context, name string, options *metav1.DeleteOptions) (obj Object, gone bool, err error) {
	if admission.IsDryRun(options.DryRun) {
		c.asked(ctx, nil, true)
	}
	k := c.key(name)
	i, err := c.current(ctx, k, options.DryRun)
	if err != nil {
		return nil, false, err
	}
	for sure := false; ; {
		obj, gone, err := c.removeItem(ctx, i, *options.DeepCopy(), sure)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			c.awaitSeen(ctx, options.DryRun)
			return obj, gone, nil
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case errors.Is(err, store.ErrUncertain):
			// A second attempt might delete a new object of the same name.
			return nil, false, err
		case errors.As(err, &conflict):
			i, sure = conflict.Current, true
			continue
		case sure:
			return nil, false, err
		}
		latest, lerr := orNil(c.view.Latest(ctx, k))
		if lerr != nil {
			return nil, false, lerr
		}
		if revOf(latest) == revOf(i) {
			return nil, false, err
		}
		i, sure = latest, true
	}
}

func (c *call) removeItem(ctx context.Context, i *store.Item, options metav1.DeleteOptions, sure bool) (Object, bool, error) {
	if i == nil {
		return nil, false, store.ErrNotFound
	}
	obj, err := c.Decode(i)
	if err != nil {
		return nil, false, cmp.Or(c.corruptItem(i), c.unreadable(i, err))
	}
	if err := c.preconditions(&options, obj); err != nil {
		return nil, false, err
	}
	if c.which.OtherUID(obj) { // an object of a collection whose name another one has by now
		return nil, false, store.ErrNotFound
	}
	if f := c.R.Rules.CheckDelete; f != nil && !c.collection {
		if err := f(ctx, obj); err != nil {
			return nil, false, err
		}
	}
	d := c.decide(ctx, obj, &options)
	if d == deletePending {
		_, err := c.unchanged(ctx, i, sure)
		return obj, false, err
	}
	dryRun := admission.IsDryRun(options.DryRun)
	old, err := c.Decode(i)
	if err != nil {
		return nil, false, err
	}
	if err := c.admitDelete(ctx, old, &options, dryRun); err != nil {
		return nil, false, err
	}
	if d == deleteMark {
		return c.mark(ctx, i, obj, old, dryRun, sure)
	}
	if dryRun {
		if f := c.R.Rules.Deleted; f != nil {
			f(ctx, obj, true)
		}
		return obj, true, nil
	}
	stored, err := c.view.Delete(ctx, i)
	if err != nil {
		return nil, false, err
	}
	c.told(ctx, old, nil, stored, nil)
	obj.SetResourceVersion(formatRev(stored.Rev))
	if f := c.R.Rules.Deleted; f != nil {
		f(ctx, obj, false)
	}
	return obj, true, nil
}

// admitDelete asks admission about a deletion.
func (c *call) admitDelete(ctx context.Context, old Object, options *metav1.DeleteOptions, dryRun bool) error {
	if c.admitted {
		return nil
	}
	a := c.attributes(ctx, admission.Delete, nil, old, options, dryRun)
	a.Name = old.GetName()
	if err := c.e.Admit.Admit(ctx, a); err != nil {
		return err
	}
	return c.e.Admit.Validate(ctx, a)
}

// mark stores an object whose deletion has begun.
func (c *call) mark(ctx context.Context, i *store.Item, obj, old Object, dryRun, sure bool) (Object, bool, error) {
	if dryRun {
		return obj, false, nil
	}
	value, err := c.toStorage(obj)
	if err != nil {
		return nil, false, err
	}
	if bytes.Equal(value, i.Value()) {
		_, err := c.unchanged(ctx, i, sure)
		return obj, false, err
	}
	stored, err := c.view.Update(ctx, i, store.Write{Value: value, TTL: c.ttl(obj)})
	if err != nil {
		return nil, false, err
	}
	c.told(ctx, old, obj, stored, nil)
	obj.SetResourceVersion(formatRev(stored.Rev))
	return obj, false, nil
}

// preconditions checks that the object is the one that the client wants to
// delete.
func (c *call) preconditions(o *metav1.DeleteOptions, obj Object) error {
	if o.Preconditions == nil {
		return nil
	}
	gr := schema.GroupResource{Group: c.GVK.Group, Resource: c.GVK.Kind}
	if uid := o.Preconditions.UID; uid != nil && *uid != obj.GetUID() {
		return apierrors.NewConflict(gr, obj.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *uid, obj.GetUID()))
	}
	if rv := o.Preconditions.ResourceVersion; rv != nil && *rv != obj.GetResourceVersion() {
		return apierrors.NewConflict(gr, obj.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the "+
			"ResourceVersion in record (%s). The object might have been modified", *rv, obj.GetResourceVersion()))
	}
	return nil
}

// decision on a deletion.
type decision int

const (
	deleteNow     decision = iota // the object is removed
	deleteMark                    // the object is stored with its deletion timestamp
	deletePending                 // it is already being deleted, and nothing changes
)

// decide determines what a deletion does and changes obj accordingly: its
// deletion timestamp and grace period, generation and finalizers.
func (c *call) decide(ctx context.Context, obj Object, o *metav1.DeleteOptions) decision {
	if g := o.GracePeriodSeconds; g != nil && *g < 0 {
		o.GracePeriodSeconds = new(int64)
		*o.GracePeriodSeconds = 1
	}
	graceful, pending := c.graceful(ctx, obj, o)
	if pending {
		return deletePending
	}
	held := c.R.Rules.Held != nil && c.R.Rules.Held(obj)
	if !held || !c.R.Rules.HeldAlone {
		if finalizers := c.finalizers(obj, o); !sameSet(finalizers, obj.GetFinalizers()) {
			obj.SetFinalizers(finalizers)
		}
	}
	if held {
		if obj.GetDeletionTimestamp() == nil {
			now := metav1.NewTime(c.e.Clock.Now())
			obj.SetDeletionTimestamp(&now)
		}
		c.R.Rules.Terminating(obj)
		return deleteMark
	}
	if len(obj.GetFinalizers()) > 0 {
		if !graceful {
			c.markDeleting(obj)
		}
		return deleteMark
	}
	if graceful && *o.GracePeriodSeconds > 0 {
		return deleteMark
	}
	return deleteNow
}

// graceful begins a graceful deletion if the kind has one. pending says that a
// deletion is under way and that this one does not shorten it.
func (c *call) graceful(ctx context.Context, obj Object, o *metav1.DeleteOptions) (graceful, pending bool) {
	if c.R.Rules.Grace == nil {
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
		if now := c.e.Clock.Now(); at.Before(now) {
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
	g := c.R.Rules.Grace(ctx, obj, o)
	o.GracePeriodSeconds = &g
	at := metav1.NewTime(c.e.Clock.Now().Add(time.Duration(g) * time.Second))
	obj.SetDeletionTimestamp(&at)
	obj.SetDeletionGracePeriodSeconds(&g)
	if n := obj.GetGeneration(); n > 0 {
		obj.SetGeneration(n + 1)
	}
	return true, false
}

// markDeleting begins the deletion of an object that finalizers still hold.
func (c *call) markDeleting(obj Object) {
	now := metav1.NewTime(c.e.Clock.Now())
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
// propagation policy is stored as one, for the garbage collector.
func (c *call) finalizers(obj Object, o *metav1.DeleteOptions) []string {
	have := obj.GetFinalizers()
	var want string
	switch {
	case c.R.NoGarbageCollection:
	case orphanDependents(o) != nil:
		if *orphanDependents(o) {
			want = metav1.FinalizerOrphanDependents
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
	case c.R.Rules.DefaultOrphan:
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
