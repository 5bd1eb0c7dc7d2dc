package planes

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/splice"
)

// This file is what exports between planes know of the fleet.

// newExports makes the exports among the planes that lie in one log.
func (f *Fleet) newExports(c *class) *exports.Exports {
	log := f.log
	if c.name != "" {
		log = log.With("class", c.name)
	}
	return exports.New(exports.Config{
		Planes: exporting{f, c}, Place: placeOf(c.name), Others: func() []*exports.Exports { return f.otherExports(c) },
		DB: splice.Values(c.db), Shared: c.name != "", Transformer: f.transformer, Types: f.on.Types, Gates: f.cfg.Gates(),
		Clock: f.on.Clock, Guard: f.guard, Log: log,
	})
}

// otherExports are those of all other logs.
func (f *Fleet) otherExports(than *class) (all []*exports.Exports) {
	for _, c := range f.classes {
		if c != than {
			all = append(all, c.exports)
		}
	}
	return all
}

// tellExports has the exports of storage classes look at a plane.
func (f *Fleet) tellExports(plane string, classes ...string) {
	for _, name := range classes {
		if c := f.classes[name]; c != nil {
			c.exports.Changed(plane)
		}
	}
}

// openEncryption reads how planes encrypt what they store.
func (f *Fleet) openEncryption(ctx context.Context) error {
	if f.cfg.EncryptionConfigFile == "" {
		return nil
	}
	e, err := encryption.New(ctx, encryption.Config{
		File: f.cfg.EncryptionConfigFile, Reload: f.cfg.EncryptionConfigReload, KMSv1: f.cfg.Gates().Enabled(features.KMSv1),
		Server: controlplane.IdentityName(f.on.Hostname()), Registry: prometheus.NewRegistry(), Clock: f.on.Clock, Guard: f.guard, Log: f.log,
	})
	if err != nil {
		return fmt.Errorf("--encryption-provider-config: %w", err)
	}
	f.sealed = e
	return nil
}

// transformer returns how values of a resource are encrypted in planes.
func (f *Fleet) transformer(of schema.GroupResource) store.Transformer {
	if f.sealed == nil {
		return encryption.None{}
	}
	return f.sealed.Transformer(of)
}

// takePart gives a plane its part in exports.
func (f *Fleet) takePart(seams *server.Seams, h *hosted) error {
	kinds, err := exports.Definitions()
	if err != nil {
		return err
	}
	of := h.own.class.exports
	seams.Kinds, seams.Admit, seams.Exports = kinds, of.Guards(h.uid), of.Serve(h.name)
	return nil
}

// exporting is the fleet as the exports of one log see it.
type exporting struct {
	*Fleet
	class *class
}

// List is part of exports.Planes.
func (f exporting) List() []exports.Plane {
	var out []exports.Plane
	for _, h := range f.all() {
		if p, ok := h.exported(f.class.name); ok {
			out = append(out, p)
		}
	}
	return out
}

// Find is part of exports.Planes.
func (f exporting) Find(name string) (exports.Plane, bool) {
	if h := f.find(name); h != nil {
		return h.exported(f.class.name)
	}
	return exports.Plane{}, false
}

// Known is part of exports.Planes.
func (f exporting) Known(uid types.UID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.byUID[uid] != nil
}

// exported returns a plane as the exports of a storage class see it; ok is false if it is being deleted, not all that belongs to it is there
// yet, or it lies elsewhere, as far as this server knows.
func (h *hosted) exported(class string) (_ exports.Plane, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return exports.Plane{Name: h.name, UID: h.uid, Labels: h.labels}, !h.deleted && h.class == class && h.isMade()
}

// Stay is part of exports.Planes. A move replaces the mark of the plane after its record says that it leaves, and before it looks for the
// last time whether bindings are in force (moving.finish): so the mark is read before the record here.
func (f exporting) Stay(ctx context.Context, uid types.UID) (out exports.Stay, err error) {
	mark := int64(0)
	if len(f.classes) > 1 {
		if mark, err = readMark(ctx, f.class.db, uid); err != nil {
			return out, err
		}
	}
	s, err := f.storageOf(ctx, uid)
	switch {
	case err != nil:
		return out, err
	case s.class() != f.class.name || mark == 0 && f.class.name != "":
		return out, exports.ErrElsewhere
	}
	now := s.Stays[len(s.Stays)-1]
	out.By, out.Since = now.By, now.Since
	if len(f.classes) == 1 {
		return out, nil // there is nowhere to go
	}
	out.While = []kv.Condition{{Key: markOf(uid), Is: kv.ModRevision, N: mark}}
	if s.Leaving {
		out.Leaves = "another log"
	}
	f.mu.RLock()
	h := f.byUID[uid]
	f.mu.RUnlock()
	if h != nil && h.restless() {
		out.Leaves = placeOf(h.wantsClass())
	}
	return out, nil
}

// wantsClass is the storage class that the plane is to lie in.
func (h *hosted) wantsClass() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wantedClass
}

// Log is part of exports.Planes.
func (f exporting) Log(ctx context.Context, uid types.UID) (store.DB, string, error) {
	prefix := Prefix + string(uid) + "/"
	f.mu.RLock()
	h := f.byUID[uid]
	f.mu.RUnlock()
	if h == nil {
		return f.class.db, prefix, nil
	}
	h.mu.Lock()
	under := h.under
	h.mu.Unlock()
	under.imported = false // views of many planes have the revisions of the log
	db, err := f.laid(ctx, uid, under, &storage{}, splice.Values(f.class.db))
	return db, prefix, err
}

// Awake is part of exports.Planes.
func (f exporting) Awake(name string) bool {
	h := f.find(name)
	return h != nil && f.isAwake(h)
}

// Transport is part of exports.Planes.
func (f exporting) Transport(name string, u user.Info) http.RoundTripper {
	return f.Fleet.Transport(name, u)
}

// labelled takes up what exports go by, and reports whether it is another than before.
func (h *hosted) labelled(p *Plane) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	deleted := p.DeletionTimestamp != nil
	if h.deleted == deleted && maps.Equal(h.labels, p.Labels) {
		return false
	}
	h.deleted, h.labels = deleted, p.Labels
	return true
}
