// Package cbor turns objects from JSON into CBOR and back. Inside the server what is not protobuf is JSON: CBOR exists only on the way
// to and from clients and etcd, while the feature gate CBORServingAndStorage is on.
//
// The encoding is that of k8s.io/apimachinery: texts are byte strings, and an object begins with the tag of self-described CBOR.
package cbor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// prefix is the head of the tag of self-described CBOR.
var prefix = []byte{0xd9, 0xd9, 0xf7}

// Is says that a stored value is CBOR.
func Is(value []byte) bool { return bytes.HasPrefix(value, prefix) }

// encoder knows no types: it only encodes.
var encoder = cbor.NewSerializer(nil, nil)

// FromJSON turns a JSON object into CBOR for clients. The order of the members changes from call to call, as in kube-apiserver, so that
// no client comes to rely on it.
func FromJSON(doc []byte) ([]byte, error) { return transcode(doc, encoder.EncodeNondeterministic) }

// Encode encodes an object for clients, as FromJSON does.
func Encode(obj runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	err := encoder.EncodeNondeterministic(obj, &b)
	return b.Bytes(), err
}

func transcode(doc []byte, encode func(runtime.Object, io.Writer) error) ([]byte, error) {
	content, err := jsonobject.Unmarshal(doc)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = encode(&unstructured.Unstructured{Object: content}, &b)
	return b.Bytes(), err
}

// ToJSON turns a CBOR object into JSON. What clients send is to be bounded before.
func ToJSON(data []byte) ([]byte, error) {
	var v map[string]any
	if err := direct.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return jsonobject.Marshal(v)
}

// maxValues bounds the values in a document. An empty one takes a byte, but up to a kilobyte once it is decoded. JSON of the same length
// holds half as many.
const maxValues = 1 << 20

// Bound refuses CBOR of so many values that decoding would take memory out of proportion to its length. What is malformed is left to the
// decoder.
func Bound(data []byte) error {
	for n := 0; len(data) > 0; n++ {
		if n == maxValues {
			return fmt.Errorf("the CBOR may hold %d values", maxValues)
		}
		head, text := headOf(data)
		if head > len(data) || text > uint64(len(data)-head) {
			return nil
		}
		data = data[head+int(text):]
	}
	return nil
}

// headOf returns the length of a value's head, and that of the text after it.
func headOf(data []byte) (head int, text uint64) {
	kind, short := data[0]>>5, data[0]&0x1f
	argument := uint64(short)
	switch head = 1; {
	case short >= 24 && short < 28:
		size := 1 << (short - 24)
		var b [8]byte
		copy(b[8-size:], data[1:min(1+size, len(data))])
		head, argument = 1+size, binary.BigEndian.Uint64(b[:])
	case short >= 28:
		argument = 0 // of indefinite length, or malformed
	}
	if kind != byteString && kind != textString {
		argument = 0
	}
	return head, argument
}
