package policy

import (
	"encoding/json"
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func TestDisruptionBudgets(t *testing.T) {
	k := rulestest.Of(t, Resources(), "poddisruptionbudgets", `
metadata: {name: b}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "both", Edit: `{spec: {maxUnavailable: 1}}`, Want: []string{"spec Invalid"}},
		{Name: "percent", Edit: `{spec: {minAvailable: "101%"}}`, Want: []string{"spec.minAvailable Invalid"}},
		{Name: "negative", Edit: `{spec: {minAvailable: -1}}`, Want: []string{"spec.minAvailable Invalid"}},
		{Name: "eviction", Edit: `{spec: {unhealthyPodEvictionPolicy: Foo}}`, Want: []string{"spec.unhealthyPodEvictionPolicy NotSupported"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "spec", Edit: `{spec: {minAvailable: "50%"}}`}})
	k.Update(t, "status", []rulestest.Case{
		{Name: "negative", Edit: `{status: {currentHealthy: -1}}`, Want: []string{"status.currentHealthy Invalid"}},
	})
}

// TestEmptySelectors reads selectors that mean one thing in v1beta1, in which old servers have stored budgets, and another in v1.
func TestEmptySelectors(t *testing.T) {
	const reserved = `{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"%s"}`
	exists, not := fmt.Sprintf(reserved, "Exists"), fmt.Sprintf(reserved, "DoesNotExist")
	other := `{"key":"a","operator":"Exists"}`
	r := engine.Kinds(podDisruptionBudgets())[0]
	for _, c := range []struct{ version, selector, want string }{
		{"v1beta1", `{}`, `{"matchExpressions":[` + exists + `]}`}, // none
		{"v1beta1", `{"matchExpressions":[` + not + `]}`, `{}`},    // all
		{"v1beta1", `{"matchExpressions":[` + exists + `,` + other + `]}`, `{"matchExpressions":[` + other + `]}`},
		{"v1beta1", `{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"b"}}`},
		{"v1beta1", `null`, `null`},
		{"v1", `{}`, `{}`}, // all
		{"v1", `{"matchExpressions":[` + exists + `]}`, `{"matchExpressions":[` + exists + `]}`},
		{"v1", `{"matchExpressions":[` + not + `,` + other + `]}`, `{"matchExpressions":[` + other + `]}`},
		{"v1", `null`, `null`},
	} {
		obj, err := r.Decode(t.Context(), []byte(`{"kind":"PodDisruptionBudget","apiVersion":"policy/`+c.version+`","metadata":{"name":"a"},"spec":{"selector":`+c.selector+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(obj.(*policyv1.PodDisruptionBudget).Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want {
			t.Errorf("%s %s: got %s, want %s", c.version, c.selector, got, c.want)
		}
	}
}
