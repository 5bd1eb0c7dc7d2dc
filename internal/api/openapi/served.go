package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Served is what a server serves of what the documents were recorded of. What it does not serve is taken out of the documents, as
// kube-apiserver's do not have it.
type Served struct {
	// Version is that of Kubernetes in the documents: "1.36"; "": the recorded one.
	Version string
	// Resources are those of each group and version, and their subresources, by the path of its document: "cronjobs" and
	// "cronjobs/status" of "apis/batch/v1". Nil: all that is served by default.
	Resources map[string][]string
	// NoEnums says that schemas do not list the values of fields.
	NoEnums bool
}

// document reports whether a recorded document is of something that is served.
func (s *Served) document(path string) bool {
	if s.Resources == nil || !strings.HasPrefix(path, "api/") && !strings.HasPrefix(path, "apis/") {
		return true
	}
	if _, ok := s.Resources[path]; ok {
		return true
	}
	for version := range s.Resources {
		if strings.HasPrefix(version, path+"/") { // the path is a group's
			return true
		}
	}
	return false
}

// path reports whether a path in a recorded document ("/apis/batch/v1/cronjobs") is served.
func (s *Served) path(path string) bool {
	document, resource := ResourceOf(path)
	if !s.document(document) {
		return false
	}
	return s.Resources == nil || resource == "" || slices.Contains(s.Resources[document], resource)
}

// ResourceOf returns the path of the document in which a path of the API is, and the resource that the path has, with its subresource:
// "apis/batch/v1" and "cronjobs/status" for "/apis/batch/v1/namespaces/{namespace}/cronjobs/{name}/status".
func ResourceOf(path string) (document, resource string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	n := map[string]int{"api": 2, "apis": 3}[parts[0]]
	if n == 0 || len(parts) <= n {
		return strings.Join(parts, "/"), ""
	}
	document, parts = strings.Join(parts[:n], "/"), parts[n:]
	if parts[0] == "watch" && len(parts) > 1 {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[1] == "{namespace}" {
		parts = parts[2:]
	}
	if len(parts) > 2 { // RESOURCE/{name}/SUBRESOURCE
		return document, parts[0] + "/" + parts[2]
	}
	return document, parts[0]
}

// narrows reports whether a recorded document has something that is not served.
func (s *Set) narrows(path string) bool {
	return s.served.NoEnums || s.served.Version != "" && s.served.Version != s.ix.Versions[path] || s.served.Resources != nil &&
		slices.ContainsFunc(s.ix.Resources[path], func(r string) bool { return !slices.Contains(s.served.Resources[path], r) })
}

// narrowsV2 reports whether the recorded v2 document has something that is not served.
func (s *Set) narrowsV2() bool {
	for path := range s.ix.V3 {
		if !s.served.document(path) || s.narrows(path) {
			return true
		}
	}
	return false
}

// narrowedHash is the hash of a recorded document without what is not served. It is made of what the document is made of, and not of
// its content: that is made for those who ask for it.
func (s *Set) narrowedHash(recorded string) string {
	h := sha512.New()
	_, _ = fmt.Fprintln(h, recorded, s.served.Version)
	if s.served.NoEnums {
		_, _ = fmt.Fprintln(h, "no enums")
	}
	for _, path := range slices.Sorted(maps.Keys(s.served.Resources)) {
		_, _ = fmt.Fprintln(h, path, slices.Sorted(slices.Values(s.served.Resources[path])))
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// narrowed returns a recorded document without what is not served.
func (s *Set) narrowed(d Document) Document {
	whole := d.JSON
	d.JSON = func() ([]byte, error) {
		doc, err := whole()
		if err != nil {
			return nil, err
		}
		return s.narrowV3(doc)
	}
	d.Proto = nil // made of the JSON
	d.Hash = s.narrowedHash(d.Hash)
	return d
}

// documentV3 is a recorded v3 document, in the order of its members.
type documentV3 struct {
	OpenAPI    json.RawMessage            `json:"openapi"`
	Info       info                       `json:"info"`
	Paths      map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas         map[string]json.RawMessage `json:"schemas,omitempty"`
		SecuritySchemes json.RawMessage            `json:"securitySchemes,omitempty"`
	} `json:"components"`
}

type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

func (s *Set) narrowV3(doc []byte) ([]byte, error) {
	var d documentV3
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	s.served.narrow(&d.Info, d.Paths)
	d.Components.Schemas = referred(d.Paths, members{"schemas": d.Components.Schemas})["schemas"]
	if s.served.NoEnums {
		if err := withoutEnums(d.Components.Schemas); err != nil {
			return nil, err
		}
	}
	return json.Marshal(d)
}

// referred returns the members to which paths refer, directly or not.
func referred(paths map[string]json.RawMessage, all members) members {
	used := members{}
	for kind := range all {
		used[kind] = map[string]json.RawMessage{}
	}
	for _, path := range paths {
		used.follow(path, all)
	}
	return used
}

// narrow takes out of a recorded document what is not served.
func (s *Served) narrow(about *info, paths map[string]json.RawMessage) {
	if s.Version != "" {
		about.Version = s.Version
	}
	maps.DeleteFunc(paths, func(path string, _ json.RawMessage) bool { return !s.path(path) })
}

// documentV2 is the recorded v2 document, in the order of its members.
type documentV2 struct {
	Swagger             json.RawMessage            `json:"swagger"`
	Info                info                       `json:"info"`
	Paths               map[string]json.RawMessage `json:"paths"`
	Definitions         map[string]json.RawMessage `json:"definitions"`
	Parameters          map[string]json.RawMessage `json:"parameters,omitempty"`
	SecurityDefinitions json.RawMessage            `json:"securityDefinitions,omitempty"`
	Security            json.RawMessage            `json:"security,omitempty"`
}

// v2Narrowed is v2 if the recorded document has something that is not served.
func (s *Set) v2Narrowed(protobuf bool) ([]byte, error) {
	doc, err := s.BuiltinV2()
	if err != nil {
		return nil, err
	}
	var d documentV2
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	s.served.narrow(&d.Info, d.Paths)
	if s.served.NoEnums {
		if err := withoutEnums(d.Definitions); err != nil {
			return nil, err
		}
	}
	first := len(s.parts)
	if n := slices.IndexFunc(s.parts, func(p Part) bool { return !p.recorded }); n >= 0 {
		first = n
	}
	more, errMore := addedTo(&Fragment{d.Paths, d.Definitions}, s.parts[:first])
	maps.Copy(d.Paths, more.Paths)
	maps.Copy(d.Definitions, more.Definitions)
	added, errAdded := addedTo(&Fragment{d.Paths, d.Definitions}, s.parts[first:])
	maps.Copy(d.Paths, added.Paths)
	all := members{"definitions": d.Definitions, "parameters": d.Parameters}
	used := referred(d.Paths, all)
	for _, definition := range added.Definitions {
		used.follow(definition, all)
	}
	d.Definitions, d.Parameters = used["definitions"], used["parameters"]
	maps.Copy(d.Definitions, added.Definitions) // also what nothing refers to
	if doc, err = json.Marshal(d); err != nil {
		return nil, err
	}
	if s.cbor {
		doc = []byte(mediaV2.Replace(string(doc)))
	}
	if protobuf {
		doc, err = protoV2(doc)
	}
	return doc, errors.Join(errMore, errAdded, err)
}
