package encryption

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sourceType is how the key of a value follows from what the plugin encrypted.
type sourceType uint64

const (
	sourceKey  sourceType = 0 // it is the AES-GCM key
	sourceSeed sourceType = 1 // it is a seed
)

// Fields of upstream's protobuf message EncryptedObject.
const (
	fieldData        = 1
	fieldKeyID       = 2
	fieldSource      = 3
	fieldAnnotations = 4 // a map: entries with key 1 and value 2
	fieldSourceType  = 5
)

// Bounds of an envelope, upstream's.
const (
	maxKeyID       = 1 << 10
	maxSource      = 1 << 10
	maxAnnotations = 32 << 10
)

// envelope is an EncryptedObject without its data: what is needed to get the key of a value.
type envelope struct {
	keyID       string
	source      []byte // the key or seed, encrypted by the plugin
	annotations map[string][]byte
	sourceType  sourceType
}

// tail is the encoding of an envelope. There is one for equal envelopes, so it serves as their identity too.
func (e *envelope) tail() []byte {
	b := protowire.AppendTag(nil, fieldKeyID, protowire.BytesType)
	b = protowire.AppendString(b, e.keyID)
	b = protowire.AppendTag(b, fieldSource, protowire.BytesType)
	b = protowire.AppendBytes(b, e.source)
	for _, name := range slices.Sorted(maps.Keys(e.annotations)) {
		entry := protowire.AppendTag(nil, 1, protowire.BytesType)
		entry = protowire.AppendString(entry, name)
		entry = protowire.AppendTag(entry, 2, protowire.BytesType)
		entry = protowire.AppendBytes(entry, e.annotations[name])
		b = protowire.AppendTag(b, fieldAnnotations, protowire.BytesType)
		b = protowire.AppendBytes(b, entry)
	}
	if e.sourceType != 0 {
		b = protowire.AppendTag(b, fieldSourceType, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(e.sourceType))
	}
	return b
}

// appendDataHead appends what precedes n bytes of data in an EncryptedObject.
func appendDataHead(dst []byte, n int) []byte {
	dst = protowire.AppendTag(dst, fieldData, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(n))
}

// parse reads an EncryptedObject. What is returned refers to the bytes read.
func parse(b []byte) (e envelope, data []byte, err error) {
	err = eachField(b, func(number protowire.Number, value []byte, n uint64) error {
		switch number {
		case fieldData:
			data = value
		case fieldKeyID:
			e.keyID = string(value)
		case fieldSource:
			e.source = value
		case fieldSourceType:
			e.sourceType = sourceType(n)
		case fieldAnnotations:
			return e.annotate(value)
		}
		return nil
	})
	if err != nil {
		return e, nil, err
	}
	if len(data) == 0 {
		return e, nil, errors.New("encrypted data is empty")
	}
	return e, data, e.validate()
}

// annotate reads one annotation.
func (e *envelope) annotate(entry []byte) error {
	var name string
	var content []byte
	err := eachField(entry, func(number protowire.Number, value []byte, _ uint64) error {
		switch number {
		case 1:
			name = string(value)
		case 2:
			content = value
		}
		return nil
	})
	if e.annotations == nil {
		e.annotations = map[string][]byte{}
	}
	e.annotations[name] = content
	return err
}

// wireTypes are the types of the fields that are known.
var wireTypes = [...]protowire.Type{fieldData: protowire.BytesType, fieldKeyID: protowire.BytesType, fieldSource: protowire.BytesType,
	fieldAnnotations: protowire.BytesType, fieldSourceType: protowire.VarintType}

// eachField calls f with each field of a message: its bytes or its number.
func eachField(b []byte, f func(number protowire.Number, value []byte, n uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if int(number) >= len(wireTypes) || kind != wireTypes[number] {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		var value []byte
		var v uint64
		if kind == protowire.VarintType {
			v, n = protowire.ConsumeVarint(b)
		} else {
			value, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// validate returns what is wrong with an envelope, in upstream's words.
func (e *envelope) validate() error {
	if e.sourceType != sourceKey && e.sourceType != sourceSeed {
		return fmt.Errorf("unknown encryptedDEKSourceType: %d", e.sourceType)
	}
	if len(e.source) == 0 {
		return errors.New("failed to validate encrypted DEK source: encrypted DEK source is empty")
	}
	if n := len(e.source); n > maxSource {
		return fmt.Errorf("failed to validate encrypted DEK source: encrypted DEK source is %d bytes, which exceeds the max size of %d", n, maxSource)
	}
	if _, err := validKeyID(e.keyID); err != nil {
		return fmt.Errorf("failed to validate key id: %w", err)
	}
	if err := e.validAnnotations(); err != nil {
		return fmt.Errorf("failed to validate annotations: %w", err)
	}
	return nil
}

func (e *envelope) validAnnotations() error {
	var errs []error
	total := 0
	for name, value := range e.annotations {
		if wrong := validation.IsFullyQualifiedDomainName(field.NewPath("annotations"), name); wrong != nil {
			errs = append(errs, wrong.ToAggregate())
		}
		total += len(name) + len(value)
	}
	if total > maxAnnotations {
		errs = append(errs, fmt.Errorf("total size of annotations is %d, which exceeds the max size of %d", total, maxAnnotations))
	}
	return utilerrors.NewAggregate(errs)
}

// validKeyID returns what is wrong with the ID of a plugin's key, and the code of that in metrics.
func validKeyID(id string) (code string, err error) {
	switch n := len(id); {
	case n == 0:
		return "empty", errors.New("keyID is empty")
	case n > maxKeyID:
		return "too_long", fmt.Errorf("keyID is %d bytes, which exceeds the max size of %d", n, maxKeyID)
	}
	return "ok", nil
}
