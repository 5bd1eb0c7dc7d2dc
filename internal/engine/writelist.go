package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store"
)

func labelSet(obj Object) labels.Set { return labels.Set(obj.GetLabels()) }

// objectFields are the selectable fields of an object that has only its name
// and namespace.
type objectFields struct{ Object }

func (f objectFields) Has(field string) bool {
	return field == metav1.ObjectNameField || field == "metadata.namespace"
}

func (f objectFields) Get(field string) string {
	switch field {
	case metav1.ObjectNameField:
		return f.GetName()
	case "metadata.namespace":
		return f.GetNamespace()
	}
	return ""
}

// listGVK is the kind of a list in the endpoint's version.
func (ep *Endpoint) listGVK() schema.GroupVersionKind {
	return ep.V.WithKind(cmp.Or(ep.R.ListKind, ep.R.Kind+"List"))
}

// writeList answers with a page, item by item: the memory it holds is bounded,
// however long the list and however slow the client is.
func (c *call) writeList(out output, p *page) error {
	if out.shape != shapeObject || !c.typed {
		p.meta.ShardInfo = nil // as in kube-apiserver, which has no place for it in the lists that it makes of others
	}
	if out.shape == shapeTable {
		return c.writeTableList(out, p)
	}
	auditJSON(c.req, func() ([]byte, error) {
		return c.jsonList(output{shape: out.shape, dropManaged: out.dropManaged, beta: out.beta}, p)
	})
	switch out.media {
	case mediaProtobuf:
		return c.writeProtobufList(out, p)
	case mediaCBOR:
		if len(p.items) > 0 {
			return c.writeCBORList(out, p)
		}
		fallthrough
	case mediaYAML:
		b, err := c.jsonList(out, p)
		if err != nil {
			return err
		}
		return writeJSON(c.w, c.req, http.StatusOK, out, b)
	}
	return c.writeJSONList(out, p)
}

// listHead begins the JSON of a list, up to its items.
func (c *call) listHead(out output, m metav1.ListMeta) ([]byte, error) {
	gvk := c.listGVK()
	if out.shape == shapePartial {
		gvk = out.metaKind(partialKind + "List")
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if !c.typed && out.shape == shapeObject && m.Continue == "" {
		// Lists of custom resources have an empty continue token, too.
		meta = append([]byte(`{"continue":"",`), meta[1:]...)
	}
	b := append(jsonPrefix(gvk), `"metadata":`...)
	b = append(b, meta...)
	return append(b, `,"items":[`...), nil
}

func (c *call) jsonList(out output, p *page) ([]byte, error) {
	b, err := c.listHead(out, p.meta)
	if err != nil {
		return nil, err
	}
	if out.shape == shapePartial && len(p.items) == 0 {
		return append(bytes.TrimSuffix(b, []byte("[")), "null}"...), nil // as kube-apiserver has it, of this list alone
	}
	item := c.jsonItems(out, p)
	for n := range p.items {
		if err := ended(c.req.Context(), n); err != nil {
			return nil, err
		}
		head, rest, err := item(n)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			b = append(b, ',')
		}
		b = append(append(b, head...), rest...)
	}
	return append(b, "]}"...), nil
}

// jsonItems makes the items of a list; metadata-only items have their type.
func (c *call) jsonItems(out output, p *page) func(n int) (head, rest []byte, err error) {
	ctx, f, batch := c.req.Context(), c.prepared().forms.of(out), c.batches(p.items)
	return func(n int) (head, rest []byte, err error) {
		if some := batch(n); some != nil {
			if err := c.encodeTogether(ctx, some, f); err != nil {
				return nil, nil, err
			}
		}
		b, err := c.json(ctx, p.items[n], f)
		if err != nil || out.shape != shapePartial {
			return nil, b, err
		}
		head, rest = f.parts(b)
		return head, rest, nil
	}
}

// batches returns a func that says which items to make together with the n-th:
// its whole batch for the first item of a batch, else nil. It is for kinds that
// decode a batch for little more than the cost of one item.
func (c *call) batches(items []*store.Item) func(n int) []*store.Item {
	if _, ok := c.R.Codec.(BatchCodec); !ok {
		return func(int) []*store.Item { return nil }
	}
	last := -1
	return func(n int) []*store.Item {
		if n/together == last {
			return nil
		}
		last = n / together
		from := last * together
		return items[from:min(from+together, len(items))]
	}
}

func (c *call) writeJSONList(out output, p *page) error {
	if out.shape == shapePartial && len(p.items) == 0 {
		b, err := c.jsonList(out, p)
		if err != nil {
			return err
		}
		return writeJSON(c.w, c.req, http.StatusOK, out, b)
	}
	head, err := c.listHead(out, p.meta)
	if err != nil {
		return err
	}
	if p.only != nil {
		return c.writeListing(out, jsonListing(out, head, len(p.items), func() itemFunc { return c.onlyItems(p) }))
	}
	if f := c.prepared().forms.of(out); f.plan != nil && f.plan() != nil && c.passesThrough(p) {
		l := jsonListing(out, head, len(p.items), func() itemFunc { return c.passingItems(out, p) })
		l.reuses, l.sound, l.about = true, true, 0
		for _, i := range p.items {
			l.sound = l.sound && i.Sound()
			l.about += jsonSize * i.Size()
		}
		return c.writeListing(out, l)
	}
	return c.writeListing(out, jsonListing(out, head, len(p.items), func() itemFunc { return c.jsonItems(out, p) }))
}

// jsonSize is about how many times larger an object's JSON is than its stored bytes.
const jsonSize = 2

// passesThrough says that a page is of a list whose encodings cannot all be kept. If they were, they would push each other
// out, and those of everything else, before they are asked for again.
func (c *call) passesThrough(p *page) bool {
	objects, bytes, ok := c.view.Size()
	return ok && objects > 0 && p.of > 0 && !c.e.Store.Encodings.Holds(jsonSize*(bytes/int64(objects))*p.of)
}

// passingItems is jsonItems for encodings that are not kept: each is in the place of the one before it.
func (c *call) passingItems(out output, p *page) itemFunc {
	f := c.prepared().forms.of(out)
	var room []byte
	var values store.Values
	return func(n int) (head, rest []byte, err error) {
		i := p.items[n]
		b, ok := i.Kept(c.e.Store.Encodings, f)
		if !ok {
			if b, ok = c.appendDirect(room[:0], i, values.Of(i), f); ok {
				room = b
			} else if b, err = c.decodedJSON(c.req.Context(), i, f); err != nil {
				return nil, nil, err
			}
		}
		if out.shape != shapePartial {
			return nil, b, nil
		}
		head, rest = f.parts(b)
		return head, rest, nil
	}
}

// writeProtobufList streams a list: the envelope, the list's metadata, and each
// item's stored bytes with its revision put in.
func (c *call) writeProtobufList(out output, p *page) error {
	meta, err := p.meta.Marshal()
	if err != nil {
		return err
	}
	gvk := c.listGVK()
	if out.shape == shapePartial {
		gvk = out.metaKind(partialKind + "List")
	}
	inner := binary.AppendUvarint([]byte{tagBytes1}, uint64(len(meta)))
	inner = append(inner, meta...)
	if p.only != nil || out.shape != shapeObject || out.dropManaged || !c.spliceable() {
		return c.writeDecodedProtobufList(out, p, inner, gvk)
	}
	ctx := c.req.Context()
	var values store.Values
	piece := func(i *store.Item) (versioned, error) {
		value := values.Of(i)
		if !c.spliced(i, value) {
			return versioned{}, errIndirect
		}
		raw, err := rawOf(value)
		if err != nil {
			return versioned{}, err
		}
		return withRevision(raw, i.Rev)
	}
	size := len(inner)
	for n, i := range p.items {
		if err := ended(ctx, n); err != nil {
			return err
		}
		v, err := piece(i)
		if errors.Is(err, errIndirect) {
			return c.writeDecodedProtobufList(out, p, inner, gvk)
		}
		if err != nil {
			return err
		}
		size += 1 + uvarintLen(v.size) + v.size
	}
	head := append(appendEnvelope(nil, typeMeta(gvk), size), inner...)
	s := c.stream(out.contentType(false), len(head)+size-len(inner)+len(envelopeTail), true)
	defer s.end()
	s.write(head)
	var scratch []byte
	for n, i := range p.items {
		if !s.goesOn(ctx, n) {
			return nil
		}
		v, err := piece(i)
		if err != nil {
			s.abort() // it was no error before
		}
		scratch = binary.AppendUvarint(append(scratch[:0], tagBytes2), uint64(v.size))
		s.write(append(scratch, v.head[:v.n]...))
		s.write(v.meta)
		s.write(v.rv[:v.rvn])
		s.write(v.tail)
	}
	s.write(envelopeTail)
	s.close()
	return nil
}

func (c *call) writeDecodedProtobufList(out output, p *page, inner []byte, gvk schema.GroupVersionKind) error {
	return c.writeListing(out, &listing{
		head: func(size int) []byte {
			return append(appendEnvelope(nil, typeMeta(gvk), len(inner)+size), inner...)
		},
		tail: envelopeTail, n: len(p.items), same: true,
		pass: func() itemFunc {
			return func(n int) (head, rest []byte, err error) {
				if p.only != nil {
					rest, err = c.only(c.req.Context(), p.items[n], p.only)
				} else {
					rest, err = c.protobuf(c.req.Context(), nil, p.items[n], out)
				}
				return binary.AppendUvarint([]byte{tagBytes2}, uint64(len(rest))), rest, err
			}
		},
	})
}

func uvarintLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}

// writeObjects answers with a list of computed objects.
func (c *call) writeObjects(out output, objs []Object, m metav1.ListMeta) error {
	if out.shape == shapeTable {
		return c.writeTable(http.StatusOK, out, objs, m)
	}
	list := c.V.NewList()
	items := make([]runtime.Object, 0, len(objs))
	for _, obj := range objs {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		items = append(items, obj)
	}
	if err := apimeta.SetList(list, items); err != nil {
		return err
	}
	of, err := apimeta.ListAccessor(list)
	if err != nil {
		return err
	}
	of.SetResourceVersion(m.ResourceVersion)
	of.SetContinue(m.Continue)
	list.GetObjectKind().SetGroupVersionKind(c.listGVK())
	return writeAny(c.w, c.req, http.StatusOK, out, list)
}
