// Package forked says what a fork of a control plane holds, in the words of what is served: the log of the fork knows keys only.
package forked

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/bundle"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/fork"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Contents are the objects of a fork.
type Contents struct {
	// Log is where they are, with a prefix.
	Log    *fork.DB
	Prefix string
	// Objects are those that the fork serves; nil: it is stopped.
	Objects func() *catalog.Raw
}

// Since is the revision that it began with.
func (c *Contents) Since() int64 { return c.Log.Cut().Rev }

// Changes are the objects that were written since it was made. The fork must run.
func (c *Contents) Changes() (out []bundlev1.Other) {
	for _, change := range c.Written() {
		out = append(out, change.Other)
	}
	return out
}

// Written is Changes, with what was written.
func (c *Contents) Written() (out []bundle.Change) {
	ops, _ := c.Log.Written()
	objects := c.Objects()
	if objects == nil {
		return nil
	}
	for _, op := range ops {
		r, namespace, name := objects.At(strings.TrimPrefix(op.Key, c.Prefix))
		if r == nil {
			continue // bookkeeping of the server
		}
		change := changeOf(r, namespace, name)
		change.Value = op.Value
		if asked := c.Log.Asked(op.Key); asked.About == r.String() {
			change.Asked = asked.N
		}
		if _, was := c.Log.Cut().Get(op.Key); op.Delete {
			change.Result = bundlev1.Deleted
		} else if !was {
			change.Result = bundlev1.Created
		}
		out = append(out, change)
	}
	return out
}

// changeOf is the change of an object of a resource.
func changeOf(r *catalog.Resource, namespace, name string) bundle.Change {
	c := bundle.Change{Other: bundlev1.Other{Group: r.Group, Resource: r.Resource, Namespace: namespace, Name: name, Result: bundlev1.Changed}, Kind: r.Kind}
	if len(r.Versions) > 0 {
		c.Version = r.Versions[0]
	}
	if d := r.Described(c.Version); d != nil {
		c.StatusApart = slices.ContainsFunc(d.Subresources, func(s *engine.Subresource) bool { return s.Name == "status" })
	}
	return c
}

// Apart is part of bundle.Fork.
func (c *Contents) Apart(from *store.Cut, of schema.GroupResource, namespace string) (out []bundle.Change) {
	objects := c.Objects()
	if objects == nil {
		return nil
	}
	for r := range objects.Now().All() {
		prefix := r.Prefix()
		if prefix == "" || namespace != "" && !r.Namespaced || of.Resource != "" && of != r.GroupResource {
			continue
		}
		prefix = c.Prefix + prefix
		if namespace != "" {
			prefix += namespace + "/"
		}
		was := map[string]int64{}
		below(from, prefix, func(k kv.KeyValue) { was[string(k.Key)] = k.ModRevision })
		below(c.Log.Cut(), prefix, func(k kv.KeyValue) {
			if was[string(k.Key)] == k.ModRevision {
				return
			}
			if r, namespace, name := objects.At(strings.TrimPrefix(string(k.Key), c.Prefix)); r != nil {
				out = append(out, changeOf(r, namespace, name))
			}
		})
	}
	return out
}

// below passes on the keys of a cut that begin so.
func below(cut *store.Cut, prefix string, yield func(kv.KeyValue)) {
	cut.Ascend(prefix, func(k kv.KeyValue) bool {
		if !strings.HasPrefix(string(k.Key), prefix) {
			return false
		}
		yield(k)
		return true
	})
}

// Fields is part of bundle.Fork.
func (c *Contents) Fields(kind schema.GroupVersionKind) *typed.ParseableType {
	objects := c.Objects()
	if objects == nil {
		return nil
	}
	for _, r := range objects.Now().Kind(kind) {
		if ep, err := r.Endpoint(kind.Version); err == nil {
			return ep.Fields()
		}
	}
	return nil
}

// Find is part of bundle.Fork.
func (c *Contents) Find(kind schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool) {
	objects := c.Objects()
	if objects == nil {
		return gvr, false, false
	}
	for _, r := range objects.Now().Kind(kind) {
		return r.WithVersion(kind.Version), r.Namespaced, true
	}
	return gvr, false, false
}
