package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// subject is a write as webhooks for one version see it. The objects, by far
// the largest part of a review, are encoded once for all of them.
type subject struct {
	version     admission.Version
	object, old runtime.Object
	objectJSON  []byte
	oldJSON     []byte
	optionsJSON []byte
}

func newSubject(a *admission.Attributes, v admission.Version, view *expr.View) (*subject, error) {
	s := &subject{version: v, object: view.Object(), old: view.OldObject()}
	var err error
	if s.objectJSON, err = encode(s.object); err != nil {
		return nil, err
	}
	if s.oldJSON, err = encode(s.old); err != nil {
		return nil, err
	}
	s.optionsJSON, err = encode(a.Options)
	return s, err
}

func encode(obj runtime.Object) ([]byte, error) {
	if obj == nil {
		return []byte("null"), nil
	}
	return json.Marshal(obj)
}

// reviewVersion returns the first of a webhook's versions of AdmissionReview
// that this server supports; "" if there is none.
func reviewVersion(versions []string) string {
	for _, v := range versions {
		if v == "v1" || v == "v1beta1" {
			return v
		}
	}
	return ""
}

// head is an AdmissionRequest without the objects, which come after it.
type head struct {
	UID                types.UID                    `json:"uid"`
	Kind               metav1.GroupVersionKind      `json:"kind"`
	Resource           metav1.GroupVersionResource  `json:"resource"`
	SubResource        string                       `json:"subResource,omitempty"`
	RequestKind        *metav1.GroupVersionKind     `json:"requestKind,omitempty"`
	RequestResource    *metav1.GroupVersionResource `json:"requestResource,omitempty"`
	RequestSubResource string                       `json:"requestSubResource,omitempty"`
	Name               string                       `json:"name,omitempty"`
	Namespace          string                       `json:"namespace,omitempty"`
	Operation          admissionv1.Operation        `json:"operation"`
	UserInfo           any                          `json:"userInfo"`
}

// review encodes the AdmissionReview that asks about a write. The two versions
// differ only in their names.
func review(a *admission.Attributes, s *subject, version string, uid types.UID) ([]byte, error) {
	r := expr.Request(a, s.version)
	h, err := json.Marshal(head{
		UID: uid, Kind: r.Kind, Resource: r.Resource, SubResource: r.SubResource,
		RequestKind: r.RequestKind, RequestResource: r.RequestResource, RequestSubResource: r.RequestSubResource,
		Name: r.Name, Namespace: r.Namespace, Operation: r.Operation, UserInfo: r.UserInfo,
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(len(h) + len(s.objectJSON) + len(s.oldJSON) + len(s.optionsJSON) + 160)
	fmt.Fprintf(&b, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/%s","request":`, version)
	b.Write(h[:len(h)-1])
	b.WriteString(`,"object":`)
	b.Write(s.objectJSON)
	b.WriteString(`,"oldObject":`)
	b.Write(s.oldJSON)
	fmt.Fprintf(&b, `,"dryRun":%t,"options":`, a.DryRun)
	b.Write(s.optionsJSON)
	b.WriteString("}}")
	return b.Bytes(), nil
}

// response is what a webhook answered, in either version.
type response struct {
	allowed          bool
	result           *metav1.Status
	patch            []byte
	patchType        admissionv1.PatchType
	auditAnnotations map[string]string
	warnings         []string
}

// decoder reads AdmissionReviews.
type decoder struct{ runtime.Decoder }

// reviews decodes them. Its scheme is large and never changes, so that there is one for all servers of a process.
var reviews = sync.OnceValue(func() decoder {
	scheme := runtime.NewScheme()
	// Registering types cannot fail on a new scheme.
	_ = admissionv1beta1.AddToScheme(scheme)
	_ = admissionv1.AddToScheme(scheme)
	return decoder{serializer.NewCodecFactory(scheme).LegacyCodec(admissionv1beta1.SchemeGroupVersion, admissionv1.SchemeGroupVersion)}
})

// read decodes the answer to a review of a version. The library is asked about what is not just as it should be.
func (d decoder) read(body []byte, version string) (runtime.Object, error) {
	if len(body) == 0 {
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", 200, "application/json")
	}
	if version == "v1" {
		review := &admissionv1.AdmissionReview{}
		if jsonobject.Decode(body, review, false) && review.APIVersion == admissionv1.SchemeGroupVersion.String() && review.Kind == "AdmissionReview" {
			return review, nil
		}
	}
	var into runtime.Object = &admissionv1.AdmissionReview{}
	if version == "v1beta1" {
		into = &admissionv1beta1.AdmissionReview{}
	}
	// If another type is decoded, into stays empty, and is then refused as an
	// answer without a response.
	_, _, err := d.Decode(body, nil, into)
	return into, err
}

// verify checks an answer against the rules of its version.
func verify(uid types.UID, mutating bool, review runtime.Object) (*response, error) {
	switch r := review.(type) {
	case *admissionv1.AdmissionReview:
		return verifyV1(uid, mutating, r)
	case *admissionv1beta1.AdmissionReview:
		return verifyV1beta1(mutating, r)
	}
	return nil, fmt.Errorf("unexpected response type %T", review)
}

func verifyV1(uid types.UID, mutating bool, r *admissionv1.AdmissionReview) (*response, error) {
	a := r.Response
	if a == nil {
		return nil, fmt.Errorf("webhook response was absent")
	}
	if a.UID != uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, a.UID)
	}
	if want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"); r.GroupVersionKind() != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want.String(), r.GroupVersionKind().String())
	}
	out := &response{allowed: a.Allowed, result: a.Result, auditAnnotations: a.AuditAnnotations, warnings: a.Warnings}
	if !mutating {
		switch {
		case len(a.Patch) > 0:
			return nil, fmt.Errorf("validating webhook may not return response.patch")
		case a.PatchType != nil:
			return nil, fmt.Errorf("validating webhook may not return response.patchType")
		}
		return out, nil
	}
	switch {
	case len(a.Patch) > 0 && a.PatchType == nil:
		return nil, fmt.Errorf("webhook returned response.patch but not response.patchType")
	case len(a.Patch) == 0 && a.PatchType != nil:
		return nil, fmt.Errorf("webhook returned response.patchType but not response.patch")
	case a.PatchType != nil && *a.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *a.PatchType)
	}
	out.patch = a.Patch
	if a.PatchType != nil {
		out.patchType = *a.PatchType
	}
	return out, nil
}

// verifyV1beta1 is more lenient: v1beta1 never required a uid or a type.
func verifyV1beta1(mutating bool, r *admissionv1beta1.AdmissionReview) (*response, error) {
	a := r.Response
	if a == nil {
		return nil, fmt.Errorf("webhook response was absent")
	}
	out := &response{allowed: a.Allowed, result: a.Result, auditAnnotations: a.AuditAnnotations, warnings: a.Warnings}
	if mutating && len(a.Patch) > 0 {
		out.patch, out.patchType = a.Patch, admissionv1.PatchTypeJSONPatch
	}
	return out, nil
}
