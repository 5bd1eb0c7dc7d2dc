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

// table maps subjects to their grants. A published table is immutable: a copy of it shares the shards, and add and
// remove replace the one shard they touch.
type table [shards]map[subject][]*grant

// seed selects the shard of a subject. All tables of a process use the same one, because they may share shards.
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

// remove removes a subject's grants of a binding.
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

// grants yields a user's grants: cluster-wide ones and, if the namespace is not empty, those in it.
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
