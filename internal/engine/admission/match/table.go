package match

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Table holds many Rules and finds those that match a write. It is safe for
// concurrent use.
type Table struct {
	rules []*Rules
	mu    sync.RWMutex
	known map[kind][]Hit // guarded by mu
}

// Hit is a match of one of the table's rules.
type Hit struct {
	// Index of the rules in the table.
	Index int
	// Version is the version in which to present the write.
	Version admission.Version
	named   bool
}

// kind has everything of a write that rules look at, except the object's name.
type kind struct {
	operation   admission.Operation
	resource    schema.GroupVersionResource
	object      schema.GroupVersionKind
	subresource string
	cluster     bool
	// versions is the identity of the resource's list of versions: another
	// definition of a custom resource has another list.
	versions *admission.Version
}

// maxKnown bounds the cached kinds of writes; when there are more, the cache is
// emptied.
const maxKnown = 4096

// NewTable makes a table of rules, whose order it keeps.
func NewTable(rules []*Rules) *Table {
	return &Table{rules: rules, known: map[kind][]Hit{}}
}

// Find returns the rules that match a write, in their order. Callers use those
// that Confirm confirms.
func (t *Table) Find(a *admission.Attributes) []Hit {
	if len(t.rules) == 0 {
		return nil
	}
	k := kind{operation: a.Operation, resource: a.Resource, object: a.Kind, subresource: a.Subresource, cluster: a.Namespace == ""}
	if a.Versions != nil {
		if all := a.Versions.All(a.Subresource); len(all) > 0 {
			k.versions = &all[0]
		}
	}
	t.mu.RLock()
	hits, ok := t.known[k]
	t.mu.RUnlock()
	if ok {
		return hits
	}
	for i, r := range t.rules {
		if r.named() {
			hits = append(hits, Hit{Index: i, named: true})
		} else if v, ok := r.Match(a); ok {
			hits = append(hits, Hit{Index: i, Version: v})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxKnown {
		clear(t.known)
	}
	t.known[k] = hits
	return hits
}

// Confirm checks a hit against the object's name.
func (t *Table) Confirm(h Hit, a *admission.Attributes) (admission.Version, bool) {
	if !h.named {
		return h.Version, true
	}
	return t.rules[h.Index].Match(a)
}
