package openapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
)

// operation is an operation of a path.
type operation struct {
	method, action, verb string
	description          string
	parameters           []json.RawMessage
	body                 string // the schema of the request body, or ""
	needsBody            bool
	answer               string // the schema of the response
	statuses             []string
}

// paths returns the paths of a kind.
func (k *kind) paths() object {
	root := "/apis/" + k.group + "/" + k.version + "/"
	own, list := k.model(k.name), k.model(k.list)
	out := object{}
	if k.namespaced {
		out[root+k.plural] = k.path([]operation{
			{method: "get", action: "list", verb: "list", description: "list objects of kind " + k.name, answer: list},
		}, k.everywhere, k.name+"ForAllNamespaces")
		root += "namespaces/{namespace}/"
	}
	id := k.name
	shared := []json.RawMessage{k.pretty}
	if k.namespaced {
		id = "Namespaced" + id
		shared = []json.RawMessage{k.namespace, k.pretty}
	}
	status := metaPackage + "Status"
	out[root+k.plural] = k.path([]operation{
		{method: "get", action: "list", verb: "list", description: "list objects of kind " + k.name, parameters: k.common.list, answer: list},
		{method: "post", action: "post", verb: "create", description: "create" + k.article() + k.name, parameters: k.create, body: own, needsBody: true, answer: own, statuses: []string{"201", "202"}},
		{method: "delete", action: "deletecollection", verb: "deletecollection", description: "delete collection of " + k.name, parameters: k.common.list, answer: status},
	}, shared, id)

	shared = append([]json.RawMessage{k.nameParameter()}, shared...)
	one := k.reads("", own)
	one = append(one, operation{method: "delete", action: "delete", verb: "delete", description: "delete" + k.article() + k.name,
		parameters: k.remove, body: metaPackage + "DeleteOptions", answer: status, statuses: []string{"202"}})
	root += k.plural + "/{name}"
	out[root] = k.path(one, shared, id)
	maps.DeleteFunc(out, func(_ string, item any) bool { return len(item.(object)) == 1 }) // only parameters
	if k.status {
		out[root+"/status"] = k.path(k.reads(" status of", own), shared, id+"Status")
	}
	if k.scale {
		out[root+"/scale"] = k.path(k.reads(" scale of", scalePackage+"Scale"), shared, id+"Scale")
	}
	for n := range k.connects {
		k.connect(out, root, &k.connects[n], shared, id)
	}
	return out
}

// takes reports whether requests for an operation are taken.
func (k *kind) takes(op *operation) bool {
	verb := map[string]string{"read": "get", "replace": "update"}[op.verb]
	return k.verbs == nil || slices.Contains(k.verbs, cmp.Or(verb, op.verb))
}

// connect adds the paths of a subresource that takes and gives anything, in the words of kube-apiserver for its streams.
func (k *kind) connect(paths object, root string, c *catalog.Connect, shared []json.RawMessage, id string) {
	methods := map[string]string{"get": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
	var ops []operation
	for _, verb := range c.Verbs {
		method := methods[verb]
		description := c.Doc
		if description == "" {
			description = "connect " + strings.ToUpper(method) + " requests to " + c.Name + " of " + k.name
		}
		ops = append(ops, operation{method: method, action: "connect", verb: "connect" + strings.ToUpper(method[:1]) + method[1:], description: description})
	}
	paths[root+"/"+c.Name] = k.path(ops, shared, id+identifier(c.Name, true))
	if c.Behind {
		behind := append([]json.RawMessage{k.pathParameter("path", "path to the resource")}, shared...)
		paths[root+"/"+c.Name+"/{path}"] = k.path(ops, behind, id+identifier(c.Name, true)+"WithPath")
	}
}

// reads returns the operations that an object and its subresources share.
func (k *kind) reads(of, schema string) []operation {
	the := of + " the specified " + k.name
	return []operation{
		{method: "get", action: "get", verb: "read", description: "read" + the, parameters: k.get, answer: schema},
		{method: "put", action: "put", verb: "replace", description: "replace" + the, parameters: k.replace, body: schema, needsBody: true, answer: schema, statuses: []string{"201"}},
		{method: "patch", action: "patch", verb: "patch", description: "partially update" + the, parameters: k.patch, body: metaPackage + "Patch", needsBody: true, answer: schema},
	}
}

// path returns a path item; id is the part of its operation IDs after the verb.
func (k *kind) path(operations []operation, shared []json.RawMessage, id string) object {
	out := object{"parameters": shared}
	group := strings.TrimSuffix(k.group, ".k8s.io")
	tag := identifier(group, false) + "_" + identifier(k.version, false)
	in := identifier(group, true) + identifier(k.version, true)
	for _, op := range operations {
		if op.action != "connect" && !k.takes(&op) {
			continue
		}
		o := object{
			"description": op.description, "tags": []string{tag}, "operationId": op.id(in, id),
			"x-kubernetes-action":             op.action,
			"x-kubernetes-group-version-kind": object{"group": k.group, "version": k.version, "kind": k.name},
		}
		if k.v2 {
			k.describeV2(&op, o)
		} else {
			k.describeV3(&op, o)
		}
		out[op.method] = o
	}
	return out
}

// id returns the operation ID; in is the group and version. The verb goes before both, the rest after them.
func (op *operation) id(in, id string) string {
	verb, rest := op.verb, ""
	if verb == "deletecollection" {
		verb, rest = "delete", "Collection"
	}
	return verb + in + identifier(rest+id, true)
}

func mediaTypes(method string) []string {
	if method == "patch" {
		return []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	}
	return []string{"application/json", "application/yaml"}
}

func (k *kind) describeV3(op *operation, o object) {
	content := func(types []string, schema string) object {
		out := object{}
		for _, t := range types {
			out[t] = object{"schema": k.ref(schema)}
		}
		return out
	}
	if len(op.parameters) > 0 {
		o["parameters"] = op.parameters
	}
	if op.body != "" {
		body := object{"content": content(mediaTypes(op.method), op.body)}
		if op.needsBody {
			body["required"] = true
		}
		o["requestBody"] = body
	}
	if op.answer == "" {
		o["responses"] = op.responses("content", object{"*/*": object{"schema": object{"type": "string"}}})
		return
	}
	o["responses"] = op.responses("content", content(mediaTypes("get"), op.answer))
}

func (k *kind) describeV2(op *operation, o object) {
	parameters := []any{}
	if op.body == k.model(k.name) || strings.HasPrefix(op.body, scalePackage) {
		parameters = append(parameters, object{"name": "body", "in": "body", "required": true, "schema": k.ref(op.body)})
	}
	for _, p := range op.parameters {
		parameters = append(parameters, p)
	}
	if len(parameters) > 0 {
		o["parameters"] = parameters
	}
	if op.answer == "" {
		o["consumes"], o["produces"], o["schemes"] = []string{"*/*"}, []string{"*/*"}, []string{"https"}
		o["responses"] = op.responses("schema", object{"type": "string"})
		return
	}
	o["consumes"], o["produces"], o["schemes"] = mediaTypes(op.method), mediaTypes("get"), []string{"https"}
	o["responses"] = op.responses("schema", k.ref(op.answer))
}

// responses returns the responses of an operation; the successful ones have a member that describes their content.
func (op *operation) responses(member string, of object) object {
	out := object{"401": object{"description": "Unauthorized"}, "200": object{"description": "OK", member: of}}
	for _, s := range op.statuses {
		text := "Created"
		if s == "202" {
			text = "Accepted"
		}
		out[s] = object{"description": text, member: of}
	}
	return out
}

func (k *kind) nameParameter() json.RawMessage { return k.pathParameter("name", "name of the "+k.name) }

func (k *kind) pathParameter(name, description string) json.RawMessage {
	p := object{"name": name, "in": "path", "description": description, "required": true}
	if k.v2 {
		p["type"], p["uniqueItems"] = "string", true
	} else {
		p["schema"] = object{"type": "string", "uniqueItems": true}
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // marshalling strings cannot fail
	}
	return b
}
