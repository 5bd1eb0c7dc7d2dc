package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// declare declares an object type by its fields. Names that end in "?" are
// optional.
func declare(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	out := make(map[string]*apiservercel.DeclField, len(fields))
	for n, t := range fields {
		required := true
		if n[len(n)-1] == '?' {
			n, required = n[:len(n)-1], false
		}
		out[n] = apiservercel.NewDeclField(n, t, required, nil, nil)
	}
	return apiservercel.NewObjectType(name, out)
}

// RequestType is the type of "request": the admission request.
func RequestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	list := apiservercel.NewListType(text, -1)
	kind := declare("kubernetes.GroupVersionKind", map[string]*apiservercel.DeclType{
		"group": text, "version": text, "kind": text,
	})
	resource := declare("kubernetes.GroupVersionResource", map[string]*apiservercel.DeclType{
		"group": text, "version": text, "resource": text,
	})
	user := declare("kubernetes.UserInfo", map[string]*apiservercel.DeclType{
		"username?": text, "uid?": text, "groups?": list, "extra?": apiservercel.NewMapType(text, list, -1),
	})
	return declare("kubernetes.AdmissionRequest", map[string]*apiservercel.DeclType{
		"kind": kind, "resource": resource, "subResource?": text,
		"requestKind": kind, "requestResource": resource, "requestSubResource?": text,
		"name": text, "namespace?": text, "operation": text, "userInfo": user,
		"dryRun?": apiservercel.BoolType, "options?": apiservercel.DynType,
	})
}

// NamespaceType is the type of "namespaceObject".
func NamespaceType() *apiservercel.DeclType {
	text, number, moment := apiservercel.StringType, apiservercel.IntType, apiservercel.TimestampType
	list, dict := apiservercel.NewListType(text, -1), apiservercel.NewMapType(text, text, -1)
	condition := declare("kubernetes.NamespaceCondition", map[string]*apiservercel.DeclType{
		"status": text, "type": text, "lastTransitionTime": moment, "message": text, "reason": text,
	})
	return declare("kubernetes.Namespace", map[string]*apiservercel.DeclType{
		"metadata": declare("kubernetes.NamespaceMetadata", map[string]*apiservercel.DeclType{
			"name": text, "generateName": text, "namespace": text, "labels": dict, "annotations": dict,
			"UID": text, "creationTimestamp": moment, "deletionGracePeriodSeconds": number,
			"deletionTimestamp": moment, "generation": number, "resourceVersion": text, "finalizers": list,
		}),
		"spec": declare("kubernetes.NamespaceSpec", map[string]*apiservercel.DeclType{"finalizers": list}),
		"status": declare("kubernetes.NamespaceStatus", map[string]*apiservercel.DeclType{
			"conditions": apiservercel.NewListType(condition, -1), "phase": text,
		}),
	})
}

// DeclType returns the declaration of a type that compilation has deduced.
func DeclType(t *cel.Type) *apiservercel.DeclType {
	if t == nil {
		return apiservercel.DynType
	}
	for _, d := range []*apiservercel.DeclType{
		apiservercel.AnyType, apiservercel.BoolType, apiservercel.BytesType, apiservercel.DoubleType,
		apiservercel.DurationType, apiservercel.IntType, apiservercel.NullType, apiservercel.StringType,
		apiservercel.TimestampType, apiservercel.UintType,
	} {
		if d.CelType() == t {
			return d
		}
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(DeclType(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(DeclType(p[0]), DeclType(p[1]), -1)
		}
	}
	return apiservercel.DynType
}
