package apiextensions

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A definition is stored as v1beta1 and read back unchanged; storing does not change the object.
func TestStoredForm(t *testing.T) {
	const version = `{"name":"%","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
		"additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"}],"selectableFields":[{"jsonPath":".spec.s"}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{"n":1},"x-kubernetes-validations":[{"rule":"true"}],
		"properties":{"n":{"type":"integer","enum":[1,null],"maximum":5},"s":{"type":"string","example":"x"},"l":{"type":"array","items":{"x-kubernetes-int-or-string":true}},
		"m":{"type":"object","additionalProperties":{"type":"string"}}},"externalDocs":{"url":"u"}}}}}}`
	for _, versions := range []string{version, version + `,{"name":"b","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}`, version + "," + version} {
		var d, before apiextensionsv1.CustomResourceDefinition
		text := `{"metadata":{"name":"a.b"},"spec":{"group":"b","scope":"Cluster","names":{"plural":"a","singular":"a","kind":"A","listKind":"AList"},"preserveUnknownFields":false,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
			"clientConfig":{"service":{"namespace":"n","name":"s","port":443},"caBundle":"Zm9v"}}},"versions":[` + versions + `]},"status":{"conditions":[{"type":"x","status":"True","lastTransitionTime":null}],"acceptedNames":{"plural":"a","kind":"A"},"storedVersions":["a"]}}`
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		d.DeepCopyInto(&before)
		beta, err := toBeta(&d)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(beta)
		if err != nil || !equality.Semantic.DeepEqual(d, before) {
			t.Fatalf("%v: %+v is not as it was: %+v", err, d, before)
		}
		again := stored().New()
		if err := json.Unmarshal(data, again); err != nil {
			t.Fatal(err)
		}
		back, err := fromBeta(again)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(back)
		if want, _ := json.Marshal(&d); string(got) != string(want) {
			t.Errorf("%s\nis stored as\n%s\nand comes back as\n%s", want, data, got)
		}
	}
}
