package resource

import (
	"context"
	"fmt"
	"reflect"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// In v1beta1, a request for devices has the fields of what later became exactly, and a device keeps most of its fields in basic.
// Everything else is as in v1.

var v1beta1 = resourcev1beta1.SchemeGroupVersion

// claimV1beta1 is the older version of claims.
func claimV1beta1() *engine.Version {
	v := engine.VersionOf[resourcev1beta1.ResourceClaim, resourcev1beta1.ResourceClaimList](v1beta1,
		func(c *resourcev1beta1.ResourceClaim) { defaultV1beta1(&c.Spec) })
	v.ToHub = converted(func(in *resourcev1beta1.ResourceClaim, out *resourcev1.ResourceClaim) {
		requestsToV1(in.Spec.Devices.Requests, out.Spec.Devices.Requests)
		out.TypeMeta = metav1.TypeMeta{}
	})
	v.FromHub = converted(func(in *resourcev1.ResourceClaim, out *resourcev1beta1.ResourceClaim) {
		requestsFromV1(in.Spec.Devices.Requests, out.Spec.Devices.Requests)
		out.TypeMeta = metav1.TypeMeta{}
	})
	return v
}

// templateV1beta1 is the older version of templates of claims.
func templateV1beta1() *engine.Version {
	v := engine.VersionOf[resourcev1beta1.ResourceClaimTemplate, resourcev1beta1.ResourceClaimTemplateList](v1beta1,
		func(t *resourcev1beta1.ResourceClaimTemplate) { defaultV1beta1(&t.Spec.Spec) })
	v.ToHub = converted(func(in *resourcev1beta1.ResourceClaimTemplate, out *resourcev1.ResourceClaimTemplate) {
		requestsToV1(in.Spec.Spec.Devices.Requests, out.Spec.Spec.Devices.Requests)
		out.TypeMeta = metav1.TypeMeta{}
	})
	v.FromHub = converted(func(in *resourcev1.ResourceClaimTemplate, out *resourcev1beta1.ResourceClaimTemplate) {
		requestsFromV1(in.Spec.Spec.Devices.Requests, out.Spec.Spec.Devices.Requests)
		out.TypeMeta = metav1.TypeMeta{}
	})
	return v
}

// sliceV1beta1 is the older version of slices.
func sliceV1beta1(d Deps) *engine.Version {
	v := engine.VersionOf[resourcev1beta1.ResourceSlice, resourcev1beta1.ResourceSliceList](v1beta1, d.defaultSliceV1beta1)
	v.ToHub = converted(func(in *resourcev1beta1.ResourceSlice, out *resourcev1.ResourceSlice) {
		out.TypeMeta = metav1.TypeMeta{}
		if in.Spec.NodeName != "" {
			out.Spec.NodeName = &in.Spec.NodeName
		}
		if in.Spec.AllNodes {
			out.Spec.AllNodes = &in.Spec.AllNodes
		}
		for i := range in.Spec.Devices {
			if basic := in.Spec.Devices[i].Basic; basic != nil {
				copyAlike(reflect.ValueOf(basic).Elem(), reflect.ValueOf(&out.Spec.Devices[i]).Elem())
			}
		}
	})
	v.FromHub = converted(func(in *resourcev1.ResourceSlice, out *resourcev1beta1.ResourceSlice) {
		out.TypeMeta = metav1.TypeMeta{}
		if in.Spec.NodeName != nil {
			out.Spec.NodeName = *in.Spec.NodeName
		}
		out.Spec.AllNodes = in.Spec.AllNodes != nil && *in.Spec.AllNodes
		for i := range in.Spec.Devices {
			basic := &resourcev1beta1.BasicDevice{}
			copyAlike(reflect.ValueOf(&in.Spec.Devices[i]).Elem(), reflect.ValueOf(basic).Elem())
			out.Spec.Devices[i].Basic = basic
		}
	})
	return v
}

// requestsToV1 makes exactly of each request that has one of its fields. If that is wrong, the validation says so.
func requestsToV1(in []resourcev1beta1.DeviceRequest, out []resourcev1.DeviceRequest) {
	for i := range in {
		r := &in[i]
		if r.DeviceClassName != "" || r.Selectors != nil || r.AllocationMode != "" || r.Count != 0 || r.AdminAccess != nil ||
			r.Tolerations != nil || r.Capacity != nil || r.DerivedAttributes != nil {
			out[i].Exactly = &resourcev1.ExactDeviceRequest{}
			copyAlike(reflect.ValueOf(r).Elem(), reflect.ValueOf(out[i].Exactly).Elem())
		}
	}
}

func requestsFromV1(in []resourcev1.DeviceRequest, out []resourcev1beta1.DeviceRequest) {
	for i := range in {
		if in[i].Exactly != nil {
			copyAlike(reflect.ValueOf(in[i].Exactly).Elem(), reflect.ValueOf(&out[i]).Elem())
		}
	}
}

// defaultV1beta1 has no defaults for a request without a class, which has alternatives.
func defaultV1beta1(s *resourcev1beta1.ResourceClaimSpec) {
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.DeviceClassName != "" {
			defaultCount(&r.AllocationMode, &r.Count)
		}
		tolerateV1beta1(r.Tolerations)
		for k := range r.FirstAvailable {
			sub := &r.FirstAvailable[k]
			defaultCount(&sub.AllocationMode, &sub.Count)
			tolerateV1beta1(sub.Tolerations)
		}
	}
}

func tolerateV1beta1(list []resourcev1beta1.DeviceToleration) {
	for i := range list {
		rules.Default(&list[i].Operator, resourcev1beta1.DeviceTolerationOpEqual)
	}
}

func (d Deps) defaultSliceV1beta1(s *resourcev1beta1.ResourceSlice) {
	for i := range s.Spec.Devices {
		basic := s.Spec.Devices[i].Basic
		if basic == nil {
			continue
		}
		for k := range basic.Taints {
			d.defaultTime(&basic.Taints[k].TimeAdded)
		}
	}
}

// converted makes a conversion out of what remains once the fields of the same name are copied.
func converted[I, O any, PI interface {
	*I
	engine.Object
}, PO interface {
	*O
	engine.Object
}](rest func(in PI, out PO)) func(context.Context, engine.Object) (engine.Object, error) {
	return func(_ context.Context, obj engine.Object) (engine.Object, error) {
		in, ok := obj.(PI)
		if !ok {
			return nil, fmt.Errorf("%T is no %T", obj, in)
		}
		out := PO(new(O))
		copyAlike(reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem())
		rest(in, out)
		return out, nil
	}
}

// copyAlike copies a value to another of the same form, whose type may be of another package. Fields of structs that the other has
// not, or of another kind, are left out. What has the same type in both is shared.
func copyAlike(from, to reflect.Value) {
	if from.Type() == to.Type() {
		to.Set(from)
		return
	}
	if from.Kind() != to.Kind() {
		return
	}
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			copyAlike(from.Elem(), to.Elem())
		}
	case reflect.Struct:
		for i := range to.NumField() {
			if f := from.FieldByName(to.Type().Field(i).Name); f.IsValid() {
				copyAlike(f, to.Field(i))
			}
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyAlike(from.Index(i), to.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
			for _, key := range from.MapKeys() {
				value := reflect.New(to.Type().Elem()).Elem()
				copyAlike(from.MapIndex(key), value)
				to.SetMapIndex(key.Convert(to.Type().Key()), value)
			}
		}
	default:
		to.Set(from.Convert(to.Type()))
	}
}
