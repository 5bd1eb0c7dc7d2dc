package engine

import (
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// TestFormerVersion serves what was stored in a version that means something else by a field: every form of an answer has the meaning
// of the version that is served, and a write stores that.
func TestFormerVersion(t *testing.T) {
	beta := schema.GroupVersion{Group: "policy", Version: "v1beta1"}
	r := &Resource{
		Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true, Prefix: "pdbs", Hub: policyv1.SchemeGroupVersion,
		Versions: []*Version{VersionOf[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](policyv1.SchemeGroupVersion, nil)},
		Former: &Former{GroupVersion: beta, Read: func(obj Object) {
			obj.(*policyv1.PodDisruptionBudget).Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"read": "anew"}}
		}},
	}
	x := newKinds(t, r)
	put := func(name string, gv schema.GroupVersion, asJSON bool) {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
		raw, err := b.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gv.String(), Kind: r.Kind}, Raw: raw}
		value, err := u.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		value = append([]byte(magic), value...)
		if asJSON {
			value = []byte(`{"kind":"PodDisruptionBudget","apiVersion":"` + gv.String() + `","metadata":{"name":"` + name + `","namespace":"ns"},"spec":{"selector":{}}}`)
		}
		if _, err := x.db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/pdbs/ns/" + name, Value: value}}}); err != nil {
			t.Fatal(err)
		}
	}
	const at = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"
	put("now", policyv1.SchemeGroupVersion, false)
	put("nowjson", policyv1.SchemeGroupVersion, true)
	put("before", beta, false)
	put("beforejson", beta, true)
	for name, anew := range map[string]bool{"now": false, "nowjson": false, "before": true, "beforejson": true} {
		for _, accept := range []string{"application/json", protobufMedia} {
			for _, path := range []string{at + "/" + name, at + "?fieldSelector=metadata.name%3D" + name} {
				w := x.do("GET "+path, "", "Accept: "+accept)
				if body := w.Body.String(); w.Code != 200 || strings.Contains(body, "anew") != anew || strings.Contains(body, "v1beta1") {
					t.Errorf("GET %s as %s: %d %q", path, accept, w.Code, body)
				}
			}
		}
		w := x.do("PATCH/merge "+at+"/"+name, `{"metadata":{"labels":{"a":"b"}}}`, "Accept: application/json")
		if w.Code != 200 || strings.Contains(w.Body.String(), "anew") != anew {
			t.Errorf("patch of %s: %d %s", name, w.Code, w.Body)
		}
		if w := x.do("GET "+at+"/"+name, "", "Accept: application/json"); strings.Contains(w.Body.String(), "anew") != anew {
			t.Errorf("%s after a write: %s", name, w.Body)
		}
	}
}
