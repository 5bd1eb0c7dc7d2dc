package admissionregistration

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestMeet checks which webhooks are asked about the same objects.
func TestMeet(t *testing.T) {
	rule := func(group, resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, Resources: []string{resource}}}}
	}
	pods := rule("", "pods", "CREATE")
	for name, c := range map[string]struct {
		other []admissionv1.RuleWithOperations
		want  bool
	}{
		"the same":                       {pods, true},
		"another operation":              {rule("", "pods", "UPDATE"), false},
		"also another operation":         {rule("", "pods", "UPDATE", "CREATE"), true},
		"all operations":                 {rule("", "pods", "*"), true},
		"another resource":               {rule("", "services", "CREATE"), false},
		"another group":                  {rule("apps", "pods", "CREATE"), false},
		"all groups":                     {rule("*", "pods", "CREATE"), true},
		"all resources":                  {rule("", "*", "CREATE"), true},
		"all resources and subresources": {rule("", "*/*", "CREATE"), true},
		"all subresources, and itself":   {rule("", "pods/*", "CREATE"), true},
		"a subresource":                  {rule("", "pods/status", "CREATE"), false},
		"that subresource of all":        {rule("", "*/status", "CREATE"), false},
		"no rule":                        {nil, false},
		"one of two rules":               {append(rule("apps", "deployments", "CREATE"), pods...), true},
	} {
		if meet(pods, c.other) != c.want || meet(c.other, pods) != c.want {
			t.Errorf("%s: %t, want %t", name, !c.want, c.want)
		}
	}
	scale := rule("apps", "deployments/scale", "UPDATE")
	for resource, want := range map[string]bool{"deployments/*": true, "*/scale": true, "*/*": true, "*": false, "deployments": false, "deployments/status": false, "*/status": false} {
		if meet(scale, rule("apps", resource, "UPDATE")) != want {
			t.Errorf("deployments/scale and %s: %t", resource, !want)
		}
	}
}
