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
	// Path is where it is served, below /openapi/v3/: "apis/apps/v1".
	Path string
	// Hash names the content; it changes whenever the content does.
	Hash string
	// Modified is since when it has been so; zero: not said.
	Modified time.Time
	// JSON makes the document. It is called for each request that is not
	// answered by the hash alone.
	JSON func() ([]byte, error)
	// Proto makes it in protobuf. Nil: it is made from the JSON.
	Proto func() ([]byte, error)
}

// Fragment is what an API adds to the one v2 document.
type Fragment struct {
	Paths, Definitions map[string]json.RawMessage
}

// Part is what one further API (the custom resources of a group and version,
// an extension API server) adds to the built-in documents.
type Part struct {
	Documents []Document
	// V2 makes what it adds to the v2 document; nil: nothing. A definition
	// or path that is there already is left as it is.
	V2 func() (*Fragment, error)
	// V2Hash names the content of V2.
	V2Hash string
}

// Set is what is served at one time: the built-in documents and some parts.
// It is immutable, but for what it keeps of documents that it has made.
type Set struct {
	ix     *recorded
	at     time.Time
	docs   map[string]Document
	parts  []Part
	v2Hash string
	// v3Index is the body of /openapi/v3.
	v3Index func() []byte
	// json and proto are the v2 document.
	json, proto kept
}

// New returns the set of the built-in documents. at, when the server began,
// is what clients are told as the time of their last change.
func New(at time.Time) (*Set, error) {
	ix, err := readIndex()
	if err != nil {
		return nil, err
	}
	return (&Set{ix: ix, at: at}).With(), nil
}

// With returns a set of the built-in documents and these parts; the parts of s
// are not taken over. Where two bring the same path the first wins, and the
// built-in ones before all.
func (s *Set) With(parts ...Part) *Set {
	n := &Set{ix: s.ix, at: s.at, parts: parts, docs: make(map[string]Document, len(s.ix.V3)+len(parts))}
	for _, d := range s.ix.builtinDocuments(s.at) {
		n.docs[d.Path] = d
	}
	for _, p := range parts {
		for _, d := range p.Documents {
			if _, taken := n.docs[d.Path]; !taken {
				n.docs[d.Path] = d
			}
		}
	}
	n.v2Hash = s.ix.V2.Hash
	if n.changesV2() {
		h := sha512.New()
		_, _ = fmt.Fprintln(h, s.ix.V2.Hash)
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
		Paths map[string]entry `json:"paths"`
	}
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

// url is the address that names d's content.
func (d *Document) url() string {
	u := url.URL{Path: "/openapi/v3/" + d.Path, RawQuery: url.Values{"hash": {d.Hash}}.Encode()}
	return u.String()
}
