package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// v2 returns the v2 document of the set, in JSON or in protobuf. It leaves out a part that fails, because one broken
// API must not hide the others: it then returns the document together with an error.
func (s *Set) v2(protobuf bool) (doc []byte, err error) {
	if s.alone {
		return s.v2Alone(protobuf)
	}
	if s.narrowsV2() {
		return s.v2Narrowed(protobuf)
	}
	added := &Fragment{}
	if s.changesV2() {
		added, err = s.addedToBuiltin()
		if added == nil {
			added = &Fragment{}
		}
	}
	base, errBase := s.baseV2(protobuf)
	if errBase != nil {
		return nil, errors.Join(err, errBase)
	}
	if !protobuf {
		return s.insert(base, added), err
	}
	if len(added.Paths)+len(added.Definitions) == 0 {
		return base, err
	}
	// Protobuf messages merge by concatenation: repeated fields (paths, definitions) are appended.
	more, errProto := added.proto()
	return append(base, more...), errors.Join(err, errProto)
}

// baseV2 is the v2 document of the built-in kinds. insert adds CBOR to its JSON.
func (s *Set) baseV2(protobuf bool) ([]byte, error) {
	if protobuf && !s.cbor {
		packed, err := data.ReadFile("data/v2.pb.gz")
		if err != nil {
			return nil, err
		}
		return gunzip(packed)
	}
	doc, err := s.BuiltinV2()
	if err != nil || !protobuf {
		return doc, err
	}
	return protoV2(s.insert(doc, &Fragment{}))
}

// BuiltinV2 returns the v2 document of the built-in kinds, in JSON.
func (s *Set) BuiltinV2() ([]byte, error) {
	packed, err := data.ReadFile("data/v2.json.gz")
	if err != nil {
		return nil, err
	}
	return gunzip(packed)
}

// maxKept bounds the compressed v2 document that a set keeps of each kind, in bytes. Some ten thousand definitions with
// a hundred fields each reach it.
const maxKept = 64 << 20

// kept is a cached compressed document. While one request generates it, others wait: with thousands of definitions this
// takes seconds and much memory.
type kept struct {
	mu     sync.Mutex
	packed []byte // nil: not generated yet, or too large; guarded by mu
}

// v2Gzip returns the compressed v2 document. Like v2, it may return a document together with an error.
func (s *Set) v2Gzip(protobuf bool) ([]byte, error) {
	name, k := "data/v2.json.gz", &s.json
	if protobuf {
		name, k = "data/v2.pb.gz", &s.proto
	}
	if !s.alone && !s.cbor && !s.narrowsV2() && !s.changesV2() {
		return data.ReadFile(name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.packed != nil {
		return k.packed, nil
	}
	doc, err := s.v2(protobuf)
	if doc == nil {
		return nil, err
	}
	packed, errPack := gzipped(doc)
	if err = errors.Join(err, errPack); err == nil && len(packed) <= maxKept {
		k.packed = packed
	}
	return packed, err
}

// addedToBuiltin returns everything that the parts add to the built-in document.
func (s *Set) addedToBuiltin() (*Fragment, error) {
	b, err := s.BuiltinV2()
	if err != nil {
		return nil, err
	}
	var base Fragment
	if err := json.Unmarshal(b, &base); err != nil {
		return nil, err
	}
	return addedTo(&base, s.parts)
}

// addedTo returns everything that parts add to a document.
func addedTo(base *Fragment, parts []Part) (*Fragment, error) {
	all := &Fragment{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}}
	var errs []error
	for _, p := range parts {
		if p.V2 == nil {
			continue
		}
		f, err := p.V2()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		addMissing(all.Paths, base.Paths, f.Paths)
		addMissing(all.Definitions, base.Definitions, f.Definitions)
	}
	return all, errors.Join(errs...)
}

func addMissing(to, base, from map[string]json.RawMessage) {
	for k, v := range from {
		_, there := base[k]
		if _, taken := to[k]; !there && !taken {
			to[k] = v
		}
	}
}

// insert adds the members of f to the JSON document base, and CBOR if the set has it.
func (s *Set) insert(base []byte, f *Fragment) []byte {
	var b bytes.Buffer
	if paths := base[:s.ix.V2.PathsEnd]; s.cbor {
		b.WriteString(mediaV2.Replace(string(paths)))
	} else {
		b.Write(paths)
	}
	writeMembers(&b, f.Paths)
	b.Write(base[s.ix.V2.PathsEnd:s.ix.V2.DefinitionsEnd])
	writeMembers(&b, f.Definitions)
	b.Write(base[s.ix.V2.DefinitionsEnd:])
	return b.Bytes()
}

// writeMembers appends members to existing ones.
func writeMembers(b *bytes.Buffer, members map[string]json.RawMessage) {
	for _, k := range sortedKeys(members) {
		name, err := json.Marshal(k)
		if err != nil {
			panic(err) // a text
		}
		b.WriteByte(',')
		b.Write(name)
		b.WriteByte(':')
		b.Write(members[k])
	}
}

// proto encodes the fragment as a v2 document with no other fields.
func (f *Fragment) proto() ([]byte, error) {
	doc, err := json.Marshal(map[string]any{
		"swagger": "2.0", "info": map[string]string{"title": "Kubernetes", "version": "1.37"},
		"paths": f.Paths, "definitions": f.Definitions,
	})
	if err != nil {
		return nil, err
	}
	parsed, err := Parsed(doc, openapiv2.ParseDocument)
	if err != nil {
		return nil, fmt.Errorf("v2 document as protobuf: %w", err)
	}
	parsed.Swagger, parsed.Info = "", nil // the base document has these fields
	return proto.Marshal(parsed)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
