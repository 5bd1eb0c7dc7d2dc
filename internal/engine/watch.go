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
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kanzen-io/kanzen/internal/base/span"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
)

// bookmarkEvery is the interval at which a watch without events gets a
// bookmark.
const bookmarkEvery = time.Minute

// watch streams the events of the selected objects.
func (c *call) watch() error {
	can := c.restrict()
	can.list, can.stream = true, true
	out, err := negotiate(c.req, can)
	if err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	if c.asked(extensions.Sort, "sort") != "" {
		return apierrors.NewBadRequest("sort: a watch has the order of events")
	}
	if c.view == nil {
		return c.watchVirtual(out, o)
	}
	isList := o.SendInitialEvents != nil && *o.SendInitialEvents && o.AllowWatchBookmarks
	if isList {
		c.trace()
	}
	timeout := c.watchTimeout(o)
	ctx, cancel := context.WithTimeout(c.req.Context(), timeout)
	defer cancel()

	sel, err := c.selects(ctx, o)
	if err != nil {
		return err
	}
	s := &watchStream{call: c, began: time.Now(), counts: c.e.Metrics.of(c.GVR), progress: request.Watch(ctx), out: out, sel: sel, bookmarks: o.AllowWatchBookmarks}
	if s.only, err = c.projection(out, true); err != nil {
		return err
	}
	if out.shape == shapeTable {
		if _, err := c.includeObject(out); err != nil {
			return err
		}
	}
	initial, after, err := c.watchStart(ctx, o)
	if err != nil {
		return c.storeError(err, "")
	}
	if sel.narrow != nil {
		stop, err := s.narrow(ctx, initial != nil, after)
		if err != nil {
			return c.storeError(err, "")
		}
		defer stop()
	}
	if err := s.open(ctx, after); err != nil {
		return c.storeError(err, "")
	}
	defer func() { s.events.Close() }()
	if sel.shard != nil {
		defer c.e.Metrics.sharded(c.GVR, sel.shard)()
	}
	if isList {
		_, s.serving = span.Start(c.req.Context(), "WatchServer.HandleHTTP")
	}
	run := func(ctx context.Context) error {
		return s.run(ctx, initial, isList)
	}
	if isWebSocket(c.req) {
		return s.overSocket(ctx, run)
	}
	s.begin(isList && c.e.CompressWatchLists && acceptsGzip(c.req))
	err = run(ctx)
	if s.packer != nil {
		_ = s.packer.close() // if that fails the client is gone
	}
	return err
}

// watchTimeout is how long the watch lasts.
func (c *call) watchTimeout(o *internalversion.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	// The timeout is random, so that watches started together do not end
	// together.
	return time.Duration(float64(c.e.MinWatch) * (1 + rand.Float64()))
}

// watchStart returns the snapshot that a watch sends first, or nil, and the revision after which its events begin.
func (c *call) watchStart(ctx context.Context, o *internalversion.ListOptions) (*store.Snapshot, int64, error) {
	ctx, sp := c.reading(ctx, "cacher.Watch", c.namespace, o.ResourceVersion)
	defer sp.End()
	if rev, ok, err := c.moment(ctx, o.ResourceVersion); ok || err != nil {
		return nil, rev, err
	}
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
		if err := c.view.Fresh(ctx); err != nil {
			return nil, 0, err
		}
	}
	if !wantsState {
		snap, err := c.view.Snapshot(ctx) // for its revision
		if err != nil {
			return nil, 0, err
		}
		return nil, snap.Rev, nil
	}
	snap, err := c.present(ctx, o)
	if err != nil {
		return nil, 0, err
	}
	return snap, snap.Rev, nil
}

// watchStream writes one watch.
type watchStream struct {
	*call
	out       output
	sel       selected
	events    *store.Watcher
	bookmarks bool
	narrowed  *narrowedWatch // nil: it has the same objects all the time
	only      *projection    // nil: its objects are whole
	headed    bool           // the table's column definitions were sent
	serving   span.Span      // of sending the initial list
	began     time.Time
	sent      sentEvents
	counts    *watchCounts // what sent is added to
	progress  *request.WatchProgress
	rev       int64   // that the client will have after the next flush
	packer    *packer // nil: the watch is not compressed

	emit  func(frame [][]byte) error // takes the pieces of one frame
	flush func() error               // sends what emit has gathered
	// pieces and scratch belong to the frame that is being made.
	pieces  [][]byte
	scratch []byte
}

func (s *watchStream) exact() bool {
	return s.sel.name != "" && s.namesOne()
}

func (s *watchStream) keyPrefix() string {
	if s.exact() {
		return s.sel.prefix + s.sel.name
	}
	return s.sel.prefix
}

// begin sends the header, so that the client knows that the watch has begun.
func (s *watchStream) begin(compressed bool) {
	g, h := gatherer{w: s.w}, s.w.Header()
	h.Set("Content-Type", s.out.contentType(true))
	h.Set("Transfer-Encoding", "chunked")
	if compressed {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		s.packer = &packer{w: s.w}
		g.w = s.packer
	}
	s.w.WriteHeader(http.StatusOK)
	rc := http.NewResponseController(s.w)
	sending := false // a frame that is larger than what is gathered waits for the client before the flush does
	send := func() {
		if !sending {
			sending = true
			s.progress.Began(s.e.Clock)
		}
	}
	s.emit = func(frame [][]byte) error {
		send()
		for _, p := range frame {
			g.write(p)
		}
		return g.err
	}
	s.flush = func() error {
		events, bytes := s.sent.report(s.counts)
		send()
		if g.flush(); g.err != nil {
			return g.err
		}
		if s.packer != nil {
			if err := s.packer.flush(); err != nil {
				return err
			}
		}
		err := rc.Flush()
		s.progress.Ended(events, bytes, s.rev)
		sending = false
		return err
	}
	_ = rc.Flush()
}

// run sends events until the watch ends. Errors are sent as events, because the
// header was sent already.
func (s *watchStream) run(ctx context.Context, initial *store.Snapshot, initialEnd bool) error {
	if initial != nil {
		if err := s.sendInitial(ctx, initial, initialEnd); err != nil {
			return s.sendError(err)
		}
		if s.packer != nil {
			if err := s.packer.initialEnd(); err != nil {
				return nil // the client is gone
			}
		}
		if initialEnd {
			s.e.Metrics.listed(s.GVR, s.scope(), time.Since(s.began))
		}
		s.serving.Event("Writing initial events done")
		s.serving.End()
		s.span.End()
	}
	request.Watching(ctx)
	ticker := s.e.Clock.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	due := false   // a bookmark is
	ended := false // once what has happened is told
	for {
		changed := s.narrowed.changed(ctx)
		var events []*store.Event
		err := s.narrowed.prepare(ctx)
		if err == nil {
			events, err = s.events.Poll(ctx)
		}
		if err == nil && s.narrowed != nil {
			events, err = s.narrowed.follow(ctx, events)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, store.ErrForgotten) {
			return nil // the kind is gone, and all that happened to its objects is told
		}
		if err != nil {
			return s.sendError(s.storeError(err, ""))
		}
		s.rev = s.events.Rev()
		if err := s.sendEvents(ctx, events); err != nil {
			return s.sendError(err)
		}
		// A watcher that was not woken has no events, but its revision may have advanced: that is worth a bookmark.
		if s.bookmarks && (due && len(events) == 0 || s.narrowed.owes()) {
			if err := s.sendBookmark(); err != nil {
				return s.sendError(err)
			}
		}
		if due = false; len(events) > 0 {
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-s.events.Ready():
		case <-changed.rights:
		case <-changed.namespaces:
		case <-changed.time:
		case <-ticker.C():
			due = true
		case <-s.retired:
			ended = true
		case <-ctx.Done():
			return nil
		}
	}
}

// open begins to get the events after a revision.
func (s *watchStream) open(ctx context.Context, after int64) error {
	w, err := s.view.Watch(ctx, store.WatchOptions{
		Beyond: s.past, After: after, Prefix: s.keyPrefix(), Exact: s.exact(), Triggers: s.sel.triggers, Namespaces: s.narrowed.namespaces(),
	})
	if err != nil {
		return err
	}
	if s.events != nil {
		s.events.Close()
	}
	s.events = w
	return nil
}

// sendBookmark tells the client how far it has come.
func (s *watchStream) sendBookmark() error {
	if err := s.bookmark(s.rev, false); err != nil {
		return err
	}
	return s.flush()
}

// sendInitial sends the objects that existed when the watch began.
func (s *watchStream) sendInitial(ctx context.Context, snap *store.Snapshot, end bool) error {
	var failed error
	each := func(i *store.Item) bool {
		if s.exact() && i.Key != s.keyPrefix() {
			return false
		}
		ok, err := s.sel.match(i)
		if err == nil && ok {
			err = s.narrowed.still(ctx, i)
		}
		if err == nil && ok {
			err = s.frame(ctx, watch.Added, i)
		}
		failed = err
		return err == nil
	}
	err := s.sel.ascend(ctx, snap, store.Range{Prefix: s.keyPrefix()}, each)
	s.rev = snap.Rev
	if err = cmp.Or(failed, err); err == nil && end {
		err = s.bookmark(snap.Rev, true)
	}
	if err != nil {
		return err
	}
	return s.flush()
}

// sendEvents sends the client's view of some changes. Its buffer is bounded,
// however many changes there are.
func (s *watchStream) sendEvents(ctx context.Context, events []*store.Event) error {
	if len(events) == 0 {
		return nil
	}
	for n, e := range events {
		if err := ended(ctx, n); err != nil {
			return err
		}
		if err := s.event(ctx, e); err != nil {
			return err
		}
	}
	return s.flush()
}

// event sends one change as the client sees it: an object that begins or ceases
// to match the selector is added or deleted.
func (s *watchStream) event(ctx context.Context, e *store.Event) error {
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
		return s.frame(ctx, watch.Added, e.Item)
	case is:
		return s.frame(ctx, watch.Modified, e.Item)
	case was:
		return s.frame(ctx, watch.Deleted, e.Gone())
	}
	return nil
}

// frame sends one event of an item.
func (s *watchStream) frame(ctx context.Context, t watch.EventType, i *store.Item) error {
	if i.Err != nil {
		return apierrors.NewInternalError(i.Err)
	}
	if s.out.shape == shapeTable {
		obj, err := s.Decode(ctx, i)
		if err != nil {
			return err
		}
		return s.tableFrame(t, obj)
	}
	if s.out.media == mediaProtobuf {
		tm := s.prepared().forms.typeMeta
		if s.out.shape == shapePartial {
			tm = typeMeta(s.out.metaKind(partialKind))
		}
		var raw [][]byte
		var err error
		if s.only != nil {
			var b []byte
			b, err = s.call.only(ctx, i, s.only)
			raw = [][]byte{b}
		} else {
			raw, err = s.protobufPieces(ctx, i, s.out)
		}
		if err != nil {
			return err
		}
		return s.protobufFrame(t, tm, raw)
	}
	f := s.prepared().forms.of(s.out)
	var b []byte
	var err error
	if s.only != nil {
		b, err = s.call.only(ctx, i, s.only)
	} else {
		b, err = s.json(ctx, i, f)
	}
	if err != nil {
		return err
	}
	head, rest := f.parts(b)
	return s.jsonFrame(t, head, rest)
}

func (s *watchStream) jsonFrame(t watch.EventType, object ...[]byte) error {
	if s.out.media == mediaCBOR {
		return s.cborFrame(t, slices.Concat(object...))
	}
	s.scratch = append(append(append(s.scratch[:0], `{"type":"`...), t...), `","object":`...)
	s.pieces = append(append(append(s.pieces[:0], s.scratch), object...), frameTail)
	return s.emitFrame()
}

var frameTail = []byte("}\n")

// emitFrame sends pieces as a frame, and keeps none of them.
func (s *watchStream) emitFrame() error {
	defer clear(s.pieces)
	size := 0
	for _, p := range s.pieces {
		size += len(p)
	}
	s.sent.add(size)
	if err := s.emit(s.pieces); err != nil {
		return errGone
	}
	return nil
}

// errGone says that the client has gone.
var errGone = errors.New("the client is gone")

// protobufFrame sends a WatchEvent around an object and its envelope: its
// length in four bytes, then type (field 1) and object (field 2, a RawExtension
// whose field 1 is the bytes).
func (s *watchStream) protobufFrame(t watch.EventType, typeMeta []byte, raw [][]byte) error {
	size := 0
	for _, p := range raw {
		size += len(p)
	}
	object := len(magic) + len(typeMeta) + 1 + uvarintLen(size) + size + len(envelopeTail)
	inner := 1 + uvarintLen(object) + object
	n := 2 + len(t) + 1 + uvarintLen(inner) + inner
	b := binary.BigEndian.AppendUint32(s.scratch[:0], uint32(n))
	b = append(append(b, tagBytes1, byte(len(t))), t...)
	b = binary.AppendUvarint(append(b, tagBytes2), uint64(inner))
	b = binary.AppendUvarint(append(b, tagBytes1), uint64(object))
	s.scratch = appendEnvelope(b, typeMeta, size)
	s.pieces = append(append(append(s.pieces[:0], s.scratch), raw...), envelopeTail)
	return s.emitFrame()
}

// tableFrame sends an event of one row; the first frame has the column
// definitions.
func (s *watchStream) tableFrame(t watch.EventType, obj Object) error {
	table, err := s.tableOf(s.out, s.table(), []Object{obj}, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()})
	if err != nil {
		return err
	}
	if s.headed {
		table.ColumnDefinitions = nil
	}
	s.headed = true
	return s.anyFrame(t, table)
}

// anyFrame sends an event of an object that has its type set.
func (s *watchStream) anyFrame(t watch.EventType, obj runtime.Object) error {
	if s.out.media == mediaProtobuf {
		raw, err := marshalProtobuf(obj)
		if err != nil {
			return err
		}
		return s.protobufFrame(t, typeMeta(obj.GetObjectKind().GroupVersionKind()), [][]byte{raw})
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	return s.jsonFrame(t, b)
}

// bookmark sends a bookmark: an empty object that carries a revision.
func (s *watchStream) bookmark(rev int64, initialEnd bool) error {
	obj := s.V.New()
	obj.GetObjectKind().SetGroupVersionKind(s.GVK)
	obj.SetResourceVersion(formatRev(rev))
	if initialEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	switch {
	case s.out.shape == shapeTable:
		table, err := s.tableOf(s.out, s.table(), nil, metav1.ListMeta{ResourceVersion: formatRev(rev)})
		if err != nil {
			return err
		}
		if initialEnd {
			p := s.partialOf(obj, s.out)
			table.Rows = []metav1.TableRow{{Cells: make([]any, len(table.ColumnDefinitions)), Object: marshalRaw(p)}}
		}
		if s.headed {
			table.ColumnDefinitions = nil
		}
		s.headed = true
		return s.anyFrame(watch.Bookmark, table)
	case s.out.shape == shapePartial:
		return s.anyFrame(watch.Bookmark, s.partialOf(obj, s.out))
	}
	return s.anyFrame(watch.Bookmark, obj)
}

// sendError ends a watch with an event that says why.
func (s *watchStream) sendError(err error) error {
	if errors.Is(err, errGone) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrClosedPipe) {
		return nil // the watch has ended, or its time was up in the middle of an event
	}
	st := StatusOf(err)
	if err := s.anyFrame(watch.Error, &st); err == nil {
		_ = s.flush()
	}
	return nil
}
