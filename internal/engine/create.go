package engine

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// writeTimeout bounds a write, whatever deadline the request has.
const writeTimeout = 34 * time.Second

// create stores a new object.
func (c *call) create() error {
	in, options, err := c.createInput(c.restrict(), c.typed)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	obj, err := c.converted(ctx, in, options.FieldValidation)
	if err != nil {
		return err
	}
	c.auditSent(ctx, obj)
	if c.R.Create != nil {
		return c.createVirtual(ctx, in.out, obj, options)
	}
	c.span.Event("About to store object in database")
	out, err := c.createObject(ctx, obj, options)
	c.traceStored(in, err)
	return c.answer(in.out, out, err)
}

// input is the input of a write: its body, the body's encoding and the form of
// the answer that the client wants.
type input struct {
	out   output
	media media
	body  []byte
}

// createInput reads a POST and checks it, in the same order as kube-apiserver.
func (c *call) createInput(r restrict, typed bool) (in input, options *metav1.CreateOptions, err error) {
	options = &metav1.CreateOptions{}
	if in.out, err = negotiate(c.req, r); err != nil {
		return in, nil, err
	}
	if in.media, err = inputMedia(c.req, typed); err != nil {
		return in, nil, err
	}
	if in.body, err = c.body(); err != nil {
		return in, nil, err
	}
	if err = c.decodeQuery(options); err != nil {
		return in, nil, err
	}
	return in, options, invalidOptions("CreateOptions", validation.ValidateCreateOptions(options))
}

// createVirtual answers a review.
func (c *call) createVirtual(ctx context.Context, out output, obj Object, options *metav1.CreateOptions) error {
	if err := c.fitNamespace(obj); err != nil {
		return err
	}
	c.dryRun = admission.IsDryRun(options.DryRun)
	a := c.attributes(ctx, admission.Create, obj, nil, options)
	a.Name = obj.GetName()
	obj, err := c.mutating(ctx, a, obj)
	if err != nil {
		return err
	}
	check := c.check(a)
	if obj, err = c.R.Create(ctx, obj, check.ask, options); err == nil {
		err = check.asked()
	}
	if err != nil {
		return c.storeError(err, a.Name)
	}
	defer c.answers().End()
	if obj == nil {
		st := &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
		st.SetGroupVersionKind(statusGVK)
		return writeAny(c.w, c.req, http.StatusCreated, out, st)
	}
	obj.GetObjectKind().SetGroupVersionKind(c.GVK)
	return c.writeObject(http.StatusCreated, out, obj)
}

// createSubresource answers a POST to a subresource (binding, eviction, token).
func (c *call) createSubresource() error {
	in, options, err := c.createInput(restrict{protobuf: true, routed: true, partial: partialKind}, true)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	gvk := c.subKind()
	obj := c.sub.New()
	if l := request.LocalFrom(c.req); l != nil && l.Object != nil {
		obj, _ = l.Object.DeepCopyObject().(Object)
	} else if err := decodeBody(ctx, in.body, in.media, obj, gvk, options.FieldValidation, nil, c.sub.Alike...); err != nil {
		return err
	}
	auditRequest(c.req, obj)
	if err := c.fitNamespace(obj); err != nil {
		return err
	}
	c.dryRun = admission.IsDryRun(options.DryRun)
	a := c.attributes(ctx, admission.Create, obj, nil, options)
	a.Kind = gvk
	if obj, err = c.mutating(ctx, a, obj); err != nil {
		return err
	}
	check := c.check(a)
	result, err := c.sub.Create(ctx, c.name, obj, check.ask, options)
	if err == nil {
		err = check.asked()
	}
	if err != nil {
		return c.storeError(err, c.name)
	}
	defer c.answers().End()
	code := http.StatusCreated
	if st, ok := result.(*metav1.Status); ok {
		st.SetGroupVersionKind(statusGVK)
		if st.Code == 0 {
			st.Code = int32(code)
		}
		code = int(st.Code)
	} else {
		result.GetObjectKind().SetGroupVersionKind(gvk)
	}
	if obj, ok := result.(Object); ok && in.out.shape == shapePartial {
		result = c.partialOf(obj, in.out)
	}
	return writeAny(c.w, c.req, code, in.out, result)
}

// subKind is the kind of a subresource's bodies.
func (c *call) subKind() schema.GroupVersionKind { return subKind(c.sub, c.GVK) }

// subKind is the kind of the bodies of a subresource of a kind.
func subKind(s *Subresource, of schema.GroupVersionKind) schema.GroupVersionKind {
	gvk := s.Kind
	if gvk.Version == "" {
		gvk.Group, gvk.Version = of.Group, of.Version
	}
	if gvk.Kind == "" {
		gvk.Kind = of.Kind
	}
	return gvk
}

// check asks admission's validation about an object that will not be stored, when who answers says that it is ready for that.
func (c *call) check(a *admission.Attributes) *checking { return &checking{admission: c.e.Admit, a: a} }

type checking struct {
	admission Admission
	a         *admission.Attributes
	done      bool
}

// ask is a Check.
func (k *checking) ask(ctx context.Context, obj Object) error {
	k.a.Object, k.done = obj, true
	return k.admission.Validate(ctx, k.a)
}

// asked is an error if an answer was given without asking.
func (k *checking) asked() error {
	if !k.done {
		return apierrors.NewInternalError(fmt.Errorf("nobody has asked admission about %s", k.a.Kind))
	}
	return nil
}
