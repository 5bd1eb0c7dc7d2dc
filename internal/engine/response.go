package engine

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	kgzip "github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// StatusOf returns the API status that an error wraps, at any depth.
func StatusOf(err error) metav1.Status {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		st := s.Status()
		if st.Status == "" {
			st.Status = metav1.StatusFailure
		}
		if st.Code == 0 {
			st.Code = http.StatusInternalServerError
		}
		st.SetGroupVersionKind(statusGVK)
		return st
	}
	// An error without a status is the server's fault. It has no reason that a
	// client could act upon.
	st := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	st.SetGroupVersionKind(statusGVK)
	return st
}

var statusGVK = schema.GroupVersionKind{Version: "v1", Kind: "Status"}

// RefuseRequest answers a request with an error, whatever it is for.
func RefuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	gv := schema.GroupVersion{}
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		gv = schema.GroupVersion{Group: i.Group, Version: i.Version}
	}
	WriteError(w, r, gv, err)
}

// WriteError answers a request with an error, in an encoding it accepts.
func WriteError(w http.ResponseWriter, req *http.Request, gv schema.GroupVersion, err error) {
	st := StatusOf(err)
	refused(req, &st)
	if d := st.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	l := request.LocalFrom(req)
	if l == nil && request.IsTimeoutError(err) {
		answerTimeout(w, req, st)
		return
	}
	out, nerr := negotiate(req, restrict{protobuf: true})
	if nerr != nil {
		out = output{}
	}
	if l != nil {
		l.Err = &apierrors.StatusError{ErrStatus: st}
	}
	_ = writeAny(w, req, int(st.Code), out, &st)
}

// answerTimeout answers a request that was not finished by its deadline. As that of kube-apiserver, the answer is plain text
// whatever the client accepts, which has clients say that the server may still be processing the request.
func answerTimeout(w http.ResponseWriter, req *http.Request, st metav1.Status) {
	auditAnswer(req, &st)
	plain := st
	plain.TypeMeta = metav1.TypeMeta{}
	b, err := json.Marshal(&plain)
	if err != nil {
		b = []byte(st.Message) // cannot be
	}
	_ = writeBytes(w, req, int(st.Code), "text/plain; charset=utf-8", append(b, '\n'))
}

// localObject returns the object of a request from inside the process, or nil.
func localObject(req *http.Request) runtime.Object {
	if l := request.LocalFrom(req); l != nil {
		return l.Object
	}
	return nil
}

// writeAny answers with an object that has its type set.
func writeAny(w http.ResponseWriter, req *http.Request, code int, out output, obj runtime.Object) error {
	if l := request.LocalFrom(req); l != nil {
		l.Answer = obj
		auditAnswer(req, obj)
		w.WriteHeader(code)
		return nil
	}
	began := request.Begin(req.Context())
	b, err := encodeAny(obj, out.media, out.pretty)
	request.End(req.Context(), request.LayerSerialize, began)
	if err != nil {
		return err
	}
	auditAnswer(req, obj)
	_ = writeBytes(w, req, code, out.contentType(false), b)
	return nil
}

// gzipFrom is the size from which answers are compressed for clients that
// accept it.
const gzipFrom = 128 << 10

// writeBytes answers with a whole body. An error means that the client is gone, and that net/http may still be sending b; no request
// fails for it.
func writeBytes(w http.ResponseWriter, req *http.Request, code int, contentType string, b []byte) error {
	began := request.Begin(req.Context())
	defer request.End(req.Context(), request.LayerWrite, began)
	h := w.Header()
	h.Set("Content-Type", contentType)
	if len(b) < gzipFrom || !acceptsGzip(req) {
		h.Set("Content-Length", strconv.Itoa(len(b)))
		w.WriteHeader(code)
		_, err := w.Write(b)
		return err
	}
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	w.WriteHeader(code)
	z := newGzip(w)
	_, _ = z.Write(b)
	z.close()
	return nil // b has been compressed, and is sent no more
}

func acceptsGzip(req *http.Request) bool {
	for _, e := range strings.Split(req.Header.Get("Accept-Encoding"), ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(e), ";")
		if name == "gzip" {
			return true
		}
	}
	return false
}

// gzips are compressors at the fastest level; each takes a few hundred KB.
var gzips = sync.Pool{New: func() any {
	z, _ := kgzip.NewWriterLevel(nil, gzip.BestSpeed)
	return z
}}

type gzipWriter struct{ *kgzip.Writer }

func newGzip(w io.Writer) gzipWriter {
	z := gzips.Get().(*kgzip.Writer)
	z.Reset(w)
	return gzipWriter{z}
}

// close gives the compressor back, unless its output may still be on its way after an error, as a gatherer's buffer.
func (z gzipWriter) close() {
	if z.Close() == nil {
		z.Reset(io.Discard)
		gzips.Put(z.Writer)
	}
}

// writeItem answers with one stored object.
func (c *call) writeItem(out output, i *store.Item) error {
	if i.Err != nil {
		return apierrors.NewInternalError(i.Err)
	}
	if out.shape == shapeTable {
		obj, err := c.Decode(c.req.Context(), i)
		if err != nil {
			return err
		}
		return c.writeTable(http.StatusOK, out, []Object{obj}, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()})
	}
	if out.media == mediaProtobuf {
		tm := c.prepared().forms.typeMeta
		if out.shape == shapePartial {
			tm = typeMeta(out.metaKind(partialKind))
		}
		pieces, err := c.protobufPieces(c.req.Context(), i, out)
		if err != nil {
			return err
		}
		c.auditItem(out, i)
		c.writeSealed(http.StatusOK, out, tm, pieces)
		return nil
	}
	f := c.prepared().forms.of(out)
	b, err := c.json(c.req.Context(), i, f)
	if err != nil {
		return err
	}
	return c.writeForm(http.StatusOK, out, f, b)
}

// writeSealed answers with the protobuf of a single object, put together in a buffer of the pool.
func (c *call) writeSealed(code int, out output, typeMeta []byte, pieces [][]byte) {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	room := gatherBuffers.Get().(*[]byte)
	b := appendEnvelope((*room)[:0], typeMeta, n)
	for _, p := range pieces {
		b = append(b, p...)
	}
	if writeBytes(c.w, c.req, code, out.contentType(false), append(b, envelopeTail...)) == nil {
		gatherBuffers.Put(room)
	}
}

// writeForm answers with the single object whose form is b, put together in a buffer of the pool: an answer takes no memory that grows with
// its object.
func (c *call) writeForm(code int, out output, f *form, b []byte) error {
	room := gatherBuffers.Get().(*[]byte)
	head, rest := f.parts(b)
	b = append(append((*room)[:0], head...), rest...)
	auditJSON(c.req, func() ([]byte, error) { return bytes.Clone(b), nil })
	taken, err := sendJSON(c.w, c.req, code, out, b)
	if taken {
		gatherBuffers.Put(room)
	}
	return err
}

// object returns the JSON of a single object whose form is b, as a new slice.
func (f *form) object(b []byte) []byte {
	head, rest := f.parts(b)
	out := make([]byte, 0, len(head)+len(rest)+1)
	return append(append(out, head...), rest...)
}

// writeJSON answers with a JSON document in the form the client wants.
func writeJSON(w http.ResponseWriter, req *http.Request, code int, out output, b []byte) error {
	_, err := sendJSON(w, req, code, out, b)
	return err
}

// sendJSON is writeJSON that also says whether b may be used again: nobody reads it any more.
func sendJSON(w http.ResponseWriter, req *http.Request, code int, out output, b []byte) (taken bool, err error) {
	switch out.media {
	case mediaYAML:
		b, err = yaml.JSONToYAML(b)
	case mediaCBOR:
		b, err = cbor.FromJSON(b)
	default:
		b = finishJSON(b, out.pretty)
	}
	if err != nil {
		return false, err
	}
	return writeBytes(w, req, code, out.contentType(false), b) == nil, nil
}

// writeStored answers with the item that a write has stored, without decoding
// it if its bytes can be served.
func (c *call) writeStored(code int, out output, i *store.Item) error {
	if pieces, ok := c.protobufOfWrite(i, out); ok {
		c.auditItem(out, i)
		c.writeSealed(code, out, c.prepared().forms.typeMeta, pieces)
		return nil
	}
	if f := c.prepared().forms.json; request.LocalFrom(c.req) == nil && out.shape == shapeObject && out.media != mediaProtobuf && c.prepared().forms.of(out) == f {
		room := gatherBuffers.Get().(*[]byte)
		defer gatherBuffers.Put(room)
		if b, ok := c.jsonOfWrite((*room)[:0], i, f); ok {
			return c.writeForm(code, out, f, b)
		}
	}
	obj, err := c.Decode(c.req.Context(), i)
	if err != nil {
		return err
	}
	return c.writeObject(code, out, obj)
}

// protobufOfWrite returns the pieces of the protobuf of what was stored, if its bytes can be served.
func (c *call) protobufOfWrite(i *store.Item, out output) ([][]byte, bool) {
	if request.LocalFrom(c.req) != nil || out.media != mediaProtobuf || out.shape != shapeObject || out.dropManaged ||
		i.Rev == 0 || !c.splices(i) || c.hub.Default != nil && !c.complete(i) {
		return nil, false
	}
	pieces, err := c.protobufPieces(c.req.Context(), i, out)
	return pieces, err == nil
}

// jsonOfWrite returns the JSON of what was stored, if its bytes can be served. It is kept if there are watchers, who get it
// too; otherwise it may be appended to room.
func (c *call) jsonOfWrite(room []byte, i *store.Item, f *form) ([]byte, bool) {
	if !i.Encoded(f) && !c.view.Watched() {
		if value := i.Value(); f.plan != nil && bytes.HasPrefix(value, magic) {
			return c.appendDirect(room, i, value, f)
		}
		return c.direct(i, f)
	}
	b, err := i.Encoding(c.e.Store.Encodings, f, func(i *store.Item) ([]byte, error) {
		if b, ok := c.direct(i, f); ok {
			return b, nil
		}
		return nil, errIndirect
	})
	return b, err == nil
}

// errIndirect says that stored bytes have to be decoded.
var errIndirect = errors.New("the stored bytes cannot be served")

// writeObject answers with the result of a write: a hub object.
func (c *call) writeObject(code int, out output, obj Object) error {
	if out.shape == shapeTable {
		return c.writeTable(code, out, []Object{obj}, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()})
	}
	obj, err := c.outgoing(c.req.Context(), obj)
	if err != nil {
		return err
	}
	if out.dropManaged {
		obj.SetManagedFields(nil)
	}
	if out.shape == shapePartial {
		return writeAny(c.w, c.req, code, out, c.partialOf(obj, out))
	}
	return writeAny(c.w, c.req, code, out, obj)
}

// restrict says what the request's endpoint can answer with.
func (c *call) restrict() restrict {
	// A review has no table.
	table := c.R.Create == nil && (c.sub == nil || c.sub.Rules == nil || c.sub.Table)
	return restrict{protobuf: c.typed, routed: c.typed, table: table, partial: partialKind}
}

// marshalRaw is json.Marshal for values whose encoding cannot fail.
func marshalRaw(v any) runtime.RawExtension {
	b, err := json.Marshal(v)
	if err != nil {
		b = fmt.Appendf(nil, "%q", err.Error())
	}
	return runtime.RawExtension{Raw: b}
}
