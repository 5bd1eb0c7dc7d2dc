package planes

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// This file makes each Plane what it is to be, and its status what it is.

//go:embed definitions.yaml
var definitions []byte

// define makes the definitions of the kinds and the namespace of the secrets, and waits until the kinds are served.
func (f *Fleet) define(ctx context.Context) error {
	for _, document := range bytes.Split(definitions, []byte("\n---\n")) {
		var d struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &d); err != nil {
			return err
		}
		path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + d.Metadata.Name + "?force=true&fieldManager=" + agent
		if err := f.root.Do(ctx, http.MethodPatch, path, apiclient.ApplyPatch, document, nil); err != nil {
			return fmt.Errorf("define %s: %w", d.Metadata.Name, err)
		}
	}
	for _, path := range []string{planesPath, templatesPath} {
		for f.root.Do(ctx, http.MethodGet, strings.TrimSuffix(path, "/")+"?limit=1", "", nil, nil) != nil {
			if err := f.pause(ctx); err != nil {
				return err
			}
		}
	}
	if err := f.root.create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}); err != nil {
		return fmt.Errorf("create the namespace %s: %w", Namespace, err)
	}
	return nil
}

// settled reports whether there is nothing to do for a Plane.
func (f *Fleet) settled(p *Plane, h *hosted) bool {
	return p.DeletionTimestamp == nil && slices.Contains(p.Finalizers, finalizer) && made(p) && f.placed(p) && f.judged(h, p) &&
		(!f.tells(h, p) || p.Status.State == f.state(h) && p.Status.server() == f.serverOf(h) && !h.isUntold())
}

// state is what the status says a plane is.
func (f *Fleet) state(h *hosted) string {
	switch {
	case h.awake():
		return awake
	}
	return asleep
}

// address is the URL of a plane.
func (f *Fleet) address(name string) string { return f.url + pathPrefix + name }

// placed reports whether a plane's URL is right: its kubeconfig has it. Of several servers the first one says it.
func (f *Fleet) placed(p *Plane) bool {
	return p.Status.URL == f.address(p.Name) || !f.on.Embedded() && p.Status.URL != ""
}

// keep makes one Plane what it is to be.
func (f *Fleet) keep(ctx context.Context, name string) error {
	var p Plane
	err := f.root.Do(ctx, http.MethodGet, planesPath+"/"+name, "", nil, &p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	h := f.find(name)
	if h == nil || h.uid != p.UID {
		return fmt.Errorf("the watch has not told of plane %s yet", name)
	}
	switch {
	case p.DeletionTimestamp != nil:
		return f.remove(ctx, h, &p)
	case f.settled(&p, h):
		return nil
	case f.leaves(&p):
		f.queue.AddAfter(name, makes)
		return nil
	case !slices.Contains(p.Finalizers, finalizer):
		if err := f.mark(ctx, &p, append(p.Finalizers, finalizer)); err != nil {
			return err
		}
	}
	if err := f.tell(ctx, h, &p, f.ensure(ctx, h, &p)); err != nil {
		if errors.Is(err, errAwaitsImport) {
			return nil // the import tells
		}
		return err
	}
	h.complete() // not before its status tells of its base
	return nil
}

// ensure makes what belongs to a plane, if it was not made before, and renews what ends.
func (f *Fleet) ensure(ctx context.Context, h *hosted, p *Plane) error {
	if made(p) && f.placed(p) {
		return f.renew(ctx, h, p)
	}
	if p.Spec.Imported {
		if m, err := f.importMarkOf(ctx, p.UID); err != nil || !m.Done {
			return cmp.Or(err, errAwaitsImport)
		}
	}
	if err := f.assign(ctx, h, p); err != nil {
		return err
	}
	set, err := f.keysOf(ctx, h)
	if apierrors.IsNotFound(err) {
		set, err = f.makeKeys(ctx, p)
	}
	if err != nil {
		return err
	}
	if err := f.writeKubeconfig(ctx, p, set); err != nil {
		return err
	}
	t, err := f.templateOf(ctx, p)
	if err != nil {
		return err
	}
	if err := f.found(ctx, h, p, t); err != nil {
		return err
	}
	return f.furnish(ctx, h, p, t)
}

// found gives a plane of which nothing is stored its base.
func (f *Fleet) found(ctx context.Context, h *hosted, p *Plane, t *template) error {
	if p.Status.Base != "" || p.Spec.Imported {
		return nil
	}
	c, err := f.answering(h.lying())
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, classPatience)
	defer cancel()
	a, err := c.db.Range(within, kv.Range{Key: h.prefix() + "/", End: kv.PrefixEnd(h.prefix() + "/"), CountOnly: true}, nil)
	if err != nil || a.Count > 0 {
		return err
	}
	b, err := f.baseFor(ctx, t)
	if err != nil || b == nil {
		return err
	}
	p.Status.Base = b.ID
	h.begin(p)
	h.mu.Lock()
	h.furnished = true // by its base
	h.mu.Unlock()
	return nil
}

// furnish applies what a template has for this plane alone.
func (f *Fleet) furnish(ctx context.Context, h *hosted, p *Plane, t *template) error {
	objects, err := t.filled(p.Spec.Parameters)
	if p.Status.Base == "" {
		objects = append(t.same, objects...)
	}
	if err != nil || len(objects) == 0 {
		return err
	}
	// Its base must be known before anything is stored on it.
	if err := f.tell(ctx, h, p, errFurnishing); err != nil && !errors.Is(err, errFurnishing) {
		return err
	}
	return t.apply(ctx, f, through(f.Transport(h.name, controlplane.Itself())), objects)
}

// errFurnishing is why a plane is not ready while its template is applied.
var errFurnishing = errors.New("the objects of the template are being applied")

// mark sets the finalizers of a Plane as it was seen.
func (f *Fleet) mark(ctx context.Context, p *Plane, finalizers []string) error {
	patch := map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": p.ResourceVersion, "uid": p.UID}}
	return f.root.Do(ctx, http.MethodPatch, planesPath+"/"+p.Name, apiclient.MergePatch, patch, p)
}

// tell writes the status; failure is why the plane is not ready, nil if it is.
func (f *Fleet) tell(ctx context.Context, h *hosted, p *Plane, failure error) error {
	before, _ := json.Marshal(p.Status)
	if !f.placed(p) {
		p.Status.URL = f.address(p.Name)
	}
	p.Status.Kubeconfig = kubeconfigSecret(p.Name)
	if f.judges(h) {
		f.tellStorage(h, p)
	}
	if f.tells(h, p) {
		p.Status.State, p.Status.Server, p.Status.Wakes = f.state(h), nil, nil
		if h.isFurnished() {
			p.Status.FirstObjects = f.firstObjects()
		}
		if server := f.serverOf(h); server != "" {
			p.Status.Server = &server
		}
		if p.Status.State == asleep {
			p.Status.Wakes = h.wakesAt()
		}
		if err := f.describe(ctx, h, p); err != nil {
			return err
		}
	}
	var was *metav1.Condition
	if is := meta.FindStatusCondition(p.Status.Conditions, ready); is != nil {
		was = is.DeepCopy()
	}
	condition := f.readiness(h, p, failure)
	if errors.Is(failure, errAwaitsImport) {
		condition.Reason = "AwaitsImport"
	}
	condition.LastTransitionTime = metav1.NewTime(f.on.Clock.Now())
	meta.SetStatusCondition(&p.Status.Conditions, condition)
	if after, _ := json.Marshal(p.Status); bytes.Equal(before, after) {
		return failure
	}
	// Another server may tell another part of it: who has seen less than that looks again.
	patch := map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}, "status": p.Status}
	var now Plane
	switch err := f.root.Do(ctx, http.MethodPatch, planesPath+"/"+p.Name+"/status", apiclient.MergePatch, patch, &now); {
	case apierrors.IsNotFound(err):
		return failure
	case err != nil:
		return err
	}
	p.ResourceVersion = now.ResourceVersion
	f.turned(h, was, p)
	return failure
}

// remove stops a plane that is being deleted, removes all that is stored of it, and lets its object go.
func (f *Fleet) remove(ctx context.Context, h *hosted, p *Plane) error {
	if !slices.Contains(p.Finalizers, finalizer) {
		return nil
	}
	f.logged(h, h.stop(owners.Asleep()))
	if err := f.eraseAll(ctx, h); err != nil {
		return fmt.Errorf("remove what is stored of plane %s: %w", h.name, err)
	}
	for _, secret := range []string{keysSecret(h.name), kubeconfigSecret(h.name)} {
		if err := f.removeSecret(ctx, h, secret); err != nil {
			return err
		}
	}
	err := f.mark(ctx, p, slices.DeleteFunc(slices.Clone(p.Finalizers), func(s string) bool { return s == finalizer }))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// eraseAll deletes all that is stored of a plane, after it has made sure that no server and no import can write any more.
func (f *Fleet) eraseAll(ctx context.Context, h *hosted) error {
	if o := f.owners.Load(); o != nil {
		if err := o.End(ctx, h.uid); err != nil {
			return err
		}
		defer func() { _ = o.Forget(ctx, h.uid) }() // what is left is swept with the next start
	}
	if h.isImported() {
		if err := f.removeMark(ctx, h.uid); err != nil {
			return err
		}
	}
	return f.eraseStored(ctx, h.uid)
}

// erase deletes all keys with a prefix.
func (f *Fleet) erase(ctx context.Context, prefix string) error {
	_, err := eraseWhile(ctx, f.on.DB, prefix, nil)
	return err
}

// eraseWhile deletes all keys with a prefix while conditions hold.
func eraseWhile(ctx context.Context, db store.DB, prefix string, still []kv.Condition) (held bool, err error) {
	for {
		batch := kv.Txn{If: still}
		_, err := db.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix), Limit: kv.MaxOps}, func(k kv.KeyValue) bool {
			batch.Then = append(batch.Then, kv.Op{Delete: true, Key: string(k.Key)})
			return len(batch.Then) < kv.MaxOps
		})
		if err != nil || len(batch.Then) == 0 {
			return true, err
		}
		if done, err := db.Commit(ctx, batch); err != nil || !done.Held {
			return false, err
		}
	}
}

// sweep removes what is stored of planes that are gone. It is called when all that exist are known, and looks at what was there then.
func (f *Fleet) sweep(ctx context.Context) {
	for from := Prefix; ; {
		uid := ""
		_, err := f.on.DB.Range(ctx, kv.Range{Key: from, End: kv.PrefixEnd(Prefix), Limit: 1}, func(k kv.KeyValue) bool {
			uid, _, _ = strings.Cut(strings.TrimPrefix(string(k.Key), Prefix), "/")
			return false
		})
		if err != nil {
			return // the next start looks again
		}
		if uid == "" {
			break
		}
		exists, err := f.exists(ctx, types.UID(uid))
		if err == nil && !exists && !strings.HasPrefix(uid, maker) {
			err = f.erase(ctx, Prefix+uid+"/")
		}
		if err != nil {
			return
		}
		from = kv.PrefixEnd(Prefix + uid + "/")
	}
	if err := errors.Join(f.sweepMarks(ctx), f.sweepOwners(ctx)); err != nil && ctx.Err() == nil {
		f.log.Info("marks of imports or owners of planes that are gone are left in the log until the next start", "error", err)
	}
}

// exists reports whether there is a plane of a UID, also one that another server has just created: it is in the root's API before
// anything of it is stored.
func (f *Fleet) exists(ctx context.Context, uid types.UID) (bool, error) {
	if slices.ContainsFunc(f.all(), func(h *hosted) bool { return h.uid == uid }) {
		return true, nil
	}
	var list struct {
		Items []struct {
			metav1.ObjectMeta `json:"metadata"`
		}
	}
	err := f.root.Do(ctx, http.MethodGet, planesPath, "", nil, &list)
	for _, p := range list.Items {
		if p.UID == uid {
			return true, err
		}
	}
	return false, err
}

// usage returns how many keys with a prefix there are, and how large they are together.
func usage(ctx context.Context, db store.DB, prefix string) (objects, size int64, err error) {
	from := prefix
	for {
		n := 0
		_, err = db.Range(ctx, kv.Range{Key: from, End: kv.PrefixEnd(prefix), Limit: 1000}, func(k kv.KeyValue) bool {
			n++
			objects, size = objects+1, size+int64(len(k.Key)+len(k.Value))
			from = kv.After(k.Key)
			return n < 1000
		})
		if err != nil || n < 1000 {
			return objects, size, err
		}
	}
}

// bootTimeout bounds how long a plane may take for its start.
const bootTimeout = time.Minute
