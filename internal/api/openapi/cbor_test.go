package openapi

import (
	"encoding/json"
	"strings"
	"testing"
)

// With CBOR, what has protobuf has CBOR too, and both versions of the documents change with their hashes.
func TestCBOR(t *testing.T) {
	plain := newSet(t)
	s := plain.WithCBOR()
	for path := range s.docs {
		d, was := s.docs[path], plain.docs[path]
		doc, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(doc) || d.Hash == was.Hash {
			t.Errorf("%s: hash %s, valid %v", path, d.Hash, json.Valid(doc))
		}
		sameCounts(t, path, string(doc), `"application/vnd.kubernetes.protobuf":`, `"application/cbor":`)
		sameCounts(t, path, string(doc), `"application/vnd.kubernetes.protobuf;stream=watch":`, `"application/cbor-seq":`)
		sameCounts(t, path, string(doc), `"application/apply-patch+yaml":`, `"application/apply-patch+cbor":`)
	}
	if pb, err := func() ([]byte, error) { d := s.docs["apis/apps/v1"]; return d.bytes(true) }(); err != nil || !strings.Contains(string(pb), "application/cbor-seq") {
		t.Errorf("v3 in protobuf: %d bytes, %v", len(pb), err)
	}
	part := Part{V2Hash: "1", V2: func() (*Fragment, error) {
		return &Fragment{Paths: map[string]json.RawMessage{"/mine": json.RawMessage(`{"get":{"produces":["application/vnd.kubernetes.protobuf"],"responses":{"200":{"description":"OK"}}}}`)}}, nil
	}}
	for name, s := range map[string]*Set{"alone": s, "with a part": s.With(part)} {
		doc, err := s.v2(false)
		if err != nil || !json.Valid(doc) || s.v2Hash == plain.v2Hash || s.v2Hash == plain.With(part).v2Hash {
			t.Errorf("%s: valid %v, hash %s, %v", name, json.Valid(doc), s.v2Hash, err)
		}
		lists := strings.ReplaceAll(string(doc), `["application/vnd.kubernetes.protobuf"]`, "") // of the part, which stays as it is
		sameCounts(t, name, lists, `"application/vnd.kubernetes.protobuf"`, `"application/cbor"`)
		sameCounts(t, name, lists, `"application/strategic-merge-patch+json"`, `"application/apply-patch+cbor"`)
		if pb, err := s.v2(true); err != nil || !strings.Contains(string(pb), "application/cbor-seq") {
			t.Errorf("%s in protobuf: %d bytes, %v", name, len(pb), err)
		}
	}
}

func sameCounts(t *testing.T, where, doc, a, b string) {
	t.Helper()
	if n, m := strings.Count(doc, a), strings.Count(doc, b); n != m {
		t.Errorf("%s: %d of %s, %d of %s", where, n, a, m, b)
	}
}
