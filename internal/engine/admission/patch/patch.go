// Package patch applies the JSON patches of webhooks and policies to objects. A
// patch may contain anything.
package patch

import (
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	boundedpatch "github.com/kanzen-io/kanzen/internal/object/jsonpatch"
)

// MaxOperations bounds a patch.
const MaxOperations = 10000

// Decode decodes a patch.
func Decode(data []byte) (jsonpatch.Patch, error) {
	p, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	if len(p) > MaxOperations {
		return nil, fmt.Errorf("a JSON patch may have %d operations, this one has %d", MaxOperations, len(p))
	}
	return p, nil
}

// Apply applies a patch to a document. A failed test operation is ErrTestFailed
// of the library.
func Apply(p jsonpatch.Patch, doc []byte) ([]byte, error) {
	for _, op := range p {
		if op == nil {
			return nil, errors.New("an operation is null")
		}
	}
	return boundedpatch.Apply(p, doc)
}

// DecodeObject decodes a document as an object of the same type, apiVersion and
// kind as like. strict refuses fields that the type does not have.
func DecodeObject(doc []byte, like runtime.Object, strict bool) (runtime.Object, error) {
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object)
	if u, ok := out.(*unstructured.Unstructured); ok {
		if err := u.UnmarshalJSON(doc); err != nil {
			return nil, err
		}
	} else if jsonobject.Decode(doc, out, false) {
		return ofSameKind(out, like)
	} else if strict {
		unknown, err := kjson.UnmarshalStrict(doc, out)
		if err != nil {
			return nil, err
		}
		if len(unknown) > 0 {
			return nil, runtime.NewStrictDecodingError(unknown)
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, out); err != nil {
		return nil, err
	}
	return ofSameKind(out, like)
}

// ofSameKind returns out if it is of the kind that like has.
func ofSameKind(out, like runtime.Object) (runtime.Object, error) {
	got, want := out.GetObjectKind().GroupVersionKind(), like.GetObjectKind().GroupVersionKind()
	if got != want {
		return nil, fmt.Errorf("the patch made a %s out of a %s", got, want)
	}
	return out, nil
}
