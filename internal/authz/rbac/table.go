package rbac

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
)

// subject is a user or group, as far as one namespace's bindings name it; the
// namespace of cluster role bindings is empty.
type subject struct {
	namespace string
	group     bool
	name      string
}

// shards are enough that a change copies few entries of a large table.
const shards = 256

// table leads from subjects to their grants. A table in use does not change:
// a copy of it shares the shards, and add and remove replace the one shard
// they touch.
type table [shards]map[subject][]*grant

// seed of the placement in shards. It is the same for all tables of a
// process, which may share shards.
var seed = maphash.MakeSeed()

func shardOf(s subject) int {
	return int(maphash.Comparable(seed, s) % shards)
}

func (t *table) add(s subject, g *grant) {
	i := shardOf(s)
	next := maps.Clone(t[i])
	if next == nil {
		next = map[subject][]*grant{}
	}
	next[s] = append(slices.Clip(next[s]), g)
	t[i] = next
}

// remove takes away a subject's grants of a binding.
func (t *table) remove(s subject, b *binding) {
	i := shardOf(s)
	var rest []*grant
	for _, g := range t[i][s] {
		if g.binding != b {
			rest = append(rest, g)
		}
	}
	next := maps.Clone(t[i])
	if len(rest) == 0 {
		delete(next, s)
	} else {
		next[s] = rest
	}
	t[i] = next
}

// grants are what a user has, cluster-wide and, if the namespace is not
// empty, in it.
func (t *table) grants(u user.Info, namespace string) iter.Seq[*grant] {
	return func(yield func(*grant) bool) {
		_ = t.visit(u, "", yield) && namespace != "" && t.visit(u, namespace, yield)
	}
}

func (t *table) visit(u user.Info, namespace string, yield func(*grant) bool) bool {
	s := subject{namespace: namespace, name: u.GetName()}
	for _, g := range t[shardOf(s)][s] {
		if !yield(g) {
			return false
		}
	}
	s.group = true
	for _, s.name = range u.GetGroups() {
		for _, g := range t[shardOf(s)][s] {
			if !yield(g) {
				return false
			}
		}
	}
	return true
}
