package jsonobject

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

const patchedPod = `{"metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x/a","x/b"],"ownerReferences":[{"uid":"u","name":"o","controller":true}]},` +
	`"spec":{"nodeName":"n","containers":[{"name":"a","image":"i","ports":[{"containerPort":1},{"containerPort":2}],"resources":{"limits":{"cpu":"1"}}},{"name":"b"}],` +
	`"nodeSelector":{"a":"b"},"tolerations":[{"key":"k"}]},"status":{"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False"},{"type":"C","status":"False"}]}}`

// patchesOfPod are patches, and whether the plan merges them as a strategic merge patch.
var patchesOfPod = map[string]bool{
	`{"metadata":{"labels":{"a":null,"c":"d"},"finalizers":["x/c","x/a"]}}`:                                                                         true,
	`{"status":{"conditions":[{"type":"B","status":"True"},{"type":"D","status":"True"}]}}`:                                                         true,
	`{"status":{"$setElementOrder/conditions":[{"type":"C"},{"type":"B"},{"type":"A"}],"conditions":[{"type":"B","status":"True"}]}}`:               true,
	`{"status":{"$setElementOrder/conditions":[{"type":"C"},{"type":"A"}]}}`:                                                                        true,
	`{"status":{"$setElementOrder/conditions":[{"type":"A"}],"conditions":[{"type":"B","status":"True"}]}}`:                                         false,
	`{"spec":{"containers":[{"name":"b","image":"j","env":[{"name":"e","value":"v"}]},{"name":"a","ports":[{"containerPort":2,"name":"p"}]}]}}`:     true,
	`{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`:                                                                                      false,
	`{"spec":{"containers":[{"image":"a"}]}}`:                                                                                                       false,
	`{"spec":{"containers":[{"name":"b"},{"name":"b"}]}}`:                                                                                           false,
	`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1500m","memory":"\u0031"}}}]}}`:                                               false,
	`{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":2,"memory":"1Gi"},"requests":null}}]}}`:                                        true,
	`{"spec":{"tolerations":[{"key":"l"}],"securityContext":{"runAsUser":1,"runAsGroup":null},"affinity":{"nodeAffinity":{}},"nodeSelector":null}}`: true,
	`{"spec":{"tolerations":[null]}}`:                          false,
	`{"spec":{"nodeName":"a","nodeName":"b"}}`:                 false,
	`{"spec":{"nonsense":1}}`:                                  false,
	`{"spec":{"$retainKeys":["nodeName"]}}`:                    false,
	`{"metadata":{"labels":{"$patch":"replace"}}}`:             false,
	`{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}`: false,
	`{"metadata":{"ownerReferences":[{"uid":"v","name":"p"}],"creationTimestamp":null,"deletionTimestamp":"2026-01-02T03:04:05Z"},"status":{}}`: true,
	`[]`: false, `null`: false, `{`: false, `{"spec":{"nodeName":"\ud800"}} `: true,
}

// merged says whether a patch was merged into the pod of a document, and compares the outcome with that of the libraries.
func merged(t *testing.T, kind Patch, doc, patch []byte) bool {
	var got, want corev1.Pod
	if !Decode(doc, &got, false) {
		return false
	}
	before, err := json.Marshal(&got)
	if err != nil {
		t.Fatal(err)
	}
	if !MergeInto(kind, patch, &got) {
		return false
	}
	var out []byte
	if kind == MergePatch {
		out, err = jsonpatch.MergePatch(before, patch)
	} else {
		out, err = strategicpatch.StrategicMergePatch(before, patch, &corev1.Pod{})
	}
	if err != nil {
		t.Fatalf("%s was merged into %s; the library says %v", patch, before, err)
	}
	if strict, err := kjson.UnmarshalStrict(out, &want); err != nil || len(strict) > 0 {
		t.Fatalf("%s was merged into %s; the library makes %s of it: %v %v", patch, before, out, strict, err)
	}
	a, _ := json.Marshal(&got)
	b, _ := json.Marshal(&want)
	if string(a) != string(b) {
		t.Fatalf("%s merged into\n%s is\n%s, not\n%s", patch, before, a, b)
	}
	return true
}

func TestTypesMerge(t *testing.T) {
	for patch, want := range patchesOfPod {
		if took := merged(t, StrategicMergePatch, []byte(patchedPod), []byte(patch)); took != want {
			t.Errorf("%s: merged %v, not %v", patch, took, want)
		}
		merged(t, MergePatch, []byte(patchedPod), []byte(patch))
	}
	if MergeInto(MergePatch, []byte(`{}`), corev1.Pod{}) || MergeInto(MergePatch, []byte(`{}`), new(string)) {
		t.Error("merged into what is no struct behind a pointer")
	}
}

// FuzzTypesMerge compares with the libraries that kube-apiserver uses.
func FuzzTypesMerge(f *testing.F) {
	for patch := range patchesOfPod {
		f.Add([]byte(patchedPod), []byte(patch))
	}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		merged(t, MergePatch, doc, patch)
		merged(t, StrategicMergePatch, doc, patch)
	})
}
