package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

// WithCBOR returns a set like s, in whose built-in documents CBOR is among the media types, as with kube-apiserver's feature gate for it.
// Custom resources have CBOR too, but their documents do not say so.
func (s *Set) WithCBOR() *Set {
	return (&Set{ix: s.ix, at: s.at, served: s.served, cbor: true}).With()
}

// withCBOR adds CBOR to a v3 document. Its hash only has to be another one.
func (d Document) withCBOR() Document {
	doc := d.JSON
	d.Hash = cborHash(d.Hash)
	d.JSON = func() ([]byte, error) {
		b, err := doc()
		return mediaV3.ReplaceAllFunc(b, addMediaV3), err
	}
	d.Proto = nil // made of the JSON
	return d
}

func cborHash(hash string) string { return fmt.Sprintf("%X", sha512.Sum512([]byte(hash+" with CBOR"))) }

// mediaV3 is a media type of a v3 document that has a counterpart in CBOR, and its schema.
var mediaV3 = regexp.MustCompile(`"application/(?:vnd\.kubernetes\.protobuf|vnd\.kubernetes\.protobuf;stream=watch|apply-patch\+yaml)":(\{"schema":\{[^{}]*\}\})`)

func addMediaV3(found []byte) []byte {
	name, schema, _ := strings.Cut(string(found), ":")
	return []byte(cborNames.Replace(name) + ":" + schema + "," + string(found))
}

// cborNames turns names of media types into those of their counterparts.
var cborNames = strings.NewReplacer("vnd.kubernetes.protobuf;stream=watch", "cbor-seq", "vnd.kubernetes.protobuf", "cbor", "apply-patch+yaml", "apply-patch+cbor")

// mediaV2 adds CBOR to the lists of media types in a v2 document.
var mediaV2 = strings.NewReplacer(
	`"application/vnd.kubernetes.protobuf"]`, `"application/vnd.kubernetes.protobuf","application/cbor"]`,
	`"application/vnd.kubernetes.protobuf","application/json;stream=watch","application/vnd.kubernetes.protobuf;stream=watch"]`,
	`"application/vnd.kubernetes.protobuf","application/cbor","application/json;stream=watch","application/vnd.kubernetes.protobuf;stream=watch","application/cbor-seq"]`,
	`"application/strategic-merge-patch+json","application/apply-patch+yaml"]`, `"application/strategic-merge-patch+json","application/apply-patch+yaml","application/apply-patch+cbor"]`,
)

// withCBOR adds CBOR to the documents of a part.
func (p Part) withCBOR() Part {
	for i, d := range p.Documents {
		p.Documents[i] = d.withCBOR()
	}
	fragment := p.V2
	p.V2Hash = cborHash(p.V2Hash)
	p.V2 = func() (*Fragment, error) {
		f, err := fragment()
		if err != nil {
			return nil, err
		}
		for path, item := range f.Paths {
			f.Paths[path] = json.RawMessage(mediaV2.Replace(string(item)))
		}
		return f, nil
	}
	return p
}

// protoV2 turns a v2 document into protobuf.
func protoV2(doc []byte) ([]byte, error) {
	parsed, err := Parsed(doc, openapiv2.ParseDocument)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}
