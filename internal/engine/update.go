package engine

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/request"
)

// update replaces an object, or its status or scale.
func (c *call) update() error {
	if c.sub != nil && c.sub.Scale != nil {
		return c.updateScale()
	}
	in, options, err := c.updateInput(c.restrict(), c.typed)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	if l := request.LocalFrom(c.req); l != nil && l.Edit != nil {
		res, err := c.edit(ctx, l.Edit, options)
		return c.answer(in.out, res, err)
	}
	sent, err := c.converted(ctx, in, options.FieldValidation)
	if err != nil {
		return err
	}
	c.auditSent(ctx, sent)
	if err := c.fitNamespace(sent); err != nil {
		return err
	}
	if err := c.fitName(sent); err != nil {
		return err
	}
	dedupOwners(ctx, sent, false)
	c.span.Event("About to store object in database")
	res, err := c.changeObject(ctx, &change{
		rules: c.rules(), options: options, uid: string(sent.GetUID()),
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			obj, err := c.track(ctx, old, sent.DeepCopyObject().(Object), options.FieldManager)
			if err != nil {
				return nil, err
			}
			return c.admit(ctx, obj, old, exists, options)
		},
	})
	c.traceStored(in, err)
	return c.answer(in.out, res, err)
}

// edit changes the stored object by a func.
func (w *write) edit(ctx context.Context, edit func(obj runtime.Object) error, options *metav1.UpdateOptions) (*outcome, error) {
	return w.changeObject(ctx, &change{
		rules: w.rules(), options: options,
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			if !exists {
				return nil, apierrors.NewNotFound(w.gr(), w.name)
			}
			obj := old.DeepCopyObject().(Object)
			if err := edit(obj); err != nil {
				return nil, err
			}
			w.auditSent(ctx, obj)
			obj, err := w.track(ctx, old, obj, options.FieldManager)
			if err != nil {
				return nil, err
			}
			return w.admit(ctx, obj, old, exists, options)
		},
	})
}

// answer writes the result of a change.
func (c *call) answer(out output, res *outcome, err error) error {
	if err != nil {
		return c.storeError(err, c.name)
	}
	defer c.answers().End()
	code := http.StatusOK
	if res.created {
		code = http.StatusCreated
	}
	if res.item == nil {
		return c.writeObject(code, out, res.obj)
	}
	return c.writeStored(code, out, res.item)
}

// updateInput reads a PUT and checks it, in the same order as kube-apiserver,
// which differs from that of a POST.
func (c *call) updateInput(r restrict, typed bool) (in input, options *metav1.UpdateOptions, err error) {
	options = &metav1.UpdateOptions{}
	if in.out, err = negotiate(c.req, r); err != nil {
		return in, nil, err
	}
	if in.body, err = c.body(); err != nil {
		return in, nil, err
	}
	if err = c.decodeQuery(options); err != nil {
		return in, nil, err
	}
	if err = invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(options)); err != nil {
		return in, nil, err
	}
	in.media, err = inputMedia(c.req, typed)
	return in, options, err
}
