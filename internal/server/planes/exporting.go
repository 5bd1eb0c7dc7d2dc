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
	"github.com/kanzen-io/kanzen/internal/store/splice"
)

// This file is what exports between planes know of the fleet.

// newExports makes the exports of a fleet.
func (f *Fleet) newExports() *exports.Exports {
	return exports.New(exports.Config{
		Planes: exporting{f}, DB: splice.Values(f.on.DB), Transformer: f.transformer, Types: f.on.Types, Gates: f.cfg.Gates(),
		Clock: f.on.Clock, Guard: f.guard, Log: f.log,
	})
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
	seams.Kinds, seams.Admit, seams.Exports = kinds, f.exports.Guards(h.uid), f.exports.Serve(h.name)
	if h.own.class.name != "" {
		seams.Admit = append(seams.Admit, exports.Apart()...)
	}
	return nil
}

// exporting is the fleet as exports see it.
type exporting struct{ *Fleet }

// List is part of exports.Planes.
func (f exporting) List() []exports.Plane {
	var out []exports.Plane
	for _, h := range f.all() {
		if p, ok := h.exported(); ok {
			out = append(out, p)
		}
	}
	return out
}

// Find is part of exports.Planes.
func (f exporting) Find(name string) (exports.Plane, bool) {
	if h := f.find(name); h != nil {
		return h.exported()
	}
	return exports.Plane{}, false
}

// Known is part of exports.Planes.
func (f exporting) Known(uid types.UID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.byUID[uid] != nil
}

// exported returns a plane as exports see it; ok is false if it is being deleted, not all that belongs to it is there yet, or it does not lie
// in the log of the root, of which views are made.
func (h *hosted) exported() (_ exports.Plane, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return exports.Plane{Name: h.name, UID: h.uid, Labels: h.labels}, !h.deleted && h.class == "" && h.isMade()
}

// Log is part of exports.Planes.
func (f exporting) Log(ctx context.Context, uid types.UID) (store.DB, string, error) {
	prefix := Prefix + string(uid) + "/"
	f.mu.RLock()
	h := f.byUID[uid]
	f.mu.RUnlock()
	if h == nil {
		return f.on.DB, prefix, nil
	}
	h.mu.Lock()
	under := h.under
	h.mu.Unlock()
	under.imported = false // views of many planes have the revisions of the log
	db, err := f.laid(ctx, uid, under, &storage{}, splice.Values(f.on.DB))
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
