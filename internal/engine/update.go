package engine

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// update replaces an object, or its status or scale.
func (c *call) update() error {
	if c.sub != nil && c.sub.Scale != nil {
		return c.updateScale()
	}
	out, err := negotiate(c.req, c.restrict())
	if err != nil {
		return err
	}
	body, err := c.e.readBody(c.req)
	if err != nil {
		return err
	}
	options := &metav1.UpdateOptions{}
	if err := c.decodeQuery(options); err != nil {
		return err
	}
	if err := invalidOptions("UpdateOptions", validation.ValidateUpdateOptions(options)); err != nil {
		return err
	}
	m, err := inputMedia(c.req, c.typed)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	sent, err := c.decode(ctx, body, m, options.FieldValidation)
	if err != nil {
		return err
	}
	if err := c.fitNamespace(sent); err != nil {
		return err
	}
	if err := c.fitName(sent); err != nil {
		return err
	}
	dedupOwners(ctx, sent, false)
	res, err := c.change(ctx, &change{
		rules: c.rules(), options: options, uid: string(sent.GetUID()),
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			obj, err := c.track(old, sent.DeepCopyObject().(Object), options.FieldManager)
			if err != nil {
				return nil, err
			}
			return obj, c.admit(ctx, obj, old, exists, options)
		},
	})
	return c.answer(out, res, err)
}

// rules are those of what the path names: the object or its subresource.
func (c *call) rules() *Rules {
	if c.sub != nil && c.sub.Rules != nil {
		return c.sub.Rules
	}
	return &c.R.Rules
}

// answer writes the outcome of a change.
func (c *call) answer(out output, res *outcome, err error) error {
	if err != nil {
		return c.storeError(err, c.name)
	}
	code := http.StatusOK
	if res.created {
		code = http.StatusCreated
	}
	return c.writeObject(code, out, res.obj)
}
