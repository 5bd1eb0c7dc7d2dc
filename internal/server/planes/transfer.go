package planes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file and import.go are how planes leave a server and come to one: as streams (package transfer) at two subresources of a Plane, which take
// the verb create. The chain of the root has authorized a request before it gets here.

// The subresources.
const (
	exportOf = "export"
	importOf = "import"
)

var planesResource = schema.GroupResource{Group: Group, Resource: "planes"}

const (
	// maxTransfers is how many exports and imports there may be at a time.
	maxTransfers = 4
	// stalled is how long the other side may take for the next piece of a stream.
	stalled = time.Minute
)

// transfers is what transfers of all planes have in common.
type transfers struct {
	busy chan struct{} // has a token for each that is under way
	// kinds knows the objects of streams, and how they are encrypted. It is made for the first transfer.
	kinds func() *snapshot.Kinds
	// plain knows them too, without encryption.
	plain func() *snapshot.Kinds
}

func (f *Fleet) newTransfers() transfers {
	of := func(t func(schema.GroupResource) store.Transformer) func() *snapshot.Kinds {
		return sync.OnceValue(func() *snapshot.Kinds {
			return snapshot.NewKinds(transfer.Registry, builtin.Resources(builtin.Deps{}), t)
		})
	}
	return transfers{
		busy:  make(chan struct{}, maxTransfers),
		kinds: of(f.transformer),
		plain: of(func(schema.GroupResource) store.Transformer { return encryption.None{} }),
	}
}

// ServeTransfer answers requests for exports and imports; served is false if the request is none of those.
func (f *Fleet) ServeTransfer(w http.ResponseWriter, r *http.Request) (served bool) {
	i := request.InfoFrom(r.Context())
	if i == nil || i.Group != Group || i.Version != Version || i.Resource != planesResource.Resource || i.Subresource != exportOf && i.Subresource != importOf ||
		len(i.Parts) != 3 || i.InNamespace || i.Gaps || i.VerbInPath {
		return false
	}
	if err := f.transfer(w, r, i); err != nil {
		engine.WriteError(w, r, schema.GroupVersion{Group: Group, Version: Version}, err)
	}
	return true
}

func (f *Fleet) transfer(w http.ResponseWriter, r *http.Request, i *request.Info) error {
	if r.Method != http.MethodPost {
		return apierrors.NewMethodNotSupported(planesResource, r.Method)
	}
	select {
	case f.transfers.busy <- struct{}{}:
		defer func() { <-f.transfers.busy }()
	default:
		return apierrors.NewTooManyRequests("other exports and imports of planes are under way", 5)
	}
	h, err := f.known(r.Context(), i.Name)
	if err != nil {
		return err
	}
	if i.Subresource == exportOf {
		return f.export(w, r, h)
	}
	return f.takeIn(w, r, h)
}

// known returns the plane of a name, also if the watch has not told of it yet.
func (f *Fleet) known(ctx context.Context, name string) (*hosted, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := f.up(ctx); err != nil {
		return nil, err
	}
	var p Plane
	if err := f.root.Do(ctx, http.MethodGet, planesPath+"/"+name, "", nil, &p); err != nil {
		return nil, err
	}
	for {
		if h := f.find(name); h != nil && h.uid == p.UID {
			return h, nil
		}
		if err := f.pause(ctx); err != nil {
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("plane %s is not known yet", name))
		}
	}
}

// conflict refuses a transfer for what the plane is.
func conflict(h *hosted, format string, args ...any) error {
	return apierrors.NewConflict(planesResource, h.name, fmt.Errorf(format, args...))
}

// awaitMade waits until all that belongs to a plane is there; a status tells of it a moment before.
func (h *hosted) awaitMade(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-h.made:
		return true
	case <-ctx.Done():
		return false
	}
}

// Pages of an export.
const (
	pageKeys  = 500
	pageBytes = 4 << 20
)

// export streams all objects of a plane, at one revision. It does not wake it.
func (f *Fleet) export(w http.ResponseWriter, r *http.Request, h *hosted) error {
	h.mu.Lock()
	under := h.under
	h.mu.Unlock()
	if !under.imported && !h.awaitMade(r.Context()) {
		return conflict(h, "the plane is not ready")
	}
	db, err := f.stored(r.Context(), h, under)
	if errors.Is(err, errAwaitsImport) {
		return conflict(h, "%w", err)
	}
	if err != nil {
		return err
	}
	at, err := db.Head(r.Context())
	if err != nil {
		return err
	}
	e := export{Fleet: f, db: db, prefix: h.prefix() + "/", at: at}
	page, err := e.page(r.Context(), e.prefix) // what fails at once is told as an error
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := e.stream(r.Context(), w, page); err != nil {
		f.log.Info("the export of a plane broke off", "plane", h.name, "error", err)
		panic(http.ErrAbortHandler) // what is there must not be taken for all of it
	}
	return nil
}

// export is one that is under way.
type export struct {
	*Fleet
	db     store.DB
	prefix string
	at     int64
}

// page reads the next keys.
func (e *export) page(ctx context.Context, from string) (page []kv.KeyValue, err error) {
	return pageOf(ctx, e.db, from, e.prefix, e.at)
}

// stored returns the log of a plane, for who only reads it.
func (f *Fleet) stored(ctx context.Context, h *hosted, under footing) (store.DB, error) {
	s, err := f.storageOf(ctx, h.uid)
	if err != nil {
		return nil, err
	}
	c, err := f.answering(s.class())
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return f.laid(ctx, h.uid, under, &s, c.db)
}

// stream writes all pages. Of what the plane's server keeps for itself nothing is written.
func (e *export) stream(ctx context.Context, w http.ResponseWriter, page []kv.KeyValue) error {
	control := http.NewResponseController(w)
	out, err := transfer.NewWriter(w, transfer.Head{Revision: e.at})
	if err != nil {
		return err
	}
	for len(page) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(stalled)) // not supported in process
		for _, k := range page {
			if err := e.put(ctx, out, k); err != nil {
				return err
			}
		}
		if page, err = e.page(ctx, kv.After(page[len(page)-1].Key)); err != nil {
			return err
		}
	}
	_ = control.SetWriteDeadline(time.Now().Add(stalled))
	return out.End()
}

// put writes an object, encrypted for its place in the file if it is encrypted in the log.
func (e *export) put(ctx context.Context, out *transfer.Writer, k kv.KeyValue) error {
	below := strings.TrimPrefix(string(k.Key), e.prefix)
	id, err := e.transfers.kinds().ID(transfer.Registry + below)
	if err != nil || id.Personal() {
		return nil //nolint:nilerr // it is no object
	}
	own := k
	if own.Value, err = e.transfers.kinds().Move(ctx, id, string(k.Key), transfer.Registry+below, k.Value); err != nil {
		return err
	}
	own.Key = []byte(below)
	return out.Put(&transfer.Key{KeyValue: own, Seconds: int64(e.ttl(id) / time.Second)})
}

// ttl is how long an object exists that is stored now; 0: for ever. When one ends that was stored before is not known: later rather than earlier.
func (f *Fleet) ttl(id snapshot.ID) time.Duration {
	if id.Resource == "events" && (id.Group == "" || id.Group == "events.k8s.io") {
		return f.cfg.EventTTL
	}
	return 0
}
