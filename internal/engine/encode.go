package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/object/transcode"
	"github.com/kanzen-io/kanzen/internal/store"
)

// form is one cached encoding of items: the key under which an item keeps it.
// Forms do not contain apiVersion and kind: items of a list have none, and a
// single object gets them as a prefix.
type form struct {
	// encode makes the form of an object as it is served. It may change the
	// object.
	encode func(obj Object) ([]byte, error)
	// plan makes the form of stored bytes without decoding them; nil: that cannot
	// be done.
	plan func() *transcode.Plan
	// defaults says that the kind has defaults, or a former version: plan is for complete items.
	defaults bool
	// prefix precedes a single object: {"kind":…,"apiVersion":…, Nil: the form
	// contains them itself, also inside a list.
	prefix []byte
}

// parts returns the pieces of a single object whose form is b.
func (f *form) parts(b []byte) (head, rest []byte) {
	if f.prefix == nil {
		return nil, b
	}
	return f.prefix, b[1:]
}

// forms are the encodings of one endpoint's items.
type forms struct {
	json, jsonNoManaged, partial, partialNoManaged *form
	partialBeta, partialBetaNoManaged              *form  // of v1beta1
	typeMeta                                       []byte // protobuf, of a single object
}

func newForms(ep *Endpoint) forms {
	object := func(dropManaged bool) func(obj Object) ([]byte, error) {
		return func(obj Object) ([]byte, error) {
			if dropManaged {
				obj.SetManagedFields(nil)
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				return jsonobject.Marshal(u.Object)
			}
			obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return json.Marshal(obj)
		}
	}
	partial := func(dropManaged bool) func(obj Object) ([]byte, error) {
		return func(obj Object) ([]byte, error) {
			p := ep.partialOf(obj, output{})
			if dropManaged {
				p.ManagedFields = nil
			}
			p.TypeMeta = metav1.TypeMeta{}
			return json.Marshal(p)
		}
	}
	own := jsonPrefix(ep.GVK)
	if !ep.typed && ep.R.Codec != nil {
		own = nil
	}
	meta, beta := jsonPrefix(output{}.metaKind(partialKind)), jsonPrefix(output{beta: true}.metaKind(partialKind))
	f := forms{
		json:             &form{encode: object(false), prefix: own},
		jsonNoManaged:    &form{encode: object(true), prefix: own},
		partial:          &form{encode: partial(false), prefix: meta},
		partialNoManaged: &form{encode: partial(true), prefix: meta},

		partialBeta:          &form{encode: partial(false), prefix: beta},
		partialBetaNoManaged: &form{encode: partial(true), prefix: beta},

		typeMeta: typeMeta(ep.GVK),
	}
	f.addPlans(ep)
	return f
}

// addPlans adds the plans of kinds whose stored protobuf is what is served. Of
// kinds with defaults that is what is complete: a value may be from before a
// default was added.
func (f *forms) addPlans(ep *Endpoint) {
	if ep.R.Codec != nil || !ep.spliceable() {
		return
	}
	for _, f := range []*form{f.json, f.jsonNoManaged, f.partial, f.partialNoManaged, f.partialBeta, f.partialBetaNoManaged} {
		f.defaults = ep.hub.Default != nil || ep.R.Former != nil
	}
	t := reflect.TypeOf(ep.hub.New()).Elem()
	whole := func(o transcode.Options) func() *transcode.Plan {
		return sync.OnceValue(func() *transcode.Plan {
			p, err := transcode.Compile(t, o)
			if err != nil {
				return nil // kinds with an unusual field are decoded
			}
			return p
		})
	}
	f.json.plan = whole(transcode.Options{Defaults: f.json.defaults})
	f.jsonNoManaged.plan = whole(transcode.Options{Defaults: f.json.defaults, DropManaged: true})
	if len(ep.R.HiddenAnnotations) > 0 {
		return
	}
	metadata := func(of *form) func() *transcode.Plan {
		return sync.OnceValue(func() *transcode.Plan {
			if p := of.plan(); p != nil {
				return p.Metadata()
			}
			return nil
		})
	}
	f.partial.plan, f.partialNoManaged.plan = metadata(f.json), metadata(f.jsonNoManaged)
	f.partialBeta.plan, f.partialBetaNoManaged.plan = f.partial.plan, f.partialNoManaged.plan
}

// direct returns an item in a form, made of its stored bytes without decoding
// them, if that can be done.
func (ep *Endpoint) direct(i *store.Item, f *form) ([]byte, bool) {
	value := i.Value()
	if f.plan == nil || !bytes.HasPrefix(value, magic) {
		return ep.canonical(i, value, f)
	}
	room := gatherBuffers.Get().(*[]byte)
	defer gatherBuffers.Put(room)
	b, ok := ep.appendDirect((*room)[:0], i, value, f)
	return bytes.Clone(b), ok // in its final size, as it may be kept for long
}

// appendDirect is direct for a form with a plan: it appends the item, which has a value, to dst.
func (ep *Endpoint) appendDirect(dst []byte, i *store.Item, value []byte, f *form) ([]byte, bool) {
	if i.Err != nil || i.Rev == 0 || f.defaults && !ep.complete(i) {
		return nil, false
	}
	raw, err := rawOf(value)
	if err != nil {
		return nil, false
	}
	p := f.plan()
	if p == nil {
		return nil, false
	}
	if i.Sound() {
		b, err := p.AppendKnown(dst, raw, i.Rev)
		return b, err == nil
	}
	b, err := p.Append(dst, raw, i.Rev)
	if err == nil && f == ep.prepared().forms.json {
		i.SetSound()
	}
	return b, err == nil // decoding tells what is wrong with them
}

// partialKind is the kind of answers that have metadata only.
const partialKind = "PartialObjectMetadata"

// of picks the form for an output of single objects and list items.
func (f *forms) of(out output) *form {
	switch {
	case out.shape == shapePartial && out.beta && out.dropManaged:
		return f.partialBetaNoManaged
	case out.shape == shapePartial && out.beta:
		return f.partialBeta
	case out.shape == shapePartial && out.dropManaged:
		return f.partialNoManaged
	case out.shape == shapePartial:
		return f.partial
	case out.dropManaged:
		return f.jsonNoManaged
	}
	return f.json
}

// jsonPrefix begins the JSON of an object of a kind.
func jsonPrefix(gvk schema.GroupVersionKind) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion().String())
}

// present decodes an item into the object that is served: in the endpoint's
// version, with its resourceVersion.
func (ep *Endpoint) present(ctx context.Context, i *store.Item) (Object, error) {
	obj, err := ep.Decode(ctx, i)
	if err != nil {
		return nil, err
	}
	return ep.outgoing(ctx, obj)
}

// outgoing decorates a hub object for an answer and converts it.
func (ep *Endpoint) outgoing(ctx context.Context, obj Object) (Object, error) {
	if f := ep.R.Rules.Present; f != nil {
		f(obj)
	}
	return ep.fromHub(ctx, obj)
}

// json returns the JSON of an item in a form, cached.
func (ep *Endpoint) json(ctx context.Context, i *store.Item, f *form) ([]byte, error) {
	return i.Encoding(ep.e.Store.Encodings, f, func(i *store.Item) ([]byte, error) {
		if b, ok := ep.direct(i, f); ok {
			return b, nil
		}
		return ep.decodedJSON(ctx, i, f)
	})
}

// decodedJSON returns the JSON of an item in a form by way of its object.
func (ep *Endpoint) decodedJSON(ctx context.Context, i *store.Item, f *form) ([]byte, error) {
	obj, err := ep.present(ctx, i)
	if err != nil {
		return nil, err
	}
	return f.encode(obj)
}

// canonical returns the JSON of an item whose stored bytes are canonical, without decoding them.
func (ep *Endpoint) canonical(i *store.Item, value []byte, f *form) ([]byte, bool) {
	c, ok := ep.R.Codec.(CanonicalCodec)
	if !ok || i.Err != nil || i.Rev == 0 || f != ep.prepared().forms.json || ep.V != ep.hub || ep.R.Rules.Present != nil {
		return nil, false
	}
	at, ok := c.Canonical(value)
	if !ok {
		return nil, false
	}
	b := make([]byte, 0, len(value)+len(`"resourceVersion":"",`)+20)
	b = append(append(b, value[:at]...), `"resourceVersion":"`...)
	b = append(strconv.AppendInt(b, i.Rev, 10), `",`...)
	return bytes.TrimRight(append(b, value[at:]...), "\n"), true
}

// together is how many objects are decoded at a time, if decoding is a call to
// another server.
const together = 500

// encodeTogether makes the JSON of the items that have none cached, for kinds
// whose objects are cheaper to decode in batches.
func (ep *Endpoint) encodeTogether(ctx context.Context, items []*store.Item, f *form) error {
	b, ok := ep.R.Codec.(BatchCodec)
	if !ok {
		return nil
	}
	var missing []*store.Item
	for _, i := range items {
		if i.Err != nil || i.Encoded(f) {
			continue
		}
		if s, ok := ep.direct(i, f); !ok {
			missing = append(missing, i)
		} else if _, err := i.Encoding(ep.e.Store.Encodings, f, func(*store.Item) ([]byte, error) { return s, nil }); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(missing, together) {
		objs, err := ep.decodeTogether(ctx, b, some)
		if err != nil {
			return err
		}
		for n, i := range some {
			if _, err := i.Encoding(ep.e.Store.Encodings, f, func(*store.Item) ([]byte, error) { return f.encode(objs[n]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ep *Endpoint) decodeTogether(ctx context.Context, b BatchCodec, items []*store.Item) ([]Object, error) {
	values := make([][]byte, len(items))
	for n, i := range items {
		values[n] = i.Value()
	}
	objs, err := b.DecodeAll(ctx, values)
	if err != nil {
		return nil, err
	}
	for n, i := range items {
		objs[n].SetResourceVersion(formatRev(i.Rev))
	}
	return objs, nil
}

// complete says that nothing is to be filled in when an item is read. Of an item that this process has not written it finds
// out once, by encoding it again with its defaults.
func (ep *Endpoint) complete(i *store.Item) bool {
	return i.Examine(func() bool {
		if ep.R.Codec != nil || i.Err != nil {
			return false
		}
		obj, err := ep.R.decodeTyped(ep.hub, i.Value())
		if err != nil {
			return false
		}
		room := gatherBuffers.Get().(*[]byte)
		defer gatherBuffers.Put(room)
		again, err := ep.typedToStorage((*room)[:0], obj)
		return err == nil && bytes.Equal(again, i.Value())
	})
}

// splices says that the item's stored protobuf bytes can be served as they are,
// with the resourceVersion put in.
func (ep *Endpoint) splices(i *store.Item) bool { return ep.spliceable() && ep.spliced(i, i.Value()) }

// spliced is splices for an item of a kind that can be served as it is stored.
func (ep *Endpoint) spliced(i *store.Item, value []byte) bool {
	return bytes.HasPrefix(value, magic) && (!ep.R.LateDefaults && ep.R.Former == nil || ep.complete(i))
}

// spliceable says that splices holds for all items written by this server.
func (ep *Endpoint) spliceable() bool { return ep.V.FromHub == nil && !ep.R.decodedAlways() }

// decodedAlways says that no version of the kind is served as it is stored.
func (r *Resource) decodedAlways() bool {
	return r.Rules.Present != nil || r.Stored != nil && r.Stored.JSON
}

// protobuf appends the bytes of an item to dst, without an envelope.
func (ep *Endpoint) protobuf(ctx context.Context, dst []byte, i *store.Item, out output) ([]byte, error) {
	pieces, err := ep.protobufPieces(ctx, i, out)
	for _, p := range pieces {
		dst = append(dst, p...)
	}
	return dst, err
}

// protobufPieces returns the bytes of an item without an envelope. Bytes that
// are served as they are stored are not copied.
func (ep *Endpoint) protobufPieces(ctx context.Context, i *store.Item, out output) ([][]byte, error) {
	if out.shape == shapeObject && !out.dropManaged && ep.splices(i) {
		raw, err := rawOf(i.Value())
		if err != nil {
			return nil, err
		}
		v, err := withRevision(raw, i.Rev)
		if err != nil {
			return nil, err
		}
		return v.pieces(), nil
	}
	obj, err := ep.present(ctx, i)
	if err != nil {
		return nil, err
	}
	var m runtime.Object = obj
	if out.dropManaged {
		obj.SetManagedFields(nil)
	}
	if out.shape == shapePartial {
		m = ep.partialOf(obj, out)
	}
	raw, err := marshalProtobuf(m)
	return [][]byte{raw}, err
}

// partialOf reduces an object to its metadata.
func (ep *Endpoint) partialOf(obj Object, out output) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{ObjectMeta: metaOf(obj)}
	if slices.ContainsFunc(ep.R.HiddenAnnotations, func(name string) bool { return p.Annotations[name] != "" }) {
		p.Annotations = maps.Clone(p.Annotations)
		maps.DeleteFunc(p.Annotations, func(name, _ string) bool { return slices.Contains(ep.R.HiddenAnnotations, name) })
		if len(p.Annotations) == 0 {
			p.Annotations = nil
		}
	}
	p.SetGroupVersionKind(out.metaKind(partialKind))
	return p
}

// metaOf returns an object's metadata as a struct.
func metaOf(obj Object) metav1.ObjectMeta {
	if a, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return *m
		}
	}
	return metav1.ObjectMeta{
		Name: obj.GetName(), GenerateName: obj.GetGenerateName(), Namespace: obj.GetNamespace(),
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Labels:                     obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
		Finalizers: obj.GetFinalizers(), ManagedFields: obj.GetManagedFields(),
	}
}

// marshalProtobuf encodes an object without an envelope.
func marshalProtobuf(obj runtime.Object) ([]byte, error) {
	m, ok := obj.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
			Message: fmt.Sprintf("object %T has no protobuf encoding", obj),
		}}
	}
	return m.Marshal()
}

// seal puts protobuf bytes of a kind into an envelope.
func seal(typeMeta, raw []byte) []byte {
	b := appendEnvelope(make([]byte, 0, len(magic)+len(typeMeta)+12+len(raw)+len(envelopeTail)), typeMeta, len(raw))
	b = append(b, raw...)
	return append(b, envelopeTail...)
}

// encodeAny encodes an object that has its type set: a Status, a Table, an
// answer to a write.
func encodeAny(obj runtime.Object, m media, pretty bool) ([]byte, error) {
	switch m {
	case mediaProtobuf:
		raw, err := marshalProtobuf(obj)
		if err != nil {
			return nil, err
		}
		return seal(typeMeta(obj.GetObjectKind().GroupVersionKind()), raw), nil
	case mediaYAML:
		return yaml.Marshal(obj)
	}
	b, err := marshalJSON(obj)
	if err != nil {
		return nil, err
	}
	if m == mediaCBOR {
		return cbor.FromJSON(b)
	}
	return finishJSON(b, pretty), nil
}

// marshalJSON encodes an object in JSON.
func marshalJSON(obj runtime.Object) ([]byte, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return jsonobject.Marshal(u.Object)
	}
	return json.Marshal(obj)
}

// finishJSON ends a JSON document with a newline, indented for people.
func finishJSON(b []byte, pretty bool) []byte {
	if pretty {
		var buf bytes.Buffer
		if json.Indent(&buf, b, "", "  ") == nil {
			b = buf.Bytes()
		}
	}
	return append(b, '\n')
}

// toStorage encodes a hub object as it is stored: protobuf in an envelope
// unless the resource says otherwise. Fields that only answers carry are left
// out.
func (ep *Endpoint) toStorage(ctx context.Context, obj Object) ([]byte, error) {
	if ep.R.Codec == nil {
		return ep.typedToStorage(nil, obj)
	}
	defer withoutAnswerFields(obj)()
	return ep.R.Codec.Encode(ctx, obj)
}

// withoutAnswerFields takes the fields off an object that only answers carry, and returns a func that puts them back.
func withoutAnswerFields(obj Object) (putBack func()) {
	rv, self := obj.GetResourceVersion(), obj.GetSelfLink()
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	return func() { obj.SetResourceVersion(rv); obj.SetSelfLink(self) }
}

// typedToStorage is toStorage for kinds with a Go type. It appends to dst.
func (ep *Endpoint) typedToStorage(dst []byte, obj Object) ([]byte, error) {
	defer withoutAnswerFields(obj)()
	st := ep.R.Stored
	if st == nil {
		m, ok := obj.(sizedMarshaler)
		if !ok {
			return nil, fmt.Errorf("%T has no protobuf encoding", obj)
		}
		return sealSized(dst, typeMeta(ep.hub.WithKind(ep.R.Kind)), m)
	}
	gvk := st.WithKind(ep.R.Kind)
	if st.Encode != nil {
		var err error
		if obj, err = st.Encode(obj); err != nil {
			return nil, err
		}
	}
	if m, ok := obj.(sizedMarshaler); ok && !st.JSON {
		return sealSized(dst, typeMeta(gvk), m)
	}
	was := obj.GetObjectKind().GroupVersionKind()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	defer obj.GetObjectKind().SetGroupVersionKind(was)
	b, err := json.Marshal(obj)
	return append(append(dst, b...), '\n'), err
}

// sizedMarshaler encodes into a buffer of the right size.
type sizedMarshaler interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// sealSized appends an object in its envelope to dst, which grows to just the size that is needed if it is too small.
func sealSized(dst, typeMeta []byte, m sizedMarshaler) ([]byte, error) {
	n := m.Size()
	if whole := len(dst) + len(magic) + len(typeMeta) + 12 + n + len(envelopeTail); cap(dst) < whole {
		dst = append(make([]byte, 0, whole), dst...)
	}
	b := appendEnvelope(dst, typeMeta, n)
	at := len(b)
	b = b[:at+n]
	if _, err := m.MarshalToSizedBuffer(b[at:]); err != nil {
		return nil, err
	}
	return append(b, envelopeTail...), nil
}
