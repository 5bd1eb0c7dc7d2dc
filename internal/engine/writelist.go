package engine

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/store"
)

func labelSet(obj Object) labels.Set { return labels.Set(obj.GetLabels()) }

// objectFields are the fields of an object that has no others than these.
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

// writeList answers with a page, item by item: what is held in memory at once
// is one buffer, however long the list.
func (c *call) writeList(out output, p *page) error {
	if out.shape != shapeTable {
		auditJSON(c.req, func() ([]byte, error) { return c.jsonList(output{shape: out.shape, dropManaged: out.dropManaged}, p) })
	}
	switch {
	case out.shape == shapeTable:
		objs, err := c.decodeAll(p.items)
		if err != nil {
			return err
		}
		return c.writeTable(http.StatusOK, out, objs, p.meta)
	case out.media == mediaProtobuf:
		return c.writeProtobufList(out, p)
	case out.media == mediaYAML || out.pretty:
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
		gvk = partialListGVK
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if !c.typed && out.shape == shapeObject && m.Continue == "" {
		// Lists of custom resources say that there is nothing to continue with.
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
	f := c.forms.of(out)
	if err := c.encodeTogether(p.items, f); err != nil {
		return nil, err
	}
	for n, i := range p.items {
		item, err := c.itemJSON(i, f, out)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, "]}"...), nil
}

// itemJSON is an item inside a list; metadata-only items say what they are.
func (c *call) itemJSON(i *store.Item, f *form, out output) ([]byte, error) {
	b, err := c.json(i, f)
	if err != nil || out.shape != shapePartial {
		return b, err
	}
	return f.object(b), nil
}

// writeJSONList streams a list. Every item is encoded (or found encoded) before
// the first byte goes out, so that an item that cannot be read is an error
// and not half a list.
func (c *call) writeJSONList(out output, p *page) error {
	head, err := c.listHead(out, p.meta)
	if err != nil {
		return err
	}
	f := c.forms.of(out)
	if err := c.encodeTogether(p.items, f); err != nil {
		return err
	}
	items := make([][]byte, len(p.items))
	size := len(head) + 3
	for n, i := range p.items {
		if items[n], err = c.itemJSON(i, f, out); err != nil {
			return err
		}
		size += len(items[n]) + 1
	}
	if len(items) > 0 {
		size--
	}
	s := c.stream(out.contentType(false), size)
	s.write(head)
	for n, b := range items {
		if n > 0 {
			s.write(comma)
		}
		s.write(b)
	}
	s.write(listTail)
	s.close()
	return nil
}

var (
	comma    = []byte{','}
	listTail = []byte("]}\n")
)

// writeProtobufList streams a list: the envelope, the list's metadata, and each
// item's stored bytes with its revision put in.
func (c *call) writeProtobufList(out output, p *page) error {
	meta, err := p.meta.Marshal()
	if err != nil {
		return err
	}
	gvk := c.listGVK()
	if out.shape == shapePartial {
		gvk = partialListGVK
	}
	inner := binary.AppendUvarint([]byte{tagBytes1}, uint64(len(meta)))
	inner = append(inner, meta...)
	if out.shape != shapeObject || out.dropManaged || !c.spliceable() {
		return c.writeDecodedProtobufList(out, p, inner, gvk)
	}
	pieces := make([]versioned, len(p.items))
	n := len(inner)
	for k, i := range p.items {
		raw, err := rawOf(i.Value)
		if err != nil {
			return err
		}
		if pieces[k], err = withRevision(raw, i.Rev); err != nil {
			return err
		}
		n += 1 + uvarintLen(pieces[k].size) + pieces[k].size
	}
	head := append(appendEnvelope(nil, typeMeta(gvk), n), inner...)
	s := c.stream(out.contentType(false), len(head)+n-len(inner)+len(envelopeTail))
	s.write(head)
	var scratch []byte
	for k := range pieces {
		scratch = binary.AppendUvarint(append(scratch[:0], tagBytes2), uint64(pieces[k].size))
		scratch = pieces[k].appendTo(scratch)
		s.write(scratch)
	}
	s.write(envelopeTail)
	s.close()
	return nil
}

func (c *call) writeDecodedProtobufList(out output, p *page, inner []byte, gvk schema.GroupVersionKind) error {
	for _, i := range p.items {
		raw, err := c.protobuf(nil, i, out)
		if err != nil {
			return err
		}
		inner = binary.AppendUvarint(append(inner, tagBytes2), uint64(len(raw)))
		inner = append(inner, raw...)
	}
	writeBytes(c.w, c.req, http.StatusOK, out.contentType(false), seal(typeMeta(gvk), inner))
	return nil
}

func uvarintLen(n int) int {
	l := 1
	for ; n >= 0x80; n >>= 7 {
		l++
	}
	return l
}

// stream is a response body of known size that is written in many pieces.
type stream struct {
	w   io.Writer
	z   *gzipWriter
	buf *[]byte
	err error // the client is gone or does not read: nothing is written any more
}

var streamBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 64<<10)
	return &b
}}

// stream begins a 200 answer of size bytes, compressed if it is worth it.
func (c *call) stream(contentType string, size int) *stream {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	s := &stream{w: c.w, buf: streamBuffers.Get().(*[]byte)}
	if size >= gzipFrom && acceptsGzip(c.req) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		z := newGzip(c.w)
		s.w, s.z = z, &z
	} else {
		h.Set("Content-Length", strconv.Itoa(size))
	}
	c.w.WriteHeader(http.StatusOK)
	return s
}

// write gathers pieces into the buffer.
func (s *stream) write(p []byte) {
	b := *s.buf
	if len(b)+len(p) > cap(b) {
		s.send(b)
		b = b[:0]
		if len(p) > cap(b) {
			s.send(p)
			*s.buf = b
			return
		}
	}
	*s.buf = append(b, p...)
}

func (s *stream) send(p []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
}

func (s *stream) close() {
	s.send(*s.buf)
	*s.buf = (*s.buf)[:0]
	streamBuffers.Put(s.buf)
	if s.z != nil {
		s.z.close()
	}
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
	list.GetObjectKind().SetGroupVersionKind(c.listGVK())
	return writeAny(c.w, c.req, http.StatusOK, out, list)
}
