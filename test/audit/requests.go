package audit

import (
	"fmt"
	"strings"
)

// ask is one request. Its place in the list is its audit ID.
type ask struct {
	user    string // whose token it brings; "": none
	method  string
	path    string
	body    string
	headers map[string]string
}

const (
	jsonType      = "application/json"
	mergeType     = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	jsonPatchType = "application/json-patch+json"
	applyType     = "application/apply-patch+yaml"
)

// asks is the list of requests, in order.
func asks() []ask {
	var out []ask
	add := func(user, method, path, contentType, body string, headers ...string) {
		h := map[string]string{"User-Agent": "audit-test"}
		if contentType != "" {
			h["Content-Type"] = contentType
		}
		for n := 0; n+1 < len(headers); n += 2 {
			h[headers[n]] = headers[n+1]
		}
		out = append(out, ask{user, method, path, body, h})
	}
	get := func(path string, headers ...string) { add("admin", "GET", path, "", "", headers...) }
	add("admin", "POST", "/api/v1/namespaces", jsonType, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"audited"}}`)
	get("/api/v1/namespaces/audited")
	for _, k := range kinds() {
		all, one := k.path, k.path+"/"+k.name
		add("admin", "POST", all, jsonType, k.object(""))
		add("admin", "POST", all, jsonType, k.object(""))
		add("admin", "POST", all+"?dryRun=All", jsonType, k.object("dry"))
		add("admin", "POST", all, jsonType, `{"kind":"Nonsense","apiVersion":"v1"}`)
		get(one)
		get(one, "Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		get(one, "Accept", "application/vnd.kubernetes.protobuf")
		get(one + "-missing")
		get(all + "?labelSelector=app%3Daudit")
		get(all+"?limit=5", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		add("admin", "PUT", one, jsonType, k.object(""))
		add("admin", "PUT", one+"-missing", jsonType, k.object(""))
		add("admin", "PATCH", one, mergeType, `{"metadata":{"labels":{"merge":"yes"}}}`)
		add("admin", "PATCH", one, jsonPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"<yes>"}]`)
		add("admin", "PATCH", one, strategicType, `{"metadata":{"labels":{"strategic":"yes"}}}`)
		add("admin", "PATCH", one, jsonPatchType, `[{"op":"remove","path":"/nothing"}]`)
		add("admin", "PATCH", one, applyType, k.object("")) // without a manager
		add("alice", "GET", one, "", "")
		add("alice", "DELETE", one, "", "")
		get(all + "?watch=1&timeoutSeconds=1")
	}
	for _, path := range []string{"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/healthz", "/readyz/ping",
		"/livez", "/nothing", "/api/v1/nothing", "/apis/nothing/v1/things", "/api/v1/pods?timeout=nonsense",
		"/api/v1/namespaces/audited/pods/x/nothing", "/api/v1/watch/namespaces/audited/secrets?timeoutSeconds=1"} {
		get(path)
	}
	add("", "GET", "/healthz", "", "")
	add("nobody", "GET", "/api/v1/namespaces/audited/pods", "", "")
	add("nobody", "POST", "/api/v1/namespaces/audited/pods", jsonType, "{}")
	add("alice", "GET", "/metrics", "", "")
	add("alice", "GET", "/api/v1/namespaces/audited/pods?watch=1", "", "")
	add("alice", "GET", "/api/v1/pods", "", "", "Impersonate-User", "bob")
	get("/api/v1/namespaces/audited/configmaps/c", "Impersonate-User", "bob", "Impersonate-Group", "system:masters")
	get("/api/v1/namespaces/audited/configmaps/c", "Impersonate-User", "carol", "Impersonate-Extra-Reason", "test", "Impersonate-Uid", "1")
	get("/api/v1/namespaces/audited/configmaps/c", "Impersonate-Group", "nobody-in-it")
	get("/api/v1/namespaces/audited/configmaps/c", "User-Agent", strings.Repeat("long ", 300))
	get("/api/v1/namespaces/audited/configmaps/c", "X-Forwarded-For", "10.1.2.3, 10.4.5.6", "X-Real-Ip", "10.7.8.9")
	add("admin", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", jsonType,
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`)
	add("alice", "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", jsonType, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	add("admin", "GET", "/apis/apps/v1/namespaces/audited/deployments/d/scale", "", "")
	add("admin", "PUT", "/apis/apps/v1/namespaces/audited/deployments/d/scale", jsonType,
		`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"audited"},"spec":{"replicas":2}}`)
	add("admin", "PATCH", "/apis/apps/v1/namespaces/audited/deployments/d/scale", mergeType, `{"spec":{"replicas":3}}`)
	add("admin", "PATCH", "/apis/apps/v1/namespaces/audited/deployments/d/status", mergeType, `{"status":{"observedGeneration":1}}`)
	add("admin", "POST", "/api/v1/namespaces/audited/pods/p/binding", jsonType,
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`)
	add("admin", "POST", "/api/v1/namespaces/audited/pods/p/eviction", jsonType,
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p","namespace":"audited"}}`)
	add("admin", "POST", "/api/v1/namespaces/audited/configmaps", jsonType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"gen-","namespace":"other"}}`)
	add("admin", "DELETE", "/api/v1/namespaces/audited/secrets/s", jsonType,
		`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}`)
	for _, k := range kinds() {
		add("admin", "DELETE", k.path+"/"+k.name+"?propagationPolicy=Background", "", "")
		add("admin", "DELETE", k.path+"/"+k.name+"-missing", "", "")
		add("admin", "DELETE", k.path+"?labelSelector=none%3Dsuch", "", "")
	}
	add("admin", "PATCH", "/api/v1/namespaces/audited/configmaps/applied?fieldManager=test", applyType,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"b"}}`)
	return out
}

// kind is a resource that is asked for in all ways.
type kind struct{ path, apiVersion, kind, name, rest string }

// object is an object of the kind; suffix is put behind its name.
func (k kind) object(suffix string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"audited","labels":{"app":"audit"}}%s}`,
		k.apiVersion, k.kind, k.name+suffix, k.rest)
}

func kinds() []kind {
	const template = `{"metadata":{"labels":{"app":"audit"}},"spec":{"containers":[{"name":"c","image":"i"}]%s}}`
	core := "/api/v1/namespaces/audited/"
	return []kind{
		{core + "configmaps", "v1", "ConfigMap", "c", `,"data":{"k":"v & w"}`},
		{core + "secrets", "v1", "Secret", "s", `,"stringData":{"password":"hidden"}`},
		{core + "services", "v1", "Service", "v", `,"spec":{"clusterIP":"None","ports":[{"port":80}]}`},
		{core + "pods", "v1", "Pod", "p", `,"spec":{"containers":[{"name":"c","image":"i"}],"automountServiceAccountToken":false}`},
		{"/apis/apps/v1/namespaces/audited/deployments", "apps/v1", "Deployment", "d",
			`,"spec":{"selector":{"matchLabels":{"app":"audit"}},"template":` + fmt.Sprintf(template, "") + `}`},
		{"/apis/batch/v1/namespaces/audited/cronjobs", "batch/v1", "CronJob", "j",
			`,"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":` + fmt.Sprintf(template, `,"restartPolicy":"Never"`) + `}}}`},
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/audited/roles", "rbac.authorization.k8s.io/v1", "Role", "r",
			`,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`},
	}
}
