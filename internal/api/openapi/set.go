package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Document is one OpenAPI v3 document.
type Document struct {
	// Path is its path below /openapi/v3/: "apis/apps/v1".
	Path string
	// Hash identifies the content; it changes whenever the content does.
	Hash string
	// Modified is the time of the last change; zero: not reported.
	Modified time.Time
	// JSON returns the document. It is called for each request that the hash alone does not answer.
	JSON func() ([]byte, error)
	// Proto returns it in protobuf. Nil: it is converted from the JSON.
	Proto func() ([]byte, error)
}

// Fragment is what an API adds to the v2 document.
type Fragment struct {
	Paths, Definitions map[string]json.RawMessage
}

// Part is what one more API (the custom resources of a group and version, or an extension API server) adds to the
// built-in documents.
type Part struct {
	Documents []Document
	// V2 returns its addition to the v2 document; nil: none. Existing definitions and paths stay unchanged.
	V2 func() (*Fragment, error)
	// V2Hash identifies the content of V2.
	V2Hash string

	recorded bool // the part is of the recorded documents
}

// Set is the built-in documents and some parts. It is immutable, except for its cache of generated documents.
type Set struct {
	ix     *recorded
	at     time.Time
	served Served
	docs   map[string]Document
	parts  []Part
	alone  bool // without the built-in documents
	cbor   bool // with CBOR in the built-in documents
	// extensions are named in the index, if there are any.
	extensions []string
	v2Hash     string
	// v3Index is the body of /openapi/v3.
	v3Index func() []byte
	// json and proto are the v2 document.
	json, proto kept
}

// New returns the set of the built-in documents, of what is served. at, the start time of the server, is their modification time for clients.
func New(at time.Time, served Served) (*Set, error) {
	ix, err := readIndex()
	if err != nil {
		return nil, err
	}
	return (&Set{ix: ix, at: at, served: served}).With(), nil
}

// With returns a set of the built-in documents and these parts; it drops the parts of s. If two parts have the same
// path the first wins; built-in documents come before all.
func (s *Set) With(parts ...Part) *Set {
	optional := s.optional()
	if s.cbor {
		for i, p := range optional {
			optional[i] = p.withCBOR()
		}
	}
	parts = append(optional, parts...)
	n := &Set{ix: s.ix, at: s.at, served: s.served, cbor: s.cbor, extensions: s.extensions, parts: parts, docs: make(map[string]Document, len(s.ix.V3)+len(parts))}
	for path, hash := range s.ix.V3 {
		if !s.served.document(path) {
			continue
		}
		d := s.recordedDocument(path, hash)
		if s.cbor {
			d = d.withCBOR()
		}
		n.docs[path] = d
	}
	for _, p := range parts {
		for _, d := range p.Documents {
			if _, taken := n.docs[d.Path]; !taken {
				n.docs[d.Path] = d
			}
		}
	}
	base := s.ix.V2.Hash
	if s.narrowsV2() {
		base = s.narrowedHash(base)
	}
	if s.cbor {
		base = cborHash(base)
	}
	n.v2Hash = base
	if n.changesV2() {
		h := sha512.New()
		_, _ = fmt.Fprintln(h, base)
		for _, p := range parts {
			if p.V2 != nil {
				_, _ = fmt.Fprintln(h, p.V2Hash)
			}
		}
		n.v2Hash = fmt.Sprintf("%X", h.Sum(nil))
	}
	n.v3Index = sync.OnceValue(n.makeV3Index)
	return n
}

// WithExtensions returns the set with the names of extensions in its index, which clients that know none of them ignore.
func (s *Set) WithExtensions(names []string) *Set {
	return (&Set{ix: s.ix, at: s.at, served: s.served, cbor: s.cbor, extensions: names}).With()
}

func (s *Set) changesV2() bool {
	for _, p := range s.parts {
		if p.V2 != nil {
			return true
		}
	}
	return false
}

// Document returns the document at a path, without its bytes.
func (s *Set) Document(path string) (Document, bool) {
	d, ok := s.docs[path]
	return d, ok
}

func (s *Set) makeV3Index() []byte {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	var ix struct {
		Paths      map[string]entry `json:"paths"`
		Extensions []string         `json:"x-kanzen-extensions,omitempty"`
	}
	ix.Extensions = s.extensions
	ix.Paths = make(map[string]entry, len(s.docs))
	for path, d := range s.docs {
		ix.Paths[path] = entry{d.url()}
	}
	b, err := json.Marshal(ix)
	if err != nil {
		panic(err) // a map of texts
	}
	return b
}

// url returns the URL that contains the hash of d's content.
func (d *Document) url() string {
	u := url.URL{Path: "/openapi/v3/" + d.Path, RawQuery: url.Values{"hash": {d.Hash}}.Encode()}
	return u.String()
}
