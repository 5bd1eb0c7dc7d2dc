package sequences

import "fmt"

// policies makes a sequence of objects whose writes admission policies see; policies, bindings and parameters come and go meanwhile.
func (g *generator) policies() []step {
	g.objects, g.number = nil, 0
	for _, name := range []string{"ConfigMap", "Pod", "Deployment", "Widget", "StatefulSet", "ServiceAccount", "PodDisruptionBudget"} {
		if k := g.kind(name); g.chance(30) {
			g.objects = append(g.objects, g.object(k, "a"), g.object(k, "b"))
		}
	}
	if len(g.objects) == 0 {
		g.objects = append(g.objects, g.object(g.kind("ConfigMap"), "a"))
	}
	out := []step{g.param()}
	for _, name := range policyKinds {
		if g.chance(70) {
			out = append(out, g.policy(name, "$R-a"), g.binding(name, "$R-a"))
			out = append(out, g.marker(name)...)
		}
	}
	for _, o := range g.objects {
		out = append(out, g.create(o))
	}
	for range 10 + g.IntN(20) {
		g.number++
		if !g.chance(12) {
			out = append(out, g.step(pick(g, g.objects...)))
			continue
		}
		name := pick(g, policyKinds...)
		switch g.IntN(6) {
		case 0:
			out = append(out, g.param())
		case 1:
			k := g.kind(name + pick(g, "", "Binding"))
			out = append(out, step{Method: "DELETE", Path: k.root() + k.plural + "/$R-a"})
		case 2:
			out = append(out, g.binding(name, pick(g, "$R-a", "$R-b")))
		case 3:
			out = append(out, g.policy(name, "$R-b"), g.binding(name, "$R-b"))
		default:
			out = append(out, g.policy(name, "$R-a"))
		}
		out = append(out, g.marker(name)...)
	}
	return out
}

var policyKinds = []string{"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}

// applied is the step that makes an object of a kind what it is here.
func (g *generator) applied(kind, name string, spec map[string]any) step {
	k := g.kind(kind)
	doc := map[string]any{"apiVersion": k.apiVersion(), "kind": kind, "metadata": map[string]any{"name": name, "labels": map[string]any{"run": "$R"}}, "spec": spec}
	return step{Method: "PATCH", Path: k.root() + k.plural + "/" + name + "?fieldManager=policies&force=true", Sent: "application/apply-patch+yaml", Body: text(doc)}
}

// marker is a policy with its binding that refuses a probe of one name. Both hold only once what was written before holds.
func (g *generator) marker(kind string) []step {
	g.number++
	name, label := fmt.Sprintf("probe-%d", g.number), fmt.Sprintf("n%d", g.number)
	constraints := map[string]any{"namespaceSelector": inRun, "resourceRules": []any{map[string]any{"operations": []any{"CREATE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}}}
	spec := map[string]any{"matchConstraints": constraints, "matchConditions": []any{map[string]any{"name": "probe", "expression": `object.metadata.name == "` + name + `"`}}}
	binding := map[string]any{"policyName": "$R-marker", "matchResources": map[string]any{"objectSelector": map[string]any{"matchLabels": map[string]any{"probe": label}}}}
	if kind == policyKinds[0] {
		spec["validations"] = []any{map[string]any{"expression": "false"}}
		binding["validationActions"] = []any{"Deny"}
	} else {
		spec["reinvocationPolicy"] = "Never"
		spec["mutations"] = []any{map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": `Object{metadata: Object.metadata{labels: {"bad": "not a label"}}}`}}}
	}
	last := g.applied(kind, "$R-marker", spec)
	last.Until = &step{Method: "POST", Path: "/api/v1/namespaces/$R/configmaps?dryRun=All", Code: 422,
		Body: text(map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"probe": label}}})}
	return []step{g.applied(kind+"Binding", "$R-marker", binding), last}
}

// param is a write of a parameter.
func (g *generator) param() step {
	name := pick(g, "p", "p", "q")
	path := "/api/v1/namespaces/$R/configmaps/" + name
	if g.chance(25) {
		return step{Method: "DELETE", Path: path}
	}
	doc := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"param": pick(g, "yes", "no"), "probe": "no"}},
		"data": map[string]any{"max": pick(g, "1", "2", "many")}}
	return step{Method: "PATCH", Path: path + "?fieldManager=params&force=true", Sent: "application/apply-patch+yaml", Body: text(doc)}
}

func (g *generator) policy(kind, name string) step {
	rules := []any{g.hookRule()}
	if g.chance(40) {
		rules = append(rules, g.hookRule())
	}
	selectors := []any{map[string]any{"key": "probe", "operator": "DoesNotExist"}}
	if g.chance(30) {
		selectors = append(selectors, pick[any](g, map[string]any{"key": "x", "operator": "Exists"}, map[string]any{"key": "app", "operator": "In", "values": []any{"golden", "y"}}))
	}
	constraints := map[string]any{"namespaceSelector": inRun, "resourceRules": rules, "objectSelector": map[string]any{"matchExpressions": selectors}}
	if g.chance(30) {
		constraints["matchPolicy"] = pick(g, "Exact", "Equivalent")
	}
	if g.chance(25) {
		constraints["excludeResourceRules"] = []any{g.hookRule()}
	}
	spec := map[string]any{"matchConstraints": constraints, "failurePolicy": pick(g, "Fail", "Fail", "Ignore")}
	if g.chance(60) {
		spec["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	}
	if g.chance(30) {
		spec["matchConditions"] = []any{map[string]any{"name": "c", "expression": g.condition()}}
	}
	spec["variables"] = []any{map[string]any{"name": "v", "expression": g.condition()}, map[string]any{"name": "n", "expression": `has(object.spec.replicas) ? object.spec.replicas : 0`}}
	if kind == policyKinds[1] {
		spec["reinvocationPolicy"] = pick(g, "Never", "IfNeeded")
		mutations := []any{}
		for range 1 + g.IntN(2) {
			mutations = append(mutations, g.mutation())
		}
		spec["mutations"] = mutations
		return g.applied(kind, name, spec)
	}
	validations := []any{}
	for range 1 + g.IntN(2) {
		v := map[string]any{"expression": g.validation()}
		if g.chance(40) {
			v["message"] = "not so"
		}
		if g.chance(30) {
			v["messageExpression"] = pick(g, `"it is " + object.metadata.name`, `"max " + params.data.max`, `string(variables.n)`, `""`)
		}
		if g.chance(30) {
			v["reason"] = pick(g, "Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge")
		}
		validations = append(validations, v)
	}
	spec["validations"] = validations
	if g.chance(20) {
		spec["auditAnnotations"] = []any{map[string]any{"key": "a", "valueExpression": `object.metadata.name`}}
	}
	return g.applied(kind, name, spec)
}

// validation is a CEL expression that some objects fulfil, and some cannot answer.
func (g *generator) validation() string {
	return pick(g, `object == null || !has(object.metadata.labels) || !("x" in object.metadata.labels)`, `object.metadata.name != "b"`,
		`params == null || !has(params.data.max) || object.spec.replicas <= int(params.data.max)`, `params.data.max == "1"`,
		`oldObject == null || object == null || object.metadata.?labels == oldObject.metadata.?labels`, `request.operation != "DELETE"`, `object.spec.replicas < 3`, `variables.v`, `variables.n < 2`,
		`namespaceObject.metadata.name == "$R"`, `size(object.metadata.managedFields) < 3`, `authorizer.requestResource.check("get").allowed()`, `request.userInfo.username == "nobody"`,
		`object.metadata.?annotations["count"].orValue("") != "ii"`, `oldObject == null || oldObject.metadata.generation == object.metadata.generation`, `object.?status.?phase.orValue("") != "Running"`)
}

// mutation is one of a mutating policy.
func (g *generator) mutation() map[string]any {
	if g.chance(50) {
		return map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": pick(g, `Object{metadata: Object.metadata{labels: {"policy": "yes"}}}`,
			`Object{spec: Object.spec{replicas: 2}}`, `Object{metadata: Object.metadata{annotations: {"count": object.metadata.?annotations["count"].orValue("") + "i"}}}`,
			`Object{data: {"policy": "x"}}`, `Object{metadata: Object.metadata{annotations: {"max": params.data.max}}}`, `Object{metadata: Object.metadata{name: "other"}}`,
			`Object{metadata: Object.metadata{finalizers: ["example.com/a"]}}`, `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers.item{name: "side", image: "i"}]}}}}`,
			`Object{spec: Object.spec{size: 3}}`, `Object{}`, `has(object.spec.replicas) ? Object{spec: Object.spec{replicas: object.spec.replicas + 1}} : Object{}`)}}
	}
	return map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": pick(g, `[JSONPatch{op: "add", path: "/metadata/labels/jp", value: "yes"}]`,
		`[JSONPatch{op: "add", path: "/metadata/labels", value: {"run": "$R", "jp": "yes"}}]`, `[JSONPatch{op: "remove", path: "/metadata/labels/none"}]`, `[JSONPatch{op: "test", path: "/metadata/name", value: "a"}]`,
		`[JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("example.com/a"), value: "b"}]`, `[JSONPatch{op: "replace", path: "/spec/replicas", value: 1}]`,
		`[JSONPatch{op: "add", path: "/spec", value: Object.spec{replicas: 2}}]`, `object.metadata.name == "a" ? [JSONPatch{op: "add", path: "/metadata/labels/a", value: string(variables.n)}] : []`,
		`[JSONPatch{op: "add", path: "/unknown", value: "x"}]`, `[JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/labels/copy"}]`, `[]`)}}
}

func (g *generator) binding(kind, name string) step {
	spec := map[string]any{"policyName": pick(g, name, name, name, "$R-a")}
	if kind == policyKinds[0] {
		spec["validationActions"] = pick(g, []any{"Deny"}, []any{"Deny"}, []any{"Deny", "Audit"}, []any{"Warn"}, []any{"Audit"}, []any{"Warn", "Audit"})
	}
	if g.chance(60) {
		ref := map[string]any{"parameterNotFoundAction": pick(g, "Allow", "Deny"), "name": pick(g, "p", "p", "q")}
		if g.chance(35) {
			delete(ref, "name")
			ref["selector"] = pick(g, map[string]any{}, map[string]any{"matchLabels": map[string]any{"param": "yes"}})
		}
		if g.chance(50) {
			ref["namespace"] = pick(g, "$R", "$R", "default")
		}
		spec["paramRef"] = ref
	}
	if g.chance(30) {
		spec["matchResources"] = map[string]any{"objectSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "x", "operator": pick(g, "Exists", "DoesNotExist")}}},
			"resourceRules": []any{g.hookRule()}}
	}
	return g.applied(kind+"Binding", name, spec)
}
