package sequences

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kanzen-io/kanzen/test/goldens"
)

// webhooks makes a sequence of objects whose writes webhooks see, and which webhooks there are changes meanwhile.
func (g *generator) webhooks() []step {
	g.objects, g.number = nil, 0
	for _, name := range []string{"ConfigMap", "Secret", "Pod", "Deployment", "Widget", "StatefulSet", "ServiceAccount", "PersistentVolume", "PodDisruptionBudget"} {
		if k := g.kind(name); k != nil && g.chance(25) {
			g.objects = append(g.objects, g.object(k, "a"), g.object(k, "b"))
		}
	}
	if len(g.objects) == 0 {
		g.objects = append(g.objects, g.object(g.kind("ConfigMap"), "a"))
	}
	var out []step
	for _, plural := range hookKinds {
		if g.chance(75) {
			out = append(out, g.configure(plural))
		}
	}
	for _, o := range g.objects {
		out = append(out, g.create(o))
	}
	for range 8 + g.IntN(22) {
		g.number++
		if g.chance(20) {
			out = append(out, g.configure(pick(g, hookKinds...)))
		} else {
			out = append(out, g.step(pick(g, g.objects...)))
		}
	}
	return out
}

var hookKinds = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// configure writes a configuration. A webhook of it that denies a probe of one name says that it holds.
func (g *generator) configure(plural string) step {
	g.number++
	root, name := "/apis/admissionregistration.k8s.io/v1/"+plural, pick(g, "$R-a", "$R-b")
	probe := fmt.Sprintf("probe-%s-%d", map[string]string{hookKinds[0]: "m", hookKinds[1]: "v"}[plural], g.number)
	until := &step{Method: "POST", Path: "/api/v1/namespaces/$R/configmaps?dryRun=All", Code: 403,
		Body: text(map[string]any{"metadata": map[string]any{"name": probe, "labels": map[string]any{"probe": "yes"}}})}
	all := []any{map[string]any{"name": "probe.example.test", "clientConfig": map[string]any{"url": "$HOOK/" + probe, "caBundle": "$CA"}, "admissionReviewVersions": []any{"v1"},
		"sideEffects": "None", "objectSelector": map[string]any{"matchLabels": map[string]any{"probe": "yes"}}, "namespaceSelector": inRun,
		"rules": []any{map[string]any{"operations": []any{"CREATE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}}}}}
	for i := range 1 + g.IntN(3) {
		all = append(all, g.hook(plural, fmt.Sprintf("h%d.example.test", i)))
	}
	switch g.IntN(6) {
	case 0:
		return step{Method: "DELETE", Path: root + "/" + name, Until: &step{Method: "GET", Path: root + "/" + name, Code: 404}}
	case 1, 2:
		return step{Method: "PUT", Path: root + "/" + name, From: root + "/" + name, Edits: []goldens.Op{{Op: "set", Path: "/webhooks", Value: all}}, Until: until}
	}
	doc := map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "metadata": map[string]any{"name": name, "labels": map[string]any{"run": "$R"}}, "webhooks": all,
		"kind": map[string]string{hookKinds[0]: "MutatingWebhookConfiguration", hookKinds[1]: "ValidatingWebhookConfiguration"}[plural]}
	return step{Method: "PATCH", Path: root + "/" + name + "?fieldManager=hooks&force=true", Sent: "application/apply-patch+yaml", Body: text(doc), Until: until}
}

// inRun selects the namespace of a run.
var inRun = map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "$R"}}

// hook is a webhook of a configuration.
func (g *generator) hook(plural, name string) map[string]any {
	names := slices.Sorted(maps.Keys(behaviours))
	behaviour := pick(g, append(names, "allow", "allow", "allow", "warn", "label", "label", "count", "count", "deny", "finalizer")...)
	h := map[string]any{"name": name, "clientConfig": map[string]any{"url": "$HOOK/" + behaviour + "/" + name, "caBundle": "$CA"}, "admissionReviewVersions": pick(g, []any{"v1"}, []any{"v1"}, []any{"v2", "v1"}),
		"sideEffects": pick(g, "None", "NoneOnDryRun"), "namespaceSelector": inRun, "rules": []any{g.hookRule()}}
	if g.chance(4) {
		h["clientConfig"].(map[string]any)["url"] = "https://127.0.0.1:1/gone"
	}
	if g.chance(30) {
		h["rules"] = append(h["rules"].([]any), g.hookRule())
	}
	selectors := []any{map[string]any{"key": "probe", "operator": "DoesNotExist"}, map[string]any{"key": "run", "operator": "In", "values": []any{"$R"}}}
	if g.chance(30) {
		selectors = append(selectors, pick[any](g, map[string]any{"key": "x", "operator": "Exists"}, map[string]any{"key": "app", "operator": "In", "values": []any{"golden", "y"}},
			map[string]any{"key": "hook", "operator": "DoesNotExist"}, map[string]any{"key": "app", "operator": "NotIn", "values": []any{"golden"}}))
	} else if g.chance(30) {
		selectors = selectors[:1]
	}
	h["objectSelector"] = map[string]any{"matchExpressions": selectors}
	if g.chance(60) {
		h["failurePolicy"] = pick(g, "Ignore", "Ignore", "Fail")
	}
	if g.chance(30) {
		h["matchPolicy"] = pick(g, "Exact", "Equivalent")
	}
	if g.chance(30) {
		h["matchConditions"] = []any{map[string]any{"name": "c", "expression": g.condition()}}
	}
	if g.chance(50) && plural == hookKinds[0] {
		h["reinvocationPolicy"] = pick(g, "IfNeeded", "Never")
	}
	return h
}

// condition is a CEL expression about a request, which may fail for some.
func (g *generator) condition() string {
	return pick(g, `request.operation != "DELETE"`, `has(object.metadata.labels) && "x" in object.metadata.labels`, `request.userInfo.username == "admin"`, `request.dryRun`,
		`oldObject != null`, `object.metadata.name == "a"`, `object.spec.replicas > 1`, `request.subResource == ""`, `request.options.fieldManager == "m1"`, `request.?options.?fieldManager.orValue("") != "m2"`,
		`request.name == "a"`, `request.resource.resource == "configmaps" && request.requestKind.version == "v1"`, `authorizer.group("").resource("pods").namespace("x").check("get").allowed()`,
		`request.operation != "UPDATE" || oldObject.metadata.?labels != object.metadata.?labels`, `has(object.metadata.managedFields)`, `object.metadata.?generation.orValue(1) == 1`)
}

func (g *generator) hookRule() map[string]any {
	o := pick(g, g.objects...)
	operations := []any{"*"}
	if g.chance(70) {
		operations = nil
		for _, v := range []string{"CREATE", "UPDATE", "DELETE"} {
			if g.chance(60) {
				operations = append(operations, v)
			}
		}
		if operations == nil || g.chance(5) {
			operations = append(operations, "CONNECT")
		}
	}
	r := map[string]any{"operations": operations, "apiGroups": pick(g, []any{o.group}, []any{"*"}), "apiVersions": pick(g, []any{o.version}, []any{"*"}, []any{"v1"}),
		"resources": pick(g, []any{o.plural}, []any{o.plural}, []any{"*"}, []any{"*/*"}, []any{o.plural + "/*"}, []any{"*/status"}, []any{"*/scale", "pods/binding", "pods/eviction"})}
	if g.chance(20) {
		r["scope"] = pick(g, "*", "Namespaced", "Cluster")
	}
	return r
}
