package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	jsonPatch  = "application/json-patch+json"
	mergePatch = "application/merge-patch+json"
	strategic  = "application/strategic-merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
	yamlType   = "application/yaml"
	protobuf   = "application/vnd.kubernetes.protobuf"

	configMaps = "/api/v1/namespaces/default/configmaps"
	things     = "/apis/hostile.example.com/v1/namespaces/default/things"
	mebibyte   = 1 << 20
)

// repeat joins n times what f makes.
func repeat(n int, f func(int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(i))
	}
	return b.String()
}

func same(s string) func(int) string { return func(int) string { return s } }

func object(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the table is wrong
	}
	return b
}

func configMap(name, more string) []byte {
	return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}` + more + `}`)
}

// thing is a custom resource without a schema of its spec.
func thing(name, spec string) []byte {
	return []byte(`{"apiVersion":"hostile.example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
}

// definition is a CRD whose objects have a spec of a schema.
func definition(plural, schema string) []byte {
	kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.hostile.example.com"},
		"spec":{"group":"hostile.example.com","scope":"Namespaced","names":{"plural":%q,"kind":%q},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}]}}`, plural, plural, kind, schema)
}

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func define(plural, schema string) request {
	return request{path: crds, body: definition(plural, schema)}
}

// defineThings is there for all rows: the first of them makes it.
func defineThings() request {
	return define("things", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
}

// rows are the hostile requests.
func rows() []row {
	var all []row
	for _, group := range [][]row{yamlRows(), patchRows(), expressionRows(), selectorRows(), bodyRows(), headerRows(), reviewRows(), definitionRows(), applyRows(), endlessRows()} {
		all = append(all, group...)
	}
	return all
}

func yamlRows() []row {
	var tags strings.Builder
	for n := range 100_000 {
		fmt.Fprintf(&tags, "%%TAG !a%d! tag:x\n", n)
	}
	head := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n"
	aliases := head + "a: &a " + strings.Repeat("x", 50_000) + "\nb: [" + repeat(15_000, same("*a")) + "]\n"
	apply := func(name, body string) request {
		return request{http.MethodPatch, configMaps + "/" + name + "?fieldManager=m", applyPatch, []byte(body), nil}
	}
	create := func(body string) request {
		return request{path: configMaps, contentType: yamlType, body: []byte(body)}
	}
	return []row{
		{name: "yaml: 106 KB, 15,000 aliases of one text", request: create(aliases), codes: []int{400}, cpu: time.Second, memory: 64},
		{name: "yaml: the same, applied", request: apply("y", aliases), codes: []int{400}, cpu: time.Second, memory: 64},
		{name: "yaml: 2 MB of %TAG directives", request: create(tags.String() + "---\n" + head), codes: []int{400}, cpu: time.Second, memory: 64},
		{name: "yaml: a list of 1,500,000 digits", request: create(head + "a: [" + repeat(1_500_000, same("1")) + "]"), codes: []int{400}, cpu: time.Second, memory: 64},
		{name: "yaml: a list of 240,000 digits", request: create(head + "\"x\": [" + repeat(240_000, same("1")) + "]"), codes: []int{201}, cpu: 4 * time.Second, memory: 300},
		{name: "yaml: lists nested 9,000 deep", request: create(strings.Replace(head, "name: first", "name: second", 1) + "\"x\": " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), cpu: 2 * time.Second, memory: 128},
	}
}

func patchRows() []row {
	patch := func(path, kind, body string) request {
		return request{http.MethodPatch, path, kind, []byte(body), nil}
	}
	list := thing("list", `{"l":[`+repeat(500_000, same("0"))+`]}`)
	deep := `"x":` + strings.Repeat(`{"a":`, 4000) + `"` + strings.Repeat("x", mebibyte) + `"` + strings.Repeat("}", 4000)
	var containers, merged []string
	for n := range 3000 {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"i"}`, n))
		merged = append(merged, fmt.Sprintf(`{"name":"c%d","image":"j"}`, n))
	}
	deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"many"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` + strings.Join(containers, ",") + `]}}}}`
	before := []request{defineThings(), {path: things, body: list}}
	return []row{
		{name: "json patch: 10,000 insertions at the front of 500,000", before: before,
			request: patch(things+"/list", jsonPatch, "["+repeat(10_000, same(`{"op":"add","path":"/spec/l/0","value":1}`))+"]"), codes: []int{413}, cpu: 4 * time.Second, memory: 400},
		{name: "json patch: 1,000 tests and removals at the front of 500,000", before: before,
			request: patch(things+"/list", jsonPatch, "["+repeat(1000, same(`{"op":"test","path":"/spec/l/0","value":0},{"op":"remove","path":"/spec/l/0"}`))+"]"), codes: []int{413}, cpu: 4 * time.Second, memory: 400},
		{name: "json patch: into a value of 1 MiB, 4,000 deep", before: before,
			request: patch(things+"/list", jsonPatch, `[{"op":"add","path":"/spec/x","value":{`+deep+`}},{"op":"add","path":"/spec/x/x`+strings.Repeat("/a", 3900)+`","value":1}]`), codes: []int{413}, cpu: 4 * time.Second, memory: 400},
		{name: "json patch: copies that double", before: before,
			request: patch(things+"/list", jsonPatch, "["+repeat(30, func(n int) string { return fmt.Sprintf(`{"op":"copy","from":"/spec","path":"/spec/c%d"}`, n) })+"]"), codes: []int{422}, cpu: 3 * time.Second, memory: 400},
		{name: "json patch: a million operations without anything", before: before,
			request: patch(things+"/list", jsonPatch, "["+repeat(1_000_000, same(`{}`))+"]"), codes: []int{413}, cpu: 5 * time.Second, memory: 600},
		{name: "strategic merge: 3,000 containers by name", before: []request{{path: "/apis/apps/v1/namespaces/default/deployments", body: []byte(deployment)}},
			request: patch("/apis/apps/v1/namespaces/default/deployments/many", strategic, `{"spec":{"template":{"spec":{"containers":[`+strings.Join(merged, ",")+`]}}}}`), codes: []int{200}, cpu: 10 * time.Second, memory: 400},
		{name: "merge patch: 100,000 fields", before: before,
			request: patch(things+"/list", mergePatch, `{"spec":{"l":null,`+repeat(100_000, func(n int) string { return fmt.Sprintf(`"f%d":1`, n) })+`}}`), codes: []int{200, 413}, cpu: 5 * time.Second, memory: 500},
	}
}

// policy is one that refuses configuration maps of a name by an expression.
func policy(name, expression string) []request {
	const path = "/apis/admissionregistration.k8s.io/v1/"
	return []request{
		{path: path + "validatingadmissionpolicies", body: object(map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"failurePolicy": "Fail", "validations": []any{map[string]any{"expression": expression}},
				"matchConditions":  []any{map[string]any{"name": "this", "expression": "object.metadata.name == '" + name + "'"}},
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"configmaps"}}}},
			}})},
		{path: path + "validatingadmissionpolicybindings", body: object(map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"policyName": name, "validationActions": []string{"Deny"}}})},
	}
}

func expressionRows() []row {
	var out []row
	for n, c := range []struct{ name, expression string }{
		{"lists.range of 10,000,000", "lists.range(10000000).size() < 0"},
		{"a text of 24 KiB put between its own letters", "object.data.s.replace('', object.data.s).size() < 0"},
		{"500 times a text of 24 KiB in a format", "'" + strings.Repeat("%s", 500) + "'.format([" + repeat(500, same("object.data.s")) + "]).size() < 0"},
		{"a quantity of 98,000 digits", "quantity('1' + object.data.s + object.data.s + object.data.s + object.data.s).isLessThan(quantity('1'))"},
	} {
		name := fmt.Sprintf("policy%d", n)
		out = append(out, row{name: "cel: " + c.name, settles: true, before: policy(name, c.expression),
			request: request{path: configMaps, body: configMap(name, `,"data":{"s":"`+strings.Repeat("1", 24<<10)+`"}`)},
			codes:   []int{201, 422}, cpu: 3 * time.Second, memory: 200})
	}
	return out
}

func selectorRows() []row {
	before := []request{defineThings()}
	for n := range 5 {
		before = append(before, request{path: things, body: thing(fmt.Sprintf("big%d", n), `{"s":"`+strings.Repeat("x", mebibyte)+`"}`)})
	}
	get := func(path, key, value string) request {
		return request{method: http.MethodGet, path: path + "?" + url.Values{key: {value}}.Encode()}
	}
	names := func(n int) string {
		return repeat(n, func(n int) string { return fmt.Sprintf("metadata.name!=x%d", n) })
	}
	return []row{
		{name: "list: 1,000 field selectors on five custom resources of 1 MiB", before: before, request: get(things, "fieldSelector", names(1000)), cpu: time.Second, memory: 200},
		{name: "list: 10,000 label selectors", before: before, request: get(things, "labelSelector", repeat(10_000, func(n int) string { return fmt.Sprintf("a%d!=b", n) })), cpu: 2 * time.Second, memory: 200},
		{name: "list: a label selector of 50,000 values", before: before, request: get(things, "labelSelector", "a in ("+repeat(50_000, func(n int) string { return fmt.Sprint(n) })+")"), cpu: 2 * time.Second, memory: 200},
		{name: "list: 10,000 field selectors on pods", request: get("/api/v1/pods", "fieldSelector", names(10_000)), cpu: 2 * time.Second, memory: 200},
		{name: "list: a continue token of 500 KB", request: get(configMaps, "continue", strings.Repeat("A", 500_000)), cpu: time.Second, memory: 100},
		{name: "list: a query of 900 KB", request: get(configMaps, "x", strings.Repeat("&y=1", 75_000)), cpu: time.Second, memory: 100},
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return out.Bytes()
}

func bodyRows() []row {
	create := func(contentType string, body []byte) request {
		return request{path: configMaps, contentType: contentType, body: body}
	}
	fields := repeat(100_000, func(n int) string { return fmt.Sprintf(`"f%d":"v"`, n) })
	// Groups in groups, of an unknown field.
	groups := append([]byte("k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12"), 0x80, 0x80, 0x40)
	groups = append(groups, bytes.Repeat([]byte{0x7b}, mebibyte)...)
	return []row{
		{name: "body: 3 MiB of [", request: create("", bytes.Repeat([]byte("["), 3*mebibyte)), codes: []int{400}, cpu: time.Second, memory: 100},
		{name: "body: lists nested 100,000 deep", request: create("", configMap("deep", `,"x":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))), codes: []int{400}, cpu: time.Second, memory: 100},
		{name: "body: objects nested 9,000 deep in a custom resource", before: []request{defineThings()},
			request: request{path: things, body: thing("deep", strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9000))}, cpu: 3 * time.Second, memory: 200},
		{name: "body: 100,000 fields of a configuration map", request: create("", configMap("wide", `,"data":{`+fields+`}`)), cpu: 25 * time.Second, memory: 300},
		{name: "body: 100,000 unknown fields", request: create("", configMap("unknown", ","+fields)), codes: []int{201}, cpu: 3 * time.Second, memory: 200},
		{name: "body: 100,000 times one field", request: create("", configMap("twice", ","+repeat(100_000, same(`"data":{}`)))), codes: []int{201}, cpu: 3 * time.Second, memory: 200},
		{name: "body: 700,000 numbers in a custom resource", before: []request{defineThings()},
			request: request{path: things, body: thing("numbers", `{"l":[`+repeat(700_000, same("1"))+`]}`)}, cpu: 4 * time.Second, memory: 300},
		{name: "body: 20,000 labels", request: create("", []byte(`{"metadata":{"name":"labels","labels":{`+repeat(20_000, func(n int) string { return fmt.Sprintf(`"l%d":"v"`, n) })+`}}}`)), codes: []int{201}, cpu: 6 * time.Second, memory: 200},
		{name: "body: annotations of 3 MB", request: create("", []byte(`{"metadata":{"name":"notes","annotations":{`+repeat(100_000, func(n int) string { return fmt.Sprintf(`"n%d":"0123456789"`, n) })+`}}}`)), codes: []int{422}, cpu: 25 * time.Second, memory: 200},
		{name: "body: managedFields of 2 MB", request: create("", []byte(`{"metadata":{"name":"managed","managedFields":[`+repeat(10_000, func(n int) string {
			return fmt.Sprintf(`{"manager":"m%d","operation":"Apply","apiVersion":"v1","time":"2020-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:k%d":{}}}}`, n, n)
		})+`]}}`)), cpu: 6 * time.Second, memory: 300},
		{name: "body: a pod with a quantity of 2,900,000 digits", before: []request{{path: "/api/v1/namespaces/default/serviceaccounts", body: []byte(`{"metadata":{"name":"default"}}`)}}, request: request{path: "/api/v1/namespaces/default/pods?dryRun=All", body: []byte(`{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"` + strings.Repeat("1", 2_900_000) + `"}}}]}}`)}, codes: []int{400}, cpu: time.Second, memory: 100},
		{name: "body: protobuf, a million unknown groups, nested", request: create(protobuf, groups), codes: []int{400}, cpu: time.Second, memory: 100},
		{name: "body: protobuf, a length that lies", request: create(protobuf, []byte("k8s\x00\x0a\xff\xff\xff\xff\x07")), codes: []int{400}, cpu: time.Second, memory: 50},
		{name: "body: 100 MB, compressed to 100 KB", request: request{path: configMaps, body: gzipped(bytes.Repeat([]byte(" "), 100*mebibyte)), header: http.Header{"Content-Encoding": {"gzip"}}}, codes: []int{400, 413, 415}, cpu: time.Second, memory: 50},
		{name: "body: an event with a message of 2 MB", request: request{path: "/api/v1/namespaces/default/events", body: []byte(`{"metadata":{"name":"e","namespace":"default"},"involvedObject":{"namespace":"default"},"message":"` + strings.Repeat("x", 2*mebibyte) + `"}`)}, cpu: 2 * time.Second, memory: 200},
	}
}

func headerRows() []row {
	header := http.Header{}
	for n := range 5000 {
		header[fmt.Sprintf("X-%d", n)] = []string{strings.Repeat("x", 100)}
	}
	groups := http.Header{"Impersonate-User": {"u"}}
	for n := range 5000 {
		groups["Impersonate-Group"] = append(groups["Impersonate-Group"], fmt.Sprintf("g%d", n))
	}
	get := func(h http.Header) request { return request{method: http.MethodGet, path: configMaps, header: h} }
	return []row{
		{name: "header: 500 KB", request: get(header), cpu: time.Second, memory: 50},
		{name: "header: 5,000 groups to impersonate", request: get(groups), cpu: 4 * time.Second, memory: 100},
		{name: "header: Accept of 500 KB", request: get(http.Header{"Accept": {repeat(20_000, same("application/x;q=0.1;a=b"))}}), cpu: 2 * time.Second, memory: 100},
		{name: "header: 100,000 encodings accepted", request: get(http.Header{"Accept-Encoding": {repeat(100_000, same("x"))}}), cpu: time.Second, memory: 50},
	}
}

func reviewRows() []row {
	review := func(kind, group, spec string) request {
		return request{path: "/apis/" + group + "/v1/" + strings.ToLower(kind) + "s", body: fmt.Appendf(nil, `{"apiVersion":"%s/v1","kind":%q,"spec":%s}`, group, kind, spec)}
	}
	requirements := repeat(10_000, func(n int) string { return fmt.Sprintf(`{"key":"k%d","operator":"In","values":["a","b"]}`, n) })
	rules := repeat(10_000, func(n int) string { return fmt.Sprintf(`{"apiGroups":["g%d"],"resources":["r"],"verbs":["get"]}`, n) })
	return []row{
		{name: "review: access by 10,000 requirements on labels", request: review("SubjectAccessReview", "authorization.k8s.io", `{"user":"u","resourceAttributes":{"verb":"list","resource":"pods","labelSelector":{"requirements":[`+requirements+`]}}}`), cpu: 1 * time.Second, memory: 100},
		{name: "review: access of a user in 50,000 groups", request: review("SubjectAccessReview", "authorization.k8s.io", `{"user":"u","groups":[`+repeat(50_000, func(n int) string { return fmt.Sprintf(`"g%d"`, n) })+`],"resourceAttributes":{"verb":"list","resource":"pods"}}`), codes: []int{201}, cpu: 2 * time.Second, memory: 100},
		{name: "review: a token of 2.9 MB", request: review("TokenReview", "authentication.k8s.io", `{"token":"`+strings.Repeat("a.", 2_900_000/2)+`"}`), codes: []int{201}, cpu: 2 * time.Second, memory: 100},
		{name: "rbac: a role of 10,000 rules", request: request{path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", body: []byte(`{"metadata":{"name":"many"},"rules":[` + rules + `]}`)}, cpu: 6 * time.Second, memory: 200},
		{name: "review: rules of a user who has 10,000", before: []request{
			{path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", body: []byte(`{"metadata":{"name":"many"},"rules":[` + rules + `]}`)},
			{path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body: []byte(`{"metadata":{"name":"many"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"many"},"subjects":[{"kind":"Group","name":"system:masters","apiGroup":"rbac.authorization.k8s.io"}]}`)},
		}, request: review("SelfSubjectRulesReview", "authorization.k8s.io", `{"namespace":"default"}`), codes: []int{201}, cpu: 2 * time.Second, memory: 200},
		{name: "webhooks: 1,000 with 8 conditions each", request: request{path: "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All", body: []byte(`{"metadata":{"name":"many"},"webhooks":[` + repeat(1000, func(n int) string {
			return fmt.Sprintf(`{"name":"w%d.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore","clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["x"],"apiVersions":["v1"],"operations":["*"],"resources":["*"]}],"matchConditions":[%s]}`, n,
				repeat(8, func(c int) string {
					return fmt.Sprintf(`{"name":"c%d","expression":"object.metadata.name == '%d-%d'"}`, c, n, c)
				}))
		}) + `]}`)}, codes: []int{201}, cpu: 60 * time.Second, memory: 800},
	}
}

func definitionRows() []row {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 500) + `{"type":"string"}` + strings.Repeat("}}", 500)
	wide := `{"type":"object","properties":{` + repeat(10_000, func(n int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, n) }) + `}}`
	rules := `{"type":"object","properties":{` + repeat(200, func(n int) string {
		return fmt.Sprintf(`"p%d":{"type":"string","maxLength":10,"x-kubernetes-validations":[{"rule":"self.size() < %d"}]}`, n, n)
	}) + `}}`
	object := func(plural, spec string) request {
		return request{path: "/apis/hostile.example.com/v1/namespaces/default/" + plural,
			body: fmt.Appendf(nil, `{"apiVersion":"hostile.example.com/v1","kind":"%s","metadata":{"name":"a"},"spec":%s}`, strings.ToUpper(plural[:1])+plural[1:len(plural)-1], spec)}
	}
	return []row{
		{name: "crd: a schema 500 deep", request: define("deeps", deep), cpu: 10 * time.Second, memory: 300},
		{name: "crd: 10,000 properties", request: define("wides", wide), codes: []int{201}, cpu: 15 * time.Second, memory: 500},
		{name: "crd: 200 rules", request: define("ruleds", rules), codes: []int{201}, cpu: 15 * time.Second, memory: 300},
		{name: "crd: a schema that refers to itself", request: define("loops", `{"$ref":"#/definitions/x","type":"object"}`), codes: []int{422}, cpu: time.Second, memory: 50},
		{name: "cr: 10,000 properties", before: []request{define("wides", wide)}, request: object("wides", `{`+repeat(10_000, func(n int) string { return fmt.Sprintf(`"p%d":"x"`, n) })+`}`), codes: []int{201}, cpu: 5 * time.Second, memory: 300},
		{name: "cr: 200 rules", before: []request{define("ruleds", rules)}, request: object("ruleds", `{`+repeat(200, func(n int) string { return fmt.Sprintf(`"p%d":""`, n) })+`}`), cpu: 10 * time.Second, memory: 300},
		{name: "cr: a pattern of a thousand choices on 100 KB", before: []request{define("patterns", `{"type":"string","pattern":"^(a?){1000}$"}`)}, request: object("patterns", `"`+strings.Repeat("a", 100_000)+`"`), codes: []int{422}, cpu: 10 * time.Second, memory: 100},
		{name: "cr: unique items, 20,000", before: []request{define("sets", `{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}`)}, request: object("sets", `[`+repeat(20_000, func(n int) string { return fmt.Sprintf(`"%d"`, n) })+`]`), codes: []int{201}, cpu: 5 * time.Second, memory: 200},
		{name: "cr: a map list of 10,000", before: []request{define("maps", `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}`)},
			request: object("maps", `[`+repeat(10_000, func(n int) string { return fmt.Sprintf(`{"k":"%d"}`, n) })+`]`), codes: []int{201}, cpu: 5 * time.Second, memory: 300},
	}
}

func applyRows() []row {
	apply := func(path, manager string, body []byte) request {
		return request{http.MethodPatch, path + "?force=true&fieldManager=" + manager, applyPatch, body, nil}
	}
	maps := func(more string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"hostile.example.com/v1","kind":"Map","metadata":{"name":"b"},"spec":[%s]}`,
			repeat(10_000, func(n int) string { return fmt.Sprintf(`{"k":"%d%s"}`, n, more) }))
	}
	data := func(n int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{%s}}`, repeat(n, func(n int) string { return fmt.Sprintf(`"f%d":"v"`, n) }))
	}
	path := "/apis/hostile.example.com/v1/namespaces/default/maps/b"
	return []row{
		{name: "apply: 30,000 fields", request: apply(configMaps+"/applied", "a", data(30_000)), cpu: 6 * time.Second, memory: 400},
		{name: "apply: 100,000 fields", request: apply(configMaps+"/applied", "b", data(100_000)), codes: []int{200, 201, 413, 504}, cpu: 40 * time.Second, memory: 800},
		{name: "apply: a map list of 10,000", request: apply(path, "a", maps("")), cpu: 6 * time.Second, memory: 400},
		{name: "apply: a map list of 10,000 others, by another manager", request: apply(path, "b", maps("x")), cpu: 8 * time.Second, memory: 600},
	}
}

// endlessRows stand last, since kube-apiserver does not end them.
func endlessRows() []row {
	return []row{
		{name: "body: a pod with a quantity of 1e999999999", before: []request{{path: "/api/v1/namespaces/default/serviceaccounts", body: []byte(`{"metadata":{"name":"default"}}`)}}, request: request{path: "/api/v1/namespaces/default/pods?dryRun=All", body: []byte(`{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1e999999999"},"requests":{"cpu":"1"}}}]}}`)}, codes: []int{400}, cpu: time.Second, memory: 100},
	}
}
