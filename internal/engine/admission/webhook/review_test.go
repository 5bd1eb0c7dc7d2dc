package webhook

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// The hand-written encoding decodes to the same as the type's own encoding.
func TestReview(t *testing.T) {
	v := admission.Version{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
	a := &admission.Attributes{Operation: admission.Create, Resource: v.Resource, Kind: v.Kind, Namespace: "n", Name: "p", DryRun: true,
		User:    &user.DefaultInfo{Name: "u", Groups: []string{"g"}, Extra: map[string][]string{"a": {"b"}}},
		Options: &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}}}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	s := &subject{version: v, object: pod}
	s.objectJSON, _ = encode(pod)
	s.oldJSON, _ = encode(nil)
	s.optionsJSON, _ = encode(a.Options)
	b, err := review(a, s, "v1", "uid")
	if err != nil {
		t.Fatal(err)
	}
	var got admissionv1.AdmissionReview
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	r := got.Request
	if got.APIVersion != "admission.k8s.io/v1" || r.UID != "uid" || r.Kind.Kind != "Pod" || r.RequestResource.Resource != "pods" || r.Name != "p" ||
		r.UserInfo.Extra["a"][0] != "b" || !*r.DryRun || len(r.Object.Raw) == 0 || r.OldObject.Raw != nil && string(r.OldObject.Raw) != "null" || len(r.Options.Raw) == 0 {
		t.Errorf("got %s", b)
	}
}

// Whatever a webhook answers, reading it ends with an answer or an error.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `[]`, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"uid","allowed":true,"patchType":"JSONPatch","patch":"W10="}}`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"allowed":false,"status":{"code":-1,"message":"m"}}}`} {
		f.Add([]byte(s))
	}
	d := reviews()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, version := range []string{"v1", "v1beta1"} {
			got, err := d.read(body, version)
			if err != nil {
				continue
			}
			for _, mutating := range []bool{true, false} {
				r, err := verify("uid", mutating, got)
				if err == nil && !r.allowed {
					if st := denied("w", r.result).status.ErrStatus; st.Code < 400 || st.Status != metav1.StatusFailure {
						t.Errorf("a refusal became %+v", st)
					}
				}
			}
		}
	})
}
