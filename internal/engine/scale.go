package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/store"
)

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// restrictScale says what a scale can be answered with. That of a custom resource may be sent in protobuf, but is not answered in it.
func (c *call) restrictScale() restrict {
	return restrict{protobuf: c.typed, routed: c.typed, table: true, partial: partialKind}
}

// scaleOf is the scale of an object.
func (w *write) scaleOf(obj Object) (*autoscalingv1.Scale, error) {
	replicas, status, selector, err := w.sub.Scale.Get(obj)
	if err != nil && !errors.As(err, new(NoReplicas)) {
		return nil, err
	}
	s := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector},
	}
	s.SetGroupVersionKind(scaleGVK)
	return s, err
}

func (c *call) writeScaleOf(out output, i *store.Item) error {
	obj, err := c.Decode(c.req.Context(), i)
	if err != nil {
		return err
	}
	return c.writeScale(http.StatusOK, out, obj)
}

func (c *call) writeScale(code int, out output, obj Object) error {
	s, err := c.scaleOf(obj)
	if errors.As(err, new(NoReplicas)) && c.info.Verb == "get" {
		return apierrors.NewInternalError(err)
	}
	if s == nil {
		return err
	}
	switch out.shape {
	case shapeTable:
		t, err := c.tableOf(out, c.scaleTable(), []Object{s}, metav1.ListMeta{ResourceVersion: s.ResourceVersion})
		if err != nil {
			return err
		}
		return writeAny(c.w, c.req, code, out, t)
	case shapePartial:
		return writeAny(c.w, c.req, code, out, c.partialOf(s, out))
	}
	return writeAny(c.w, c.req, code, out, s)
}

// updateScale writes the replica count that a PUT asks for.
func (c *call) updateScale() error {
	in, options, err := c.updateInput(c.restrictScale(), true)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	sent := &autoscalingv1.Scale{}
	if err := decodeBody(ctx, in.body, in.media, sent, scaleGVK, options.FieldValidation, nil); err != nil {
		return err
	}
	auditRequest(c.req, sent)
	if err := c.fitNamespace(sent); err != nil {
		return err
	}
	if err := c.fitName(sent); err != nil {
		return err
	}
	dedupOwners(ctx, sent, false)
	return c.rescale(ctx, in.out, options, string(sent.UID), func(context.Context, *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		return sent.DeepCopy(), nil
	}, nil)
}

// patchScale writes the replica count that a patch of the scale asks for.
func (c *call) patchScale(kind types.PatchType) error {
	out, err := negotiate(c.req, c.restrictScale())
	if err != nil {
		return err
	}
	body, options, err := c.patchBody(kind)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), writeTimeout)
	defer cancel()
	uo := &metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation}
	patch := func(ctx context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		obj := &autoscalingv1.Scale{}
		if kind == types.StrategicMergePatchType {
			err = strategicMerge(ctx, live, body, obj, options.FieldValidation)
		} else {
			err = jsonPatched(ctx, kind, live, body, obj, options.FieldValidation, nil)
		}
		if err != nil {
			return nil, err
		}
		// A strategic merge patch never changes the kind, whatever the patch
		// says.
		if kind != types.StrategicMergePatchType {
			if err := c.checkPatchedType(obj, scaleGVK, body); err != nil {
				return nil, err
			}
		}
		obj.SetGroupVersionKind(scaleGVK)
		if err := c.fitNamespace(obj); err != nil {
			return nil, err
		}
		return obj, c.fitName(obj)
	}
	if applies(kind) {
		return c.rescale(ctx, out, uo, "", nil, &scaleApply{kind, body, options})
	}
	return c.rescale(ctx, out, uo, "", patch, nil)
}

// unset stands for the missing replica count of an object: no client can mean
// this value.
const unset = math.MinInt32

// scaleApply is a server-side apply of a scale.
type scaleApply struct {
	kind    types.PatchType
	body    []byte
	options *metav1.PatchOptions
}

// rescale changes the object's scale by edit, or by an apply.
func (c *call) rescale(ctx context.Context, out output, options *metav1.UpdateOptions, uid string,
	edit func(ctx context.Context, live *autoscalingv1.Scale) (*autoscalingv1.Scale, error), apply *scaleApply) error {
	res, err := c.changeObject(ctx, &change{
		rules: &c.R.Rules, options: options, uid: uid,
		view: func(obj Object) (schema.GroupVersionKind, Object, error) {
			s, err := c.scaleOf(obj)
			var none NoReplicas
			if errors.As(err, &none) {
				err = nil
			}
			return scaleGVK, s, err
		},
		mutate: func(ctx context.Context, old Object, exists bool) (Object, error) {
			live, err := c.scaleOf(old)
			var none NoReplicas
			if errors.As(err, &none) {
				live.Spec.Replicas = unset
			} else if err != nil {
				return nil, err
			}
			handler := managedfields.NewScaleHandler(old.GetManagedFields(), c.GVR.GroupVersion(), c.replicasPaths(c.sub.Scale))
			if live.ManagedFields, err = handler.ToSubresource(); err != nil {
				return nil, err
			}
			m, err := c.scaleManager()
			if err != nil {
				return nil, err
			}
			var s *autoscalingv1.Scale
			if apply != nil {
				s, err = c.appliedScale(ctx, m, live, apply)
			} else if s, err = edit(ctx, live.DeepCopy()); err == nil {
				s, err = trackedScale(ctx, m, live, s, managerName(options.FieldManager, c.agent))
			}
			if err != nil {
				return nil, err
			}
			if s, err = c.admitScale(ctx, s, live, options); err != nil {
				return nil, err
			}
			dedupOwners(ctx, s, true)
			if s.Spec.Replicas == unset {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", string(none)))
			}
			if c.typed { // custom resources are validated by their schemas
				if err := validateScale(s); err != nil {
					return nil, err
				}
				if err := c.scaleIsOf(s, old); err != nil {
					return nil, err
				}
			}
			obj := old.DeepCopyObject().(Object)
			if err := c.sub.Scale.Set(obj, s.Spec.Replicas); err != nil {
				return nil, err
			}
			if s.ResourceVersion != "" || c.typed {
				obj.SetResourceVersion(s.ResourceVersion)
			}
			after := managedfields.NewScaleHandler(obj.GetManagedFields(), c.GVR.GroupVersion(), c.replicasPaths(c.sub.Scale))
			managed, err := after.ToParent(s.ManagedFields)
			if err != nil {
				return nil, err
			}
			obj.SetManagedFields(managed)
			return obj, nil
		},
	})
	if err != nil {
		return c.storeError(err, c.name)
	}
	if res.item == nil {
		return c.writeScale(http.StatusOK, out, res.obj)
	}
	return c.writeScaleOf(out, res.item)
}

func trackedScale(ctx context.Context, m *fieldmanager.Manager, live, s *autoscalingv1.Scale, manager string) (*autoscalingv1.Scale, error) {
	out, err := m.Update(ctx, live.DeepCopy(), s, manager)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out.(*autoscalingv1.Scale), nil
}

func (w *write) appliedScale(ctx context.Context, m *fieldmanager.Manager, live *autoscalingv1.Scale, a *scaleApply) (*autoscalingv1.Scale, error) {
	config, strict, err := decodeConfig(a.kind, a.body, directive(a.options.FieldValidation) != metav1.FieldValidationIgnore)
	if err != nil {
		return nil, err
	}
	force := a.options.Force != nil && *a.options.Force
	got, err := m.Apply(ctx, live, config, a.options.FieldManager, force)
	if err != nil {
		return nil, err
	}
	if err := strictConfig(ctx, strict, a.options.FieldValidation); err != nil {
		return nil, err
	}
	s, ok := got.(*autoscalingv1.Scale)
	if !ok {
		s = &autoscalingv1.Scale{}
		b, err := json.Marshal(got)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, s); err != nil {
			return nil, err
		}
	}
	if err := w.fitNamespace(s); err != nil {
		return nil, err
	}
	return s, w.fitName(s)
}

func (w *write) replicasPaths(s *Scale) managedfields.ResourcePathMappings {
	m := managedfields.ResourcePathMappings{}
	for _, v := range w.R.Versions {
		m[v.GroupVersion.String()] = s.Path
	}
	return m
}

// validateScale validates a scale as an object of its own.
func validateScale(s *autoscalingv1.Scale) error {
	errs := metavalidation.ValidateManagedFields(s.ManagedFields, metadataPath.Child("managedFields")) // other metadata is not stored
	if s.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(scaleGVK.GroupKind(), s.Name, errs)
	}
	return nil
}

// scaleIsOf refuses a scale that a patch or a webhook has given another UID. Those of custom resources may have any.
func (w *write) scaleIsOf(s *autoscalingv1.Scale, obj Object) error {
	if s.UID == "" || s.UID == obj.GetUID() {
		return nil
	}
	gr := w.gr()
	gr.Resource += "/scale"
	//lint:ignore ST1005 kube-apiserver's words
	return apierrors.NewConflict(gr, w.name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", s.UID, obj.GetUID()))
}

// admitScale lets admission change the scale.
func (w *write) admitScale(ctx context.Context, s, live *autoscalingv1.Scale, options *metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.SetGroupVersionKind(scaleGVK)
	a := w.attributes(ctx, admission.Update, s, live, options)
	a.Kind = scaleGVK
	if err := w.e.Admit.Admit(ctx, a); err != nil {
		return nil, err
	}
	s, ok := a.Object.(*autoscalingv1.Scale)
	if !ok {
		return nil, admission.WrongType(a)
	}
	return s, nil
}

// scaleManager manages the fields of scales.
func (w *write) scaleManager() (*fieldmanager.Manager, error) {
	a := w.prepared()
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.manager["scale"]; m != nil {
		return m, nil
	}
	scales := &Endpoint{
		R: &Resource{Plural: "scale", Versions: []*Version{scaleVersion}},
		V: scaleVersion, hub: scaleVersion, typed: true, GVK: scaleGVK,
	}
	m, err := fieldmanager.New(fieldmanager.Config{
		Types: w.e.Types, Versions: scales.versionsFor, Clock: w.e.Clock, Kind: scaleGVK, Hub: scaleGVK.GroupVersion(), Subresource: "scale",
	})
	if err != nil {
		return nil, err
	}
	a.manager["scale"] = m
	return m, nil
}

var scaleVersion = &Version{
	GroupVersion: schema.GroupVersion{Group: scaleGVK.Group, Version: scaleGVK.Version},
	New:          func() Object { return &autoscalingv1.Scale{} },
}
