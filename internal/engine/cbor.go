package engine

import (
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kcbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// This file has what is special about CBOR, which is behind a feature gate. Answers are made of the JSON that JSON clients get. Bodies are
// decoded as kube-apiserver decodes them, because their errors show in the answers.

// bodyKinds are the kinds that a body may have, the expected one first. They are the whole scheme of the decoder.
type bodyKinds []schema.GroupVersionKind

// kindsOf returns the kinds of a body that may also be of the versions alike.
func kindsOf(want schema.GroupVersionKind, alike []schema.GroupVersion) bodyKinds {
	kinds := bodyKinds{want}
	for _, gv := range alike {
		kinds = append(kinds, gv.WithKind(want.Kind))
	}
	return kinds
}

// errOtherKind says that a body has none of the expected kinds.
var errOtherKind = errors.New("it is of another kind than the path")

// ObjectKinds, Recognizes and New are what the decoder asks of a scheme.
func (k bodyKinds) ObjectKinds(runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return k, false, nil
}
func (k bodyKinds) Recognizes(schema.GroupVersionKind) bool             { return true }
func (k bodyKinds) New(schema.GroupVersionKind) (runtime.Object, error) { return nil, errOtherKind }

// decodeCBOR decodes a body, and returns the kind that it says it has. If that is another one than kinds, it does not decode the rest.
// With check it also tells of the first unknown field. Fields that occur more than once are an error in any case.
func decodeCBOR(data []byte, obj Object, kinds bodyKinds, check bool) (got schema.GroupVersionKind, strict []error, err error) {
	if err := cbor.Bound(data); err != nil {
		return got, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := boundQuantitiesInCBOR(data, obj); err != nil {
		return got, nil, err
	}
	_, said, err := kcbor.NewSerializer(kinds, kinds, kcbor.Strict(check)).Decode(data, &kinds[0], obj)
	if said != nil {
		got = *said
	}
	unknown, isUnknown := runtime.AsStrictDecodingError(err)
	switch {
	case isUnknown:
		return got, unknown.Errors(), nil
	case err == nil || errors.Is(err, errOtherKind):
		return got, nil, nil
	case got.Kind == "":
		return got, nil, errUnrecognized(kinds[0].Kind, err, data)
	}
	return got, nil, unhandledAs(kinds[0].Kind, got, err)
}

// boundQuantitiesInCBOR is boundQuantities for CBOR. The decoder reports what is malformed.
func boundQuantitiesInCBOR(data []byte, into any) error {
	var content map[string]any
	if apitype.Of(reflect.TypeOf(into)).Bare().Holds&apitype.HoldsQuantity == 0 || direct.Unmarshal(data, &content) != nil {
		return nil
	}
	return boundQuantitiesIn(content, into)
}

// configFromCBOR returns the JSON of an apply configuration.
func configFromCBOR(body []byte) ([]byte, error) {
	if err := cbor.Bound(body); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	doc, err := cbor.ToJSON(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return doc, nil
}

// cborFrame sends an event of an object in JSON.
func (s *watchStream) cborFrame(t watch.EventType, object []byte) error {
	raw, err := cbor.FromJSON(object)
	if err != nil {
		return err
	}
	b, err := cbor.Encode(&metav1.WatchEvent{Type: string(t), Object: runtime.RawExtension{Raw: raw}})
	if err != nil {
		return err
	}
	s.pieces = append(s.pieces[:0], b)
	return s.emitFrame()
}

// writeCBORList streams a list. In CBOR, unlike in JSON, a map and an array say how many values follow.
func (c *call) writeCBORList(out output, p *page) error {
	doc, err := c.listHead(out, p.meta)
	if err != nil {
		return err
	}
	fields, err := jsonobject.Unmarshal(append(doc, "]}"...))
	if err != nil {
		return err
	}
	delete(fields, "items")
	head, err := cbor.ListHead(fields, len(p.items))
	if err != nil {
		return err
	}
	return c.writeListing(out, &listing{
		head: func(int) []byte { return head }, n: len(p.items), same: true,
		pass: func() itemFunc {
			item := c.jsonItems(out, p)
			return func(n int) (_, rest []byte, err error) {
				head, rest, err := item(n)
				if err != nil {
					return nil, nil, err
				}
				b, err := cbor.ItemFromJSON(append(head[:len(head):len(head)], rest...))
				return nil, b, err
			}
		},
	})
}
