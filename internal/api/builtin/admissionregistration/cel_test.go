package admissionregistration

import (
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	celenv "github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func TestExpressions(t *testing.T) {
	c := forPolicy()
	e := rules.At(nil)
	c.define(e, "two", "1 + 1", celenv.Scope{}, false)
	c.define(e, "list", "[variables.two]", celenv.Scope{}, false)
	if len(e.List()) > 0 {
		t.Fatal(e.List())
	}
	tests := []struct {
		text    string
		scope   celenv.Scope
		results []*cel.Type
		ok      bool
	}{
		{"true", celenv.Scope{}, toBool, true},
		{"1", celenv.Scope{}, toBool, false},
		{"1 +", celenv.Scope{}, toBool, false},
		{"object.metadata.name == 'a'", celenv.Scope{}, toBool, true},
		{"request.userInfo.username == 'a'", celenv.Scope{}, toBool, true},
		{"request.nothing == 'a'", celenv.Scope{}, toBool, false},
		{"request.operation == 1", celenv.Scope{}, toBool, false},
		{"namespaceObject.metadata.labels['a'] == 'b'", celenv.Scope{}, toBool, true},
		{"variables.two == 2", celenv.Scope{}, toBool, true},
		{"variables.list.all(x, x > 1)", celenv.Scope{}, toBool, true},
		{"variables.two == 'a'", celenv.Scope{}, toBool, false},
		{"variables.three", celenv.Scope{}, toBool, false},
		{"params.a", celenv.Scope{}, toBool, false},
		{"params.a == 1", celenv.Scope{Params: true}, toBool, true},
		{"authorizer.group('').resource('pods').check('get').allowed()", celenv.Scope{}, toBool, false},
		{"authorizer.group('').resource('pods').check('get').allowed()", celenv.Scope{Authorizer: true}, toBool, true},
		{"'a' + 'b'", celenv.Scope{}, toString, true},
		{"Object{spec: Object.spec{a: 1}}", celenv.Scope{Patch: true}, toObject, true},
		{"[JSONPatch{op: 'add', path: '/a', value: 1}]", celenv.Scope{Patch: true}, toPatch, true},
		{"'a'", celenv.Scope{Patch: true}, toPatch, false},
	}
	for _, test := range tests {
		e := rules.At(nil)
		c.check(e, test.text, test.scope, test.results, false)
		if ok := len(e.List()) == 0; ok != test.ok {
			t.Errorf("%s: %v", test.text, e.List())
		}
	}
}

func TestPolicies(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "validatingadmissionpolicies", `
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  validations: [{expression: "true"}]
`)
	k.Create(t, []rulestest.Case{
		{Name: "nothing to do", Edit: `{spec: {validations: []}}`,
			Want: []string{"spec.auditAnnotations Required", "spec.validations Required"}},
		{Name: "no kinds", Edit: `{spec: {matchConstraints: null}}`, Want: []string{"spec.matchConstraints Required"}},
		{Name: "expression", Edit: `{spec: {validations: [{expression: "1 +"}, {expression: ""}]}}`,
			Want: []string{"spec.validations[0].expression Invalid", "spec.validations[1].expression Required"}},
		{Name: "variable", Edit: `{spec: {variables: [{name: a, expression: "1"}], validations: [{expression: "variables.a == 1"}]}}`},
		{Name: "later variable", Edit: `{spec: {variables: [{name: a, expression: variables.b}, {name: b, expression: "1"}]}}`,
			Want: []string{"spec.variables[0].expression Invalid"}},
		{Name: "operation", Edit: `{spec: {matchConstraints: {resourceRules: [{operations: ["*", CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}}}`,
			Want: []string{"spec.matchConstraints.resourceRules[0].operations Invalid"}},
	})
}
