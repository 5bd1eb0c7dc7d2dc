package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// Alone returns a set of only these parts, without the built-in documents: what an extension API server serves. Its
// documents must not contain built-in paths, because the Aggregator Server merges them.
func (s *Set) Alone(parts ...Part) *Set {
	n := &Set{ix: s.ix, at: s.at, parts: parts, docs: map[string]Document{}, alone: true}
	h := sha512.New()
	for _, p := range parts {
		_, _ = fmt.Fprintln(h, p.V2Hash)
		for _, d := range p.Documents {
			if _, taken := n.docs[d.Path]; !taken {
				n.docs[d.Path] = d
			}
		}
	}
	n.v2Hash = fmt.Sprintf("%X", h.Sum(nil))
	n.v3Index = sync.OnceValue(n.makeV3Index)
	return n
}

// references matches the references inside a v2 or v3 document.
var references = regexp.MustCompile(`"#/(?:components/)?(definitions|parameters|schemas)/([^"]+)"`)

// members are the referable members of a document: definitions and parameters in v2, schemas in v3, by name.
type members map[string]map[string]json.RawMessage

// follow copies everything that a text refers to, directly or not, from all.
func (m members) follow(text []byte, all members) {
	for _, match := range references.FindAllSubmatch(text, -1) {
		have, known, name := m[string(match[1])], all[string(match[1])], string(match[2])
		if _, there := have[name]; there || known[name] == nil {
			continue
		}
		have[name] = known[name]
		m.follow(known[name], all)
	}
}

// v2Alone returns the v2 document of the parts alone, with the built-in definitions and parameters that they refer to.
// Like v2, it may return a document together with an error.
func (s *Set) v2Alone(protobuf bool) ([]byte, error) {
	added, errAdded := s.addedToBuiltin()
	if added == nil {
		return nil, errAdded
	}
	text, err := s.withReferences(added)
	if err != nil || !protobuf {
		return text, errors.Join(errAdded, err)
	}
	parsed, err := Parsed(text, openapiv2.ParseDocument)
	if err != nil {
		return nil, fmt.Errorf("v2 document as protobuf: %w", err)
	}
	out, err := proto.Marshal(parsed)
	return out, errors.Join(errAdded, err)
}

// withReferences returns a v2 document of a fragment and what it refers to.
func (s *Set) withReferences(f *Fragment) ([]byte, error) {
	text, err := s.BuiltinV2()
	if err != nil {
		return nil, err
	}
	var base struct {
		Swagger, Info, SecurityDefinitions, Security json.RawMessage
		Definitions, Parameters                      map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &base); err != nil {
		return nil, err
	}
	own, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	used := members{"definitions": f.Definitions, "parameters": {}}
	used.follow(own, members{"definitions": base.Definitions, "parameters": base.Parameters})
	return json.Marshal(map[string]any{"swagger": base.Swagger, "info": base.Info, "paths": f.Paths,
		"definitions": used["definitions"], "parameters": used["parameters"],
		"securityDefinitions": base.SecurityDefinitions, "security": base.Security})
}
