package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/shift"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file takes up planes that come as streams (transfer.go): of a Plane whose spec says that it is imported.
//
// An import writes a mark for the plane, which all of its transactions name, then its objects, and at last the mark that all of them are there.
// Before that the plane is not served. An import that is cut off leaves what it has written; the next one puts another mark, which keeps the one
// before from writing any more, on whatever server, and begins anew.

// importsPrefix is where marks are in the log, by the UID of the plane.
const importsPrefix = "/kanzen/imports/"

// importMark says how far the import of a plane is.
type importMark struct {
	// Session is that of one import.
	Session string `json:"session"`
	// Done says that all objects are there. Nothing is readable before the revision of that mark.
	Done bool `json:"done,omitempty"`
	// Revision is that of the file, and Shift how much greater the revisions of the plane are than those of the log, so that all are greater
	// than those of the file.
	Revision int64 `json:"revision,omitempty"`
	Shift    int64 `json:"shift,omitempty"`

	at int64 // revision of the mark in the log; 0: there is none
}

// errAwaitsImport is why a plane is not ready whose objects are not there yet.
var errAwaitsImport = errors.New("its objects are awaited: kanzen plane import NAME FILE")

// Imported is the answer to an import.
type Imported struct {
	Objects  int64 `json:"objects"`
	Bytes    int64 `json:"bytes"`
	Revision int64 `json:"revision"` // of the plane
}

// importMarkOf reads the mark of a plane.
func (f *Fleet) importMarkOf(ctx context.Context, uid types.UID) (m importMark, err error) {
	var broken error
	_, err = f.on.DB.Range(ctx, kv.Range{Key: importsPrefix + string(uid)}, func(k kv.KeyValue) bool {
		broken = json.Unmarshal(k.Value, &m)
		m.at = k.ModRevision
		return false
	})
	return m, errors.Join(err, broken)
}

// shifted returns a log as an imported plane has it.
func (f *Fleet) shifted(ctx context.Context, uid types.UID, db store.DB) (store.DB, error) {
	m, err := f.importMarkOf(ctx, uid)
	if err != nil {
		return nil, err
	}
	if !m.Done {
		return nil, errAwaitsImport
	}
	return shift.New(db, m.Shift, m.at+m.Shift), nil
}

// imports is an import that is under way.
type imports struct {
	*Fleet
	h     *hosted
	mark  importMark
	still []kv.Condition // that no other import has begun, and that the plane was not deleted
	batch kv.Txn
	size  int // of the values in batch
	done  Imported
	most  Limits
}

// takeIn makes the objects of a plane of a stream.
func (f *Fleet) takeIn(w http.ResponseWriter, r *http.Request, h *hosted) error {
	h.mu.Lock()
	imported, limits := h.under.imported, h.limits
	h.mu.Unlock()
	if !imported {
		return conflict(h, "it has objects of its own; only a Plane that was created with spec.imported can take those of a file")
	}
	if !h.importing.CompareAndSwap(false, true) {
		return conflict(h, "another import of it is under way")
	}
	defer h.importing.Store(false)
	control := http.NewResponseController(w)
	next := func() { _ = control.SetReadDeadline(time.Now().Add(stalled)) } // not supported in process
	next()
	stream, err := transfer.NewReader(r.Body)
	if err != nil {
		return unreadable(err)
	}
	set, err := f.signing(stream.Keys)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	i := imports{Fleet: f, h: h, most: limits}
	if err := i.begin(r.Context(), stream.Revision); err != nil {
		return err
	}
	if err := i.objects(r.Context(), stream, next); err != nil {
		i.abandon(r.Context())
		return err
	}
	if err := i.finish(r.Context(), set); err != nil {
		i.abandon(r.Context())
		return err
	}
	return i.tell(w, r)
}

// unreadable is the refusal of a stream.
func unreadable(err error) error {
	if errors.Is(err, transfer.ErrStream) {
		return apierrors.NewBadRequest(err.Error())
	}
	return err
}

// signing are the keys of a stream if they are all that a plane needs; nil: it has none.
func (f *Fleet) signing(set pki.Shared) (pki.Shared, error) {
	if len(set) == 0 {
		return nil, nil
	}
	own := pki.Shared{}
	for _, name := range pki.SharedNames() {
		if set[name] != nil {
			own[name] = set[name]
		}
	}
	if _, err := keys.Of(own, f.cfg.Hosted(""), f.on.Address(), f.ca, f.on.Clock.Now(), f.log); err != nil {
		return nil, fmt.Errorf("the keys cannot be those of a plane: %w", err)
	}
	return own, nil
}

// begin puts the mark, and removes what is there of an import before this one.
func (i *imports) begin(ctx context.Context, revision int64) error {
	m, err := i.importMarkOf(ctx, i.h.uid)
	if err != nil {
		return err
	}
	if m.Done {
		return conflict(i.h, "it has its objects already; create another Plane, or delete this one")
	}
	i.mark = importMark{Session: uuid.NewString(), Revision: revision}
	i.still = []kv.Condition{{Key: importsPrefix + string(i.h.uid), Is: kv.ModRevision, N: m.at}}
	if err := i.putMark(ctx); err != nil {
		return err
	}
	// A Plane is deleted before its mark is, so one that is there now will not be gone without the mark.
	var p Plane
	if err := i.root.Do(ctx, http.MethodGet, planesPath+"/"+i.h.name, "", nil, &p); err != nil || p.UID != i.h.uid || p.DeletionTimestamp != nil {
		return errors.Join(i.drop(context.WithoutCancel(ctx)), conflict(i.h, "it is being deleted"))
	}
	i.mark.Shift = max(0, revision-i.mark.at)
	return i.clear(ctx)
}

// putMark puts the mark, and has all transactions from now on depend on it.
func (i *imports) putMark(ctx context.Context) error {
	value, err := json.Marshal(i.mark)
	if err != nil {
		return err
	}
	key := importsPrefix + string(i.h.uid)
	done, err := i.on.DB.Commit(ctx, kv.Txn{If: i.still, Then: []kv.Op{{Key: key, Value: value}}})
	if err != nil {
		return err
	}
	if !done.Held {
		return i.overtaken()
	}
	i.mark.at = done.Rev
	i.still = []kv.Condition{{Key: key, Is: kv.ModRevision, N: done.Rev}}
	return nil
}

// drop removes the mark.
func (i *imports) drop(ctx context.Context) error {
	_, err := i.on.DB.Commit(ctx, kv.Txn{If: i.still, Then: []kv.Op{{Delete: true, Key: importsPrefix + string(i.h.uid)}}})
	return err
}

func (i *imports) overtaken() error {
	return conflict(i.h, "another import of it has begun, or it was deleted")
}

// abandon removes what was written, as far as that is possible.
func (i *imports) abandon(ctx context.Context) {
	if err := i.clear(context.WithoutCancel(ctx)); err != nil && !apierrors.IsConflict(err) {
		i.log.Info("what an import of a plane has written stays until the next one, or until the plane is deleted", "plane", i.h.name, "error", err)
	}
}

// clear removes all that is stored of the plane.
func (i *imports) clear(ctx context.Context) error {
	held, err := eraseWhile(ctx, i.on.DB, i.h.prefix()+"/", i.still)
	if err == nil && !held {
		err = i.overtaken()
	}
	return err
}

// batchBytes is how many bytes a transaction has, unless a single object has more.
const batchBytes = kv.MaxBytes / 2

// objects writes those of a stream.
func (i *imports) objects(ctx context.Context, stream *transfer.Reader, next func()) error {
	for {
		next()
		k, err := stream.Next()
		if err != nil {
			return unreadable(err)
		}
		if k == nil {
			return i.flush(ctx)
		}
		if err := i.object(ctx, k); err != nil {
			return err
		}
	}
}

// object takes one, if it is what its key says.
func (i *imports) object(ctx context.Context, k *transfer.Key) error {
	key := transfer.Registry + string(k.Key)
	id, err := i.transfers.kinds().ID(key)
	if err != nil || id.Personal() {
		return apierrors.NewBadRequest(fmt.Sprintf("%.300q: it is no key of an object that a plane can have", k.Key))
	}
	if _, err := i.transfers.plain().Open(ctx, key, k.Value); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	to := i.h.prefix() + "/" + string(k.Key)
	value, err := i.transfers.kinds().Seal(ctx, id, to, k.Value)
	if err != nil {
		return err
	}
	i.done.Objects++
	i.done.Bytes += int64(len(to) + len(value))
	if err := i.within(); err != nil {
		i.h.refused.storage.Add(1)
		return err
	}
	if len(i.batch.Then) == kv.MaxOps || i.size > 0 && i.size+len(value) > batchBytes {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.batch.Then = append(i.batch.Then, kv.Op{Key: to, Value: value, TTL: i.ttl(id)})
	i.size += len(value)
	return nil
}

// within refuses what is beyond the limits of the plane.
func (i *imports) within() error {
	b := bounded{most: i.most}
	return b.over(i.done.Objects, i.done.Bytes)
}

// flush writes the batch.
func (i *imports) flush(ctx context.Context) error {
	if len(i.batch.Then) == 0 {
		return nil
	}
	i.batch.If = i.still
	done, err := i.on.DB.Commit(ctx, i.batch)
	if errors.Is(err, kv.ErrTooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s is larger than this server can store",
			strings.TrimPrefix(i.batch.Then[0].Key, i.h.prefix()+"/")))
	}
	if err != nil {
		return err
	}
	if !done.Held {
		return i.overtaken()
	}
	i.batch.Then, i.size = nil, 0
	return nil
}

// finish keeps the keys, and puts the mark that all is there.
func (i *imports) finish(ctx context.Context, set pki.Shared) error {
	if err := i.putMark(ctx); err != nil { // what another import has kept must stay
		return err
	}
	p := Plane{}
	p.Name, p.UID = i.h.name, i.h.uid
	if err := i.removeSecret(ctx, i.h, keysSecret(p.Name)); err != nil { // of an import that did not come to its end
		return err
	}
	if set != nil {
		if err := i.root.Do(ctx, http.MethodPost, secretsPath, "application/json", i.secret(&p, keysSecret(p.Name), keysType, set), new(corev1.Secret)); err != nil {
			return fmt.Errorf("keep the keys of the plane: %w", err)
		}
	}
	i.mark.Done = true
	if err := i.putMark(ctx); err != nil {
		return err
	}
	i.done.Revision = i.mark.at + i.mark.Shift
	return nil
}

// tell answers once the plane is ready. If that takes long, it is so later.
func (i *imports) tell(w http.ResponseWriter, r *http.Request) error {
	i.queue.AddAfter(i.h.name, 0)
	select {
	case <-i.h.made:
	case <-i.on.Clock.After(bootTimeout):
	case <-r.Context().Done():
	}
	text, err := json.Marshal(i.done)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(text)
	return err
}

// removeMark removes the mark of a plane, so that no import of it can write any more.
func (f *Fleet) removeMark(ctx context.Context, uid types.UID) error {
	_, err := f.on.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Delete: true, Key: importsPrefix + string(uid)}}})
	return err
}

// sweepMarks removes the marks of planes that are gone.
func (f *Fleet) sweepMarks(ctx context.Context) error {
	var all []types.UID
	_, err := f.on.DB.Range(ctx, kv.Range{Key: importsPrefix, End: kv.PrefixEnd(importsPrefix)}, func(k kv.KeyValue) bool {
		all = append(all, types.UID(strings.TrimPrefix(string(k.Key), importsPrefix)))
		return true
	})
	for _, uid := range all {
		if err != nil {
			return err
		}
		var exists bool
		if exists, err = f.exists(ctx, uid); err == nil && !exists {
			err = f.removeMark(ctx, uid)
		}
	}
	return err
}
