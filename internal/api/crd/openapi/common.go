package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	builtin "github.com/kanzen-io/kanzen/internal/api/openapi"
)

// common is the part that is the same in all resources' documents of one OpenAPI version.
type common struct {
	v2      bool
	schemas map[string]json.RawMessage // v3 only
	// Parameters, in the order of the documents.
	list, get, create, replace, patch, remove []json.RawMessage
	everywhere                                []json.RawMessage // of the list across all namespaces
	namespace, pretty                         json.RawMessage
}

const (
	metaPackage  = "io.k8s.apimachinery.pkg.apis.meta.v1."
	scalePackage = "io.k8s.api.autoscaling.v1."
)

func isScale(name string) bool { return strings.HasPrefix(name, scalePackage) }

// commonSchemas returns the names of the standard schemas in documents of custom resources.
func commonSchemas() []string {
	names := []string{scalePackage + "Scale", scalePackage + "ScaleSpec", scalePackage + "ScaleStatus"}
	for _, name := range []string{
		"DeleteOptions", "FieldsV1", "ListMeta", "ManagedFieldsEntry", "ObjectMeta", "OwnerReference", "Patch",
		"Preconditions", "ShardInfo", "Status", "StatusCause", "StatusDetails", "Time",
	} {
		names = append(names, metaPackage+name)
	}
	return names
}

// path is a path item of a document.
type path struct {
	Get, Post, Put, Patch, Delete struct{ Parameters []json.RawMessage }
	Parameters                    []json.RawMessage
}

// commonV3 reads the document of a built-in group whose kinds have all verbs and a scale.
func commonV3(s *builtin.Set) (*common, error) {
	d, ok := s.Document("apis/apps/v1")
	if !ok {
		return nil, fmt.Errorf("no OpenAPI document of apps/v1")
	}
	text, err := d.JSON()
	if err != nil {
		return nil, err
	}
	c, err := commonOf(text)
	if err != nil {
		return nil, err
	}
	c.schemas = map[string]json.RawMessage{}
	for _, name := range commonSchemas() {
		var schema json.RawMessage
		if err := member(text, name, &schema); err != nil {
			return nil, err
		}
		c.schemas[name] = schema
	}
	name := metaPackage + "DeleteOptions"
	c.schemas[name], err = everyDeleteOptions(s, c.schemas[name])
	return c, err
}

func commonV2(s *builtin.Set) (*common, error) {
	text, err := s.BuiltinV2()
	if err != nil {
		return nil, err
	}
	c, err := commonOf(text)
	if err != nil {
		return nil, err
	}
	c.v2 = true
	return c, nil
}

// commonOf takes the parameters from a kind that has all verbs.
func commonOf(doc []byte) (*common, error) {
	var every, all, one path
	for at, p := range map[string]*path{
		"/apis/apps/v1/deployments":                               &every,
		"/apis/apps/v1/namespaces/{namespace}/deployments":        &all,
		"/apis/apps/v1/namespaces/{namespace}/deployments/{name}": &one,
	} {
		if err := member(doc, at, p); err != nil {
			return nil, err
		}
	}
	c := &common{
		list: all.Get.Parameters, create: all.Post.Parameters,
		replace: one.Put.Parameters, patch: one.Patch.Parameters, remove: one.Delete.Parameters,
		everywhere: every.Parameters,
	}
	for _, p := range c.list {
		if parameter(p) == "resourceVersion" {
			c.get = append(c.get, p)
		}
	}
	for _, p := range all.Parameters {
		switch parameter(p) {
		case "namespace":
			c.namespace = p
		case "pretty":
			c.pretty = p
		}
	}
	// Request bodies that are objects of the kind are not common.
	isOwn := func(p json.RawMessage) bool {
		return parameter(p) == "body" && !strings.Contains(string(p), "#/parameters/")
	}
	c.create, c.replace = slices.DeleteFunc(c.create, isOwn), slices.DeleteFunc(c.replace, isOwn)
	return c, nil
}

// member decodes the member of a document, at any depth, whose name occurs only once as a member name. The documents
// are large, and only a small part is needed.
func member(doc []byte, name string, v any) error {
	key := strconv.Quote(name) + ":"
	i := bytes.Index(doc, []byte(key))
	if i < 0 {
		return fmt.Errorf("the OpenAPI document has no %s", name)
	}
	if err := json.NewDecoder(bytes.NewReader(doc[i+len(key):])).Decode(v); err != nil {
		return fmt.Errorf("OpenAPI of %s: %w", name, err)
	}
	return nil
}

// parameter returns the name of a parameter, or of the one it refers to.
func parameter(text json.RawMessage) string {
	var p struct {
		Name string
		Ref  string `json:"$ref"`
	}
	if json.Unmarshal(text, &p) != nil {
		return ""
	}
	if p.Ref == "" {
		return p.Name
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(p.Ref, "#/parameters/"), "-")
	return name
}

// everyDeleteOptions sets the kinds of DeleteOptions to those of all groups that clients know, instead of those in one
// document.
func everyDeleteOptions(s *builtin.Set, schema json.RawMessage) (json.RawMessage, error) {
	const extension = "x-kubernetes-group-version-kind"
	text, err := s.BuiltinV2()
	if err != nil {
		return nil, err
	}
	var all struct {
		Kinds []map[string]string `json:"x-kubernetes-group-version-kind"`
	}
	if err := member(text, metaPackage+"DeleteOptions", &all); err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(schema, &out); err != nil {
		return nil, err
	}
	out[extension] = slices.DeleteFunc(all.Kinds, func(k map[string]string) bool {
		return slices.Contains([]string{"admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"}, k["group"])
	})
	return json.Marshal(out)
}
