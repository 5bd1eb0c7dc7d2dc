package rbac

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
)

// subject is a user or group as named by the bindings of one namespace; the namespace of cluster role bindings is
// empty.
type subject struct {
	namespace string
	group     bool
	name      string
}

// shards is large enough that a change copies only a small part of a large table.
const shards = 256

// who is a user or group, wherever bindings name it.
type who struct {
	group bool
	name  string
}

// table maps subjects to their grants. A published table is immutable: a copy of it shares the shards, and add and
// remove replace those that they touch.
type table struct {
	grants [shards]map[subject][]*grant
	// places are the namespaces of each user's and group's role bindings, one for each grant.
	places [shards]map[who][]string
}

// seed selects the shard of a subject. All tables of a process use the same one, because they may share shards.
var seed = maphash.MakeSeed()

func shardOf[K comparable](k K) int {
	return int(maphash.Comparable(seed, k) % shards)
}

// replace returns a copy of a shard that has other values for a key.
func replace[K comparable, V any](shard map[K][]V, k K, values []V) map[K][]V {
	next := maps.Clone(shard)
	if next == nil {
		next = map[K][]V{}
	}
	if next[k] = values; len(values) == 0 {
		delete(next, k)
	}
	return next
}

func (t *table) add(s subject, g *grant) {
	i := shardOf(s)
	t.grants[i] = replace(t.grants[i], s, append(slices.Clip(t.grants[i][s]), g))
	if s.namespace == "" {
		return
	}
	w := who{s.group, s.name}
	i = shardOf(w)
	t.places[i] = replace(t.places[i], w, append(slices.Clip(t.places[i][w]), s.namespace))
}

// remove removes a subject's grants of a binding.
func (t *table) remove(s subject, b *binding) {
	i := shardOf(s)
	var rest []*grant
	for _, g := range t.grants[i][s] {
		if g.binding != b {
			rest = append(rest, g)
		}
	}
	gone := len(t.grants[i][s]) - len(rest)
	t.grants[i] = replace(t.grants[i], s, rest)
	if s.namespace == "" {
		return
	}
	w := who{s.group, s.name}
	i = shardOf(w)
	places := slices.Clone(t.places[i][w])
	for range gone {
		n := slices.Index(places, s.namespace)
		places = slices.Delete(places, n, n+1)
	}
	t.places[i] = replace(t.places[i], w, places)
}

// of yields a user's grants: cluster-wide ones and, if the namespace is not empty, those in it.
func (t *table) of(u user.Info, namespace string) iter.Seq[*grant] {
	return func(yield func(*grant) bool) {
		_ = t.visit(u, "", yield) && namespace != "" && t.visit(u, namespace, yield)
	}
}

func (t *table) visit(u user.Info, namespace string, yield func(*grant) bool) bool {
	s := subject{namespace: namespace, name: u.GetName()}
	for _, g := range t.grants[shardOf(s)][s] {
		if !yield(g) {
			return false
		}
	}
	s.group = true
	for _, s.name = range u.GetGroups() {
		for _, g := range t.grants[shardOf(s)][s] {
			if !yield(g) {
				return false
			}
		}
	}
	return true
}

// namespaces yields each namespace with a role binding for a user, some more than once.
func (t *table) namespaces(u user.Info) iter.Seq[string] {
	return func(yield func(string) bool) {
		w := who{name: u.GetName()}
		for _, namespace := range t.places[shardOf(w)][w] {
			if !yield(namespace) {
				return
			}
		}
		w.group = true
		for _, w.name = range u.GetGroups() {
			for _, namespace := range t.places[shardOf(w)][w] {
				if !yield(namespace) {
					return
				}
			}
		}
	}
}
