package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/admission"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
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
	c.auditSent(obj)
	if c.R.Create != nil {
		return c.createVirtual(ctx, in.out, obj, options)
	}
	c.span.Event("About to store object in database")
	i, err := c.createObject(ctx, obj, options)
	c.wrote(in, err)
	if err != nil {
		return c.storeError(err, c.name)
	}
	defer c.answers().End()
	return c.writeStored(http.StatusCreated, in.out, i)
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
	a := c.attributes(ctx, admission.Create, obj, nil, options, admission.IsDryRun(options.DryRun))
	a.Name = obj.GetName()
	obj, err := admitted[Object](ctx, c.e.Admit, a)
	if err != nil {
		return err
	}
	obj, err = c.R.Create(ctx, obj, options)
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

// createObject decides on a decoded object and stores it.
func (c *call) createObject(ctx context.Context, obj Object, options *metav1.CreateOptions) (*store.Item, error) {
	wipe(obj)
	if err := c.fitNamespace(obj); err != nil {
		return nil, err
	}
	dedupOwners(ctx, obj, false)
	live := c.hub.New()
	live.GetObjectKind().SetGroupVersionKind(c.hub.WithKind(c.R.Kind))
	obj, err := c.track(live, obj, options.FieldManager)
	if err != nil {
		return nil, err
	}
	a := c.attributes(ctx, admission.Create, obj, nil, options, admission.IsDryRun(options.DryRun))
	a.Name = obj.GetName()
	c.asked(ctx, obj, a.DryRun)
	if c.isNamespaces() {
		a.Namespace = obj.GetName()
	}
	if obj, err = c.mutating(ctx, a, obj); err != nil {
		return nil, err
	}
	if err := c.fitNamespace(obj); err != nil {
		return nil, err
	}
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	for try := 0; ; try++ {
		if generated {
			obj.SetName("")
		}
		i, err := c.store(ctx, obj, a)
		if errors.Is(err, store.ErrTooLarge) && obj.GetManagedFields() != nil {
			// The managers can be larger than the object, so it is stored
			// without them.
			obj.SetManagedFields(nil)
			continue
		}
		if generated && errors.Is(err, store.ErrExists) {
			if try < generateTries {
				continue
			}
			return nil, apierrors.NewGenerateNameConflict(c.gr(), obj.GetName(), 1)
		}
		if errors.Is(err, store.ErrExists) {
			return nil, c.alreadyExists(ctx, obj.GetName())
		}
		if err != nil {
			return nil, err
		}
		c.awaitSeen(ctx, options.DryRun)
		c.told(ctx, nil, obj, i, options.DryRun)
		return i, nil
	}
}

// alreadyExists refuses a name that is taken, and tells if what has it is being deleted: clients then try again.
func (c *call) alreadyExists(ctx context.Context, name string) error {
	err := apierrors.NewAlreadyExists(c.gr(), name)
	if i, gerr := c.view.Latest(ctx, c.key(name)); gerr == nil { // the view may be behind
		if old, derr := c.Decode(i); derr == nil && old.GetDeletionTimestamp() != nil {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
	}
	return err
}

// generateTries is how often another name is generated when one is taken.
const generateTries = 7

// store completes and checks a new object and stores it. A dry run only checks,
// and returns an item without a revision. The answer is made from the stored
// bytes, not from obj: they differ in empty lists.
func (c *call) store(ctx context.Context, obj Object, a *admission.Attributes) (*store.Item, error) {
	c.e.born(obj)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(c.e.generateName(obj.GetGenerateName()))
	}
	r := &c.R.Rules
	end := func(bool) {}
	// An object created by an update of its status gets nothing allocated for
	// its spec, as in kube-apiserver.
	if r.BeginCreate != nil && c.sub == nil {
		f, err := r.BeginCreate(ctx, obj, a.DryRun)
		if err != nil {
			return nil, err
		}
		if f != nil {
			end = f
		}
	}
	i, err := c.checkAndStore(ctx, obj, a)
	end(err == nil)
	return i, err
}

func (c *call) checkAndStore(ctx context.Context, obj Object, a *admission.Attributes) (*store.Item, error) {
	r := &c.R.Rules
	if r.PrepareCreate != nil {
		r.PrepareCreate(ctx, obj)
	}
	if r.Validate != nil {
		if errs := r.Validate(ctx, obj); len(errs) > 0 {
			return nil, c.invalid(obj, errs)
		}
	}
	if errs := c.checkMeta(obj); len(errs) > 0 {
		return nil, c.invalid(obj, errs)
	}
	if r.Warn != nil {
		for _, w := range r.Warn(ctx, obj, nil) {
			request.AddWarning(ctx, w)
		}
	}
	if a.Name == "" {
		a.Name = obj.GetName()
	}
	a.Object = obj
	if err := c.e.Admit.Validate(ctx, a); err != nil {
		return nil, err
	}
	key := key(obj.GetNamespace(), obj.GetName())
	value, err := c.toStorage(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", c.R.Plural, key, err)
	}
	if a.DryRun {
		if err := c.view.Fresh(ctx); err != nil {
			return nil, err
		}
		if _, err := c.view.Get(ctx, key); err == nil {
			return nil, store.ErrExists
		}
		return store.NewItem(key, 0, value), nil
	}
	w := c.written(obj, value)
	return reserved(ctx, a.Reserved, func(g ...store.Guard) (*store.Item, error) {
		return c.view.Create(ctx, key, w, g...)
	})
}

// written is what is stored of obj, whose encoding is value. Setting the defaults
// of obj once more tells whether a reader has to: a writer may have emptied what
// has a default. Nobody asks for kinds that are decoded for each answer.
func (c *call) written(obj Object, value []byte) store.Write {
	w := store.Write{Value: value, TTL: c.ttl(obj)}
	if c.R.Codec != nil || c.R.decodedAlways() {
		return w
	}
	if c.hub.Default == nil {
		w.Complete = true
		return w
	}
	c.hub.Default(obj)
	again, err := c.toStorage(obj)
	w.Complete = err == nil && bytes.Equal(again, value)
	return w
}

func (c *call) ttl(obj Object) time.Duration {
	if c.R.TTL == nil {
		return 0
	}
	return c.R.TTL(obj)
}

// attributes describes the write to admission. It sets the type of the options,
// because webhooks get them as objects.
func (c *call) attributes(ctx context.Context, op admission.Operation, obj, old Object, options runtime.Object, dryRun bool) *admission.Attributes {
	a := &admission.Attributes{
		Operation: op, Kind: c.GVK, Resource: c.GVR, Namespace: c.namespace, Name: c.name,
		Options: options, DryRun: dryRun, User: request.UserFrom(ctx), Versions: versions{c.Endpoint}, Collection: c.collection,
	}
	switch o := options.(type) {
	case *metav1.CreateOptions:
		o.TypeMeta = createOptionsMeta
	case *metav1.UpdateOptions:
		o.TypeMeta = updateOptionsMeta
	case *metav1.DeleteOptions:
		o.TypeMeta = deleteOptionsMeta
	}
	if c.sub != nil {
		a.Subresource = c.sub.Name
	}
	if c.isNamespaces() {
		a.Namespace = c.name
	}
	if obj != nil {
		a.Object = obj
	}
	if old != nil {
		a.OldObject = old
	}
	return a
}

var (
	createOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}
	updateOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"}
	deleteOptionsMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "DeleteOptions"}
)

// isNamespaces says that the resource is namespaces. A namespace counts as
// being inside itself.
func (c *call) isNamespaces() bool { return c.R.Plural == "namespaces" && c.GVR.Group == "" }

// createSubresource answers a POST to a subresource (binding, eviction, token).
func (c *call) createSubresource() error {
	in, options, err := c.createInput(restrict{protobuf: true}, true)
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
	a := c.attributes(ctx, admission.Create, obj, nil, options, admission.IsDryRun(options.DryRun))
	a.Kind = gvk
	if obj, err = admitted[Object](ctx, c.e.Admit, a); err != nil {
		return err
	}
	result, err := c.sub.Create(ctx, c.name, obj, options)
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

// admitted passes an object that will not be stored through admission, and
// returns it as plugins have changed it.
func admitted[T runtime.Object](ctx context.Context, chain Admission, a *admission.Attributes) (T, error) {
	var none T
	if err := chain.Admit(ctx, a); err != nil {
		return none, err
	}
	if err := chain.Validate(ctx, a); err != nil {
		return none, err
	}
	obj, ok := a.Object.(T)
	if !ok {
		return none, admission.WrongType(a)
	}
	return obj, nil
}
