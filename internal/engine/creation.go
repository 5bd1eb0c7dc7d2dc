package engine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// createObject stores a new object.
func (w *write) createObject(ctx context.Context, obj Object, options *metav1.CreateOptions) (*outcome, error) {
	w.anew, w.dryRun = true, admission.IsDryRun(options.DryRun)
	wipe(obj)
	if err := w.fitNamespace(obj); err != nil {
		return nil, err
	}
	dedupOwners(ctx, obj, false)
	obj, err := w.track(ctx, w.none(), obj, options.FieldManager)
	if err != nil {
		return nil, err
	}
	a := w.attributes(ctx, admission.Create, obj, nil, options)
	a.Name = obj.GetName()
	w.recordTarget(ctx, obj)
	if w.isNamespaces() {
		a.Namespace = obj.GetName()
	}
	if obj, err = w.mutating(ctx, a, obj); err != nil {
		return nil, err
	}
	if err := w.fitNamespace(obj); err != nil {
		return nil, err
	}
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	return w.perform(ctx, nil, true, func(ctx context.Context, _ *store.Item) (*decision, error) {
		if generated {
			obj.SetName("")
			a.Name = ""
		}
		d, err := w.decideCreate(ctx, obj, a)
		if err == nil {
			d.generated, d.slims = generated, true
		}
		return d, err
	})
}

// none is what is there before an object exists.
func (w *write) none() Object {
	obj := w.hub.New()
	obj.GetObjectKind().SetGroupVersionKind(w.hub.WithKind(w.R.Kind))
	return obj
}

// decideCreate completes and checks a new object, which mutating admission has seen. The answer to it is made from the stored
// bytes, not from obj: they differ in empty lists.
func (w *write) decideCreate(ctx context.Context, obj Object, a *admission.Attributes) (*decision, error) {
	w.e.born(obj)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(w.e.generateName(obj.GetGenerateName()))
	}
	var end func(stored bool)
	// An object created by an update of its status gets nothing allocated for
	// its spec, as in kube-apiserver.
	if begin := w.R.Rules.BeginCreate; begin != nil && w.sub == nil {
		var err error
		if end, err = begin(ctx, obj, w.dryRun); err != nil {
			return nil, err
		}
	}
	d, err := w.checkedCreate(ctx, obj, a)
	return ending(end, d, err)
}

// ending leaves to a decision the end of what was begun for it (nil: nothing was). Without a decision it ends now.
func ending(end func(stored bool), d *decision, err error) (*decision, error) {
	switch {
	case end == nil:
	case err != nil:
		end(false)
	default:
		d.ended = end
	}
	return d, err
}

func (w *write) checkedCreate(ctx context.Context, obj Object, a *admission.Attributes) (*decision, error) {
	r := &w.R.Rules
	if r.PrepareCreate != nil {
		r.PrepareCreate(ctx, obj)
	}
	if r.Validate != nil {
		if errs := r.Validate(ctx, obj); len(errs) > 0 {
			return nil, w.invalid(obj, errs)
		}
	}
	if errs := w.checkMeta(obj); len(errs) > 0 {
		return nil, w.invalid(obj, errs)
	}
	if r.Warn != nil {
		for _, text := range r.Warn(ctx, obj, nil) {
			request.AddWarning(ctx, text)
		}
	}
	if a.Name == "" {
		a.Name = obj.GetName()
	}
	a.Object = obj
	if err := w.e.Admit.Validate(ctx, a); err != nil {
		return nil, err
	}
	d, err := w.putting(ctx, nil, obj, nil)
	if err == nil {
		d.reserved = a.Reserved
	}
	return d, err
}
