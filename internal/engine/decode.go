package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/request"
)

// readBody reads a request body up to the engine's limit.
func (e *Engine) readBody(req *http.Request) ([]byte, error) {
	defer req.Body.Close()
	if req.ContentLength > e.MaxBody {
		return nil, tooLarge(e.MaxBody)
	}
	b, err := readAll(req.Body, req.ContentLength, e.MaxBody+1)
	if err != nil {
		return nil, readError(err)
	}
	if int64(len(b)) > e.MaxBody {
		return nil, tooLarge(e.MaxBody)
	}
	return b, nil
}

// presized bounds the buffer that is allocated for an announced Content-Length,
// because announcing costs a client nothing. Most objects are smaller and take one
// allocation.
const presized = 32 << 10

// readAll reads size bytes or, if size is not positive, to the end, but no more
// than limit. Above presized the buffer is at most twice as large as what was
// received.
func readAll(r io.Reader, size, limit int64) ([]byte, error) {
	end, room := size, min(size, presized)
	if size <= 0 {
		end, room = limit, 512
	}
	b := make([]byte, 0, room)
	for int64(len(b)) < end {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(2*int64(len(b)), end))
			copy(grown, b)
			b = grown
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == nil || int64(len(b)) == end:
		case errors.Is(err, io.EOF) && size <= 0:
			return b, nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
	return b, nil
}

func readError(err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the body could not be read: %v", err))
}

func tooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}

// unmarshaler is implemented by Go API types with a protobuf encoding.
type unmarshaler interface {
	Reset()
	Unmarshal(data []byte) error
}

// Decode makes the hub object of bytes stored in etcd, without a server: of a snapshot, say.
func (r *Resource) Decode(ctx context.Context, value []byte) (Object, error) {
	for _, v := range r.Versions {
		if v.GroupVersion == r.Hub {
			return r.decodeStored(ctx, v, value)
		}
	}
	return nil, fmt.Errorf("%s has no storage version %s", r.Plural, r.Hub)
}

// decodeStored makes the hub object of stored bytes, and sets defaults that were
// added after the bytes were stored.
func (r *Resource) decodeStored(ctx context.Context, hub *Version, value []byte) (Object, error) {
	if r.Codec != nil {
		return r.Codec.Decode(ctx, value)
	}
	return r.decodeTyped(hub, value)
}

// decodeTyped is decodeStored for kinds with a Go type: they need no other server, and so no context.
func (r *Resource) decodeTyped(hub *Version, value []byte) (Object, error) {
	obj, err := r.decodeBytes(hub, value)
	if err != nil {
		return nil, err
	}
	if hub.Default != nil {
		hub.Default(obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(hub.WithKind(r.Kind))
	return obj, nil
}

// decodeBytes reads either encoding, of the hub version or of the one that
// Stored names.
func (r *Resource) decodeBytes(hub *Version, value []byte) (Object, error) {
	obj, other := hub.New(), r.Stored != nil && r.Stored.Decode != nil
	if isJSON(value) {
		if other = other && string(jsonobject.Find(value, "apiVersion")) == strconv.Quote(r.Stored.String()); other {
			obj = r.Stored.New()
		}
		if !jsonobject.Decode(value, obj, true) {
			if err := kjson.UnmarshalCaseSensitivePreserveInts(value, obj); err != nil {
				return nil, err
			}
		}
	} else {
		other = false
		raw, err := rawOf(value)
		if err != nil {
			return nil, err
		}
		u, ok := obj.(unmarshaler)
		if !ok {
			return nil, fmt.Errorf("%T has no protobuf encoding", obj)
		}
		if err := u.Unmarshal(raw); err != nil {
			return nil, err
		}
	}
	if other {
		return r.Stored.Decode(obj)
	}
	if r.formerly(value) {
		r.Former.Read(obj)
	}
	return obj, nil
}

// formerly says that a value was stored in the former version.
func (r *Resource) formerly(value []byte) bool {
	if r.Former == nil {
		return false
	}
	if isJSON(value) {
		return string(jsonobject.Find(value, "apiVersion")) == strconv.Quote(r.Former.String())
	}
	rest, ok := bytes.CutPrefix(value, magic)
	return ok && bytes.HasPrefix(rest, typeMeta(r.Former.WithKind(r.Kind)))
}

func isJSON(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// directive returns how to treat unknown and duplicate fields.
func directive(fieldValidation string) string {
	if fieldValidation == "" {
		return metav1.FieldValidationWarn
	}
	return fieldValidation
}

// decodeBody makes an object out of a request body. want is the kind that it must
// have; a body without a type is taken to be of that kind. The object is of the
// version in the path, with its type set. prune, for untyped objects, drops fields
// that are not in their schema. A body may also be of a version that is alike.
func decodeBody(ctx context.Context, data []byte, m media, obj Object, want schema.GroupVersionKind, fieldValidation string, prune func(Object) ([]string, error), alike ...schema.GroupVersion) error {
	var strict []error
	var err error
	gvk := schema.GroupVersionKind{}
	check := directive(fieldValidation) != metav1.FieldValidationIgnore
	sent := data
	_, untyped := obj.(*unstructured.Unstructured)
	switch m {
	case mediaProtobuf:
		u, ok := obj.(unmarshaler)
		if !ok {
			return apierrors.NewBadRequest("this kind has no protobuf encoding")
		}
		var raw []byte
		if gvk, raw, err = envelope(data); err == nil {
			err = boundQuantities(raw, obj, true)
		}
		if err == nil {
			err = u.Unmarshal(raw)
		}
	case mediaYAML:
		if data, strict, err = yamlToJSON(data, check); err == nil {
			var more []error
			more, err = unmarshalJSON(data, obj, check)
			strict = append(strict, more...)
		}
		gvk = obj.GetObjectKind().GroupVersionKind()
	case mediaCBOR:
		if gvk, strict, err = decodeCBOR(data, obj, kindsOf(want, alike), check); err != nil {
			return err
		}
	default:
		strict, err = unmarshalJSON(data, obj, check)
		gvk = obj.GetObjectKind().GroupVersionKind()
	}
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		return err
	}
	if err != nil && !untyped {
		if unrecognized := typeError(data, m, err); unrecognized != nil {
			return errUnrecognized(want.Kind, unrecognized, sent)
		}
	}
	if err != nil {
		return unhandled(want, err)
	}
	if m != mediaProtobuf && gvk.Kind != "" && gvk.Version == "" {
		// A malformed apiVersion parses as an empty one, so look at its text.
		var t metav1.TypeMeta
		if json.Unmarshal(data, &t) == nil {
			if _, err := schema.ParseGroupVersion(t.APIVersion); err != nil && untyped {
				return apierrors.NewBadRequest(err.Error())
			} else if err != nil {
				return errUnrecognized(want.Kind, err, sent)
			}
		}
	}
	if slices.Contains(alike, gvk.GroupVersion()) {
		gvk.Group, gvk.Version = want.Group, want.Version
	}
	if untyped {
		err = sameVersion(gvk, want)
	} else if err = sameType(gvk, want); err == nil {
		obj.GetObjectKind().SetGroupVersionKind(want)
	}
	if err != nil {
		return err
	}
	if prune != nil {
		unknown, err := prune(obj)
		if err != nil {
			return unhandled(want, err)
		}
		if m != mediaCBOR { // of CBOR, kube-apiserver drops them without a word
			strict = append(strict, unknownFields(unknown)...)
		}
	}
	return strictErrors(ctx, strict, want, fieldValidation)
}

// unhandled refuses a body that cannot be decoded as its kind.
func unhandled(want schema.GroupVersionKind, err error) error {
	return unhandledAs(want.Kind, want, err)
}

// unhandledAs is unhandled for a body that may say that it is of another kind.
func unhandledAs(kind string, got schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, kind, err))
}

// sameVersion refuses an untyped body that has no type, or that is of another
// version than the path. The rules check its kind.
func sameVersion(got, want schema.GroupVersionKind) error {
	if got.Kind == "" {
		return apierrors.NewBadRequest("Object 'Kind' is missing in the body")
	}
	if got.GroupVersion() != want.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", got.GroupVersion(), want.GroupVersion()))
	}
	return nil
}

// unknownFields returns the errors of strict decoding for fields that were pruned.
func unknownFields(paths []string) []error {
	var errs []error
	for _, p := range paths {
		errs = append(errs, fmt.Errorf("unknown field %q", p))
	}
	return errs
}

// unmarshalJSON decodes as the API does: field names are case-sensitive, and
// integers stay integers. With check it also reports unknown and duplicate fields.
func unmarshalJSON(data []byte, into any, check bool) (strict []error, err error) {
	if u, ok := into.(*unstructured.Unstructured); ok {
		if check {
			u.Object, strict, err = jsonobject.UnmarshalStrict(data)
		} else {
			u.Object, err = jsonobject.Unmarshal(data)
		}
		if u.Object == nil {
			u.Object = map[string]any{}
		}
		return strict, err
	}
	if m, ok := into.(*map[string]any); ok && len(*m) == 0 {
		if check {
			*m, strict, err = jsonobject.UnmarshalStrict(data)
		} else {
			*m, err = jsonobject.Unmarshal(data)
		}
		return strict, err
	}
	if jsonobject.Decode(data, into, false) {
		return nil, nil
	}
	if err := boundQuantities(data, into, false); err != nil {
		return nil, err
	}
	if check {
		return kjson.UnmarshalStrict(data, into)
	}
	return nil, kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// sameType refuses a body whose type differs from the path's.
func sameType(got, want schema.GroupVersionKind) error {
	if got.Kind != "" && got.Kind != want.Kind || got.Kind != "" && got.Group != want.Group && got.Version != "" {
		if got.Version == "" {
			got.Version = want.Version
		}
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: it is of another kind than the path", got.Kind, got.Version, want.Kind))
	}
	if gv := got.GroupVersion(); !gv.Empty() && gv != want.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", gv, want.GroupVersion()))
	}
	return nil
}

// stillOfType refuses an object whose type was changed or made invalid by a patch.
func stillOfType(obj Object, want schema.GroupVersionKind) error {
	if t, ok := obj.GetObjectKind().(*metav1.TypeMeta); ok {
		if _, err := schema.ParseGroupVersion(t.APIVersion); err != nil {
			return err
		}
	}
	return sameType(obj.GetObjectKind().GroupVersionKind(), want)
}

// strictErrors warns of unknown and duplicate fields, or refuses them.
func strictErrors(ctx context.Context, errs []error, want schema.GroupVersionKind, fieldValidation string) error {
	if len(errs) == 0 {
		return nil
	}
	switch directive(fieldValidation) {
	case metav1.FieldValidationStrict:
		return unhandled(want, runtime.NewStrictDecodingError(errs))
	case metav1.FieldValidationWarn:
		warnStrict(ctx, errs)
	}
	return nil
}

// decode reads the object of a create or update from its body, as a hub object.
func (ep *Endpoint) decode(ctx context.Context, data []byte, m media, fieldValidation string) (Object, error) {
	began := request.Begin(ctx)
	defer request.End(ctx, request.LayerDecode, began)
	obj := ep.V.New()
	if err := decodeBody(ctx, data, m, obj, ep.GVK, fieldValidation, ep.V.Prune); err != nil {
		return nil, err
	}
	hub, err := ep.incoming(ctx, obj)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return hub, nil
}

// incoming defaults an object of the endpoint's version and converts it to the hub.
func (ep *Endpoint) incoming(ctx context.Context, obj Object) (Object, error) {
	if ep.V.Default != nil {
		ep.V.Default(obj)
	}
	return ep.toHub(ctx, obj)
}

func (ep *Endpoint) toHub(ctx context.Context, obj Object) (Object, error) {
	if ep.V.ToHub != nil {
		var err error
		if obj, err = ep.V.ToHub(ctx, obj); err != nil {
			return nil, fmt.Errorf("convert to %s: %w", ep.hub.GroupVersion, err)
		}
	}
	if ep.typed {
		obj.GetObjectKind().SetGroupVersionKind(ep.hub.WithKind(ep.R.Kind))
	}
	return obj, nil
}

// invalid returns the error for an object that breaks rules. It names the kind
// that an untyped object has, which may be another.
func (ep *Endpoint) invalid(obj Object, errs field.ErrorList) error {
	gk := schema.GroupKind{Group: ep.hub.Group, Kind: ep.GVK.Kind}
	if !ep.typed {
		gk = obj.GetObjectKind().GroupVersionKind().GroupKind()
	}
	return apierrors.NewInvalid(gk, obj.GetName(), once(errs))
}

// once drops errors that have been told already: metadata is judged for every kind, and again by some.
func once(errs field.ErrorList) field.ErrorList {
	if len(errs) < 2 {
		return errs
	}
	told := make(map[string]bool, len(errs))
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		text := e.Error()
		again := told[text]
		told[text] = true
		return again
	})
}

// fromHub converts to the endpoint's version; it may reuse parts of obj.
func (ep *Endpoint) fromHub(ctx context.Context, obj Object) (Object, error) {
	if ep.V == ep.hub {
		return obj, nil
	}
	if ep.V.FromHub != nil {
		var err error
		if obj, err = ep.V.FromHub(ctx, obj); err != nil {
			return nil, fmt.Errorf("convert to %s: %w", ep.V.GroupVersion, err)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(ep.GVK)
	return obj, nil
}
