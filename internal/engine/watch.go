package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/span"
	"github.com/kanzen-io/kanzen/internal/store"
)

// bookmarkEvery is how often a quiet watch is told how far it is.
const bookmarkEvery = time.Minute

// watch streams the events of what is selected.
func (c *call) watch() error {
	can := c.restrict()
	can.stream = true
	out, err := negotiate(c.req, can)
	if err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	if c.view == nil {
		return c.methodNotAllowed()
	}
	isList := o.SendInitialEvents != nil && *o.SendInitialEvents && o.AllowWatchBookmarks
	if isList {
		c.trace()
	}
	timeout := c.watchTimeout(o)
	ctx, cancel := context.WithTimeout(c.req.Context(), timeout)
	defer cancel()

	s := &watchStream{call: c, out: out, sel: c.selects(ctx, o), bookmarks: o.AllowWatchBookmarks}
	if out.shape == shapeTable {
		if _, err := c.includeObject(); err != nil {
			return err
		}
	}
	initial, after, err := c.watchStart(ctx, o)
	if err != nil {
		return c.storeError(err, "")
	}
	w, err := c.view.Watch(ctx, store.WatchOptions{
		After: after, Prefix: s.keyPrefix(), Exact: s.exact(), Trigger: s.sel.trigger,
	})
	if err != nil {
		return c.storeError(err, "")
	}
	defer w.Close()
	if isList {
		_, s.serving = span.Start(c.req.Context(), "WatchServer.HandleHTTP")
	}
	run := func(ctx context.Context) error {
		return s.run(ctx, w, initial, isList)
	}
	if isWebSocket(c.req) {
		return s.overSocket(ctx, run)
	}
	s.begin()
	return run(ctx)
}

// watchTimeout is how long the watch lasts.
func (c *call) watchTimeout(o *internalversion.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	// Spread out, so that watches begun together do not end together.
	return time.Duration(float64(c.e.MinWatch) * (1 + rand.Float64()))
}

// watchStart settles what a watch is told first (a snapshot, or nil) and the
// revision after which its events begin.
func (c *call) watchStart(ctx context.Context, o *internalversion.ListOptions) (*store.Snapshot, int64, error) {
	ctx, sp := c.reading(ctx, "cacher.Watch", c.namespace, o.ResourceVersion)
	defer sp.End()
	rev, err := parseRev(o.ResourceVersion)
	if err != nil {
		return nil, 0, err
	}
	wantsState := o.SendInitialEvents != nil && *o.SendInitialEvents || o.SendInitialEvents == nil && rev == 0
	if !wantsState && rev > 0 {
		return nil, rev, nil
	}
	if rev > 0 {
		if err := c.waitFor(ctx, rev); err != nil {
			return nil, 0, err
		}
	} else if o.ResourceVersion == "" {
		if err := c.e.Store.Fresh(ctx); err != nil {
			return nil, 0, err
		}
	}
	snap, err := c.view.Snapshot(ctx)
	if err != nil {
		return nil, 0, err
	}
	if !wantsState {
		return nil, snap.Rev, nil
	}
	return snap, snap.Rev, nil
}

// watchStream writes one watch.
type watchStream struct {
	*call
	out       output
	sel       selected
	bookmarks bool
	headed    bool      // the table's columns were sent
	serving   span.Span // of sending what a list begins with

	buf   []byte
	ends  []int                     // of the frames in buf
	write func(frames []byte) error // sends what is in buf
}

func (s *watchStream) exact() bool {
	return s.sel.name != "" && (s.namespace != "" || !s.R.Namespaced)
}

func (s *watchStream) keyPrefix() string {
	if s.exact() {
		return s.sel.prefix + s.sel.name
	}
	return s.sel.prefix
}

// begin sends the header, so that the client knows that the watch is on.
func (s *watchStream) begin() {
	s.w.Header().Set("Content-Type", s.out.contentType(true))
	s.w.Header().Set("Transfer-Encoding", "chunked")
	s.w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(s.w)
	s.write = func(frames []byte) error {
		_, err := s.w.Write(frames)
		_ = rc.Flush()
		return err
	}
	_ = rc.Flush()
}

// run sends events until the watch ends. What goes wrong from here on is an
// event of its own: the header is out.
func (s *watchStream) run(ctx context.Context, w *store.Watcher, initial *store.Snapshot, initialEnd bool) error {
	if initial != nil {
		if err := s.sendInitial(ctx, initial); err != nil {
			return s.sendError(err)
		}
		if initialEnd {
			if err := s.bookmark(initial.Rev, true); err != nil {
				return s.sendError(err)
			}
		}
		if !s.send() {
			return nil
		}
		s.serving.Event("Writing initial events done")
		s.serving.End()
		s.span.End()
	}
	request.Watching(ctx)
	ticker := s.e.Clock.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	for {
		events, err := w.Poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return s.sendError(s.storeError(err, ""))
		}
		for _, e := range events {
			if err := s.event(e); err != nil {
				return s.sendError(err)
			}
		}
		if !s.send() {
			return nil
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-ticker.C():
			if s.bookmarks {
				// What was not woken has nothing to tell, but may be far on.
				if more, err := w.Poll(ctx); err == nil && len(more) == 0 {
					if err := s.bookmark(w.Rev(), false); err != nil {
						return s.sendError(err)
					}
				} else {
					for _, e := range more {
						if err := s.event(e); err != nil {
							return s.sendError(err)
						}
					}
				}
			}
		case <-s.retired:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// send writes what was gathered; false: the client is gone.
func (s *watchStream) send() bool {
	if len(s.buf) == 0 {
		return true
	}
	err := s.write(s.buf)
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	s.buf, s.ends = s.buf[:0], s.ends[:0]
	return err == nil
}

// sendEvery bounds what is gathered before it is written.
const sendEvery = 64 << 10

func (s *watchStream) sendInitial(ctx context.Context, snap *store.Snapshot) error {
	var failed error
	err := snap.Ascend(ctx, store.Range{Prefix: s.keyPrefix()}, func(i *store.Item) bool {
		if s.exact() && i.Key != s.keyPrefix() {
			return false
		}
		ok, err := s.sel.match(i)
		if err == nil && ok {
			err = s.frame(watch.Added, i)
		}
		if failed = err; err != nil {
			return false
		}
		return len(s.buf) < sendEvery || s.send()
	})
	return cmp.Or(failed, err)
}

// event tells the client what a change means to it: an object that begins or
// ceases to be selected is added or deleted for it.
func (s *watchStream) event(e *store.Event) error {
	was, is := false, false
	var err error
	if e.Prev != nil && e.Prev.Err == nil {
		if was, err = s.sel.match(e.Prev); err != nil {
			return err
		}
	} else if e.Item == nil {
		was = s.sel.all
	}
	if e.Item != nil {
		if is, err = s.sel.match(e.Item); err != nil {
			return err
		}
	}
	switch {
	case is && !was:
		return s.frame(watch.Added, e.Item)
	case is:
		return s.frame(watch.Modified, e.Item)
	case was:
		return s.frame(watch.Deleted, e.Gone())
	}
	return nil
}

// frame gathers one event of an item.
func (s *watchStream) frame(t watch.EventType, i *store.Item) error {
	if i.Err != nil {
		return apierrors.NewInternalError(i.Err)
	}
	if s.out.shape == shapeTable {
		obj, err := s.Decode(i)
		if err != nil {
			return err
		}
		return s.tableFrame(t, obj)
	}
	if s.out.media == mediaProtobuf {
		raw, err := s.protobuf(nil, i, s.out)
		if err != nil {
			return err
		}
		tm := s.forms.typeMeta
		if s.out.shape == shapePartial {
			tm = typeMeta(partialGVK)
		}
		s.protobufFrame(t, seal(tm, raw))
		return nil
	}
	f := s.forms.of(s.out)
	b, err := s.json(i, f)
	if err != nil {
		return err
	}
	head, rest := f.parts(b)
	s.jsonFrame(t, head, rest)
	return nil
}

func (s *watchStream) jsonFrame(t watch.EventType, parts ...[]byte) {
	s.buf = append(s.buf, `{"type":"`...)
	s.buf = append(s.buf, t...)
	s.buf = append(s.buf, `","object":`...)
	for _, p := range parts {
		s.buf = append(s.buf, p...)
	}
	s.buf = append(s.buf, "}\n"...)
	s.ends = append(s.ends, len(s.buf))
}

// protobufFrame gathers a WatchEvent around an enveloped object: its length in
// four bytes, then type (field 1) and object (field 2, a RawExtension whose
// field 1 is the bytes).
func (s *watchStream) protobufFrame(t watch.EventType, object []byte) {
	inner := 1 + uvarintLen(len(object)) + len(object)
	n := 2 + len(t) + 1 + uvarintLen(inner) + inner
	s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(n))
	s.buf = append(s.buf, tagBytes1, byte(len(t)))
	s.buf = append(s.buf, t...)
	s.buf = binary.AppendUvarint(append(s.buf, tagBytes2), uint64(inner))
	s.buf = binary.AppendUvarint(append(s.buf, tagBytes1), uint64(len(object)))
	s.buf = append(s.buf, object...)
	s.ends = append(s.ends, len(s.buf))
}

// tableFrame gathers an event of one row; the first has the columns.
func (s *watchStream) tableFrame(t watch.EventType, obj Object) error {
	table, err := s.tableOf(s.table(), []Object{obj}, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()})
	if err != nil {
		return err
	}
	if s.headed {
		table.ColumnDefinitions = nil
	}
	s.headed = true
	return s.anyFrame(t, table)
}

// anyFrame gathers an event of an object that has its type set.
func (s *watchStream) anyFrame(t watch.EventType, obj runtime.Object) error {
	if s.out.media == mediaProtobuf {
		raw, err := marshalProtobuf(obj)
		if err != nil {
			return err
		}
		s.protobufFrame(t, seal(typeMeta(obj.GetObjectKind().GroupVersionKind()), raw))
		return nil
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	s.jsonFrame(t, b)
	return nil
}

// bookmark gathers a bookmark: an empty object that carries a revision.
func (s *watchStream) bookmark(rev int64, initialEnd bool) error {
	obj := s.V.New()
	obj.GetObjectKind().SetGroupVersionKind(s.GVK)
	obj.SetResourceVersion(formatRev(rev))
	if initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	switch {
	case s.out.shape == shapeTable:
		table, err := s.tableOf(s.table(), nil, metav1.ListMeta{ResourceVersion: formatRev(rev)})
		if err != nil {
			return err
		}
		if initialEnd {
			p := s.partialOf(obj)
			table.Rows = []metav1.TableRow{{Cells: make([]any, len(table.ColumnDefinitions)), Object: marshalRaw(p)}}
		}
		if s.headed {
			table.ColumnDefinitions = nil
		}
		s.headed = true
		return s.anyFrame(watch.Bookmark, table)
	case s.out.shape == shapePartial:
		return s.anyFrame(watch.Bookmark, s.partialOf(obj))
	}
	return s.anyFrame(watch.Bookmark, obj)
}

// sendError ends a watch with an event that says why.
func (s *watchStream) sendError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	st := StatusOf(err)
	if err := s.anyFrame(watch.Error, &st); err == nil {
		s.send()
	}
	return nil
}
