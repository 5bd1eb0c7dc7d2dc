package rbac

import (
	"iter"
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

// who is a user or group, wherever bindings name it.
type who struct {
	group bool
	name  string
}

// table maps subjects to their grants. A published table is immutable: a copy of it shares all that add and remove do not replace.
type table struct {
	grants shards[subject, *grant]
	// places are the namespaces of each user's and group's role bindings, one for each grant.
	places shards[who, string]
}

func (t *table) add(s subject, g *grant) {
	t.grants.set(s, append(slices.Clip(t.grants.of(s)), g))
	if s.namespace == "" {
		return
	}
	w := who{s.group, s.name}
	t.places.set(w, append(slices.Clip(t.places.of(w)), s.namespace))
}

// remove removes a subject's grants of a binding.
func (t *table) remove(s subject, b *binding) {
	all := t.grants.of(s)
	var rest []*grant
	for _, g := range all {
		if g.binding != b {
			rest = append(rest, g)
		}
	}
	t.grants.set(s, rest)
	if s.namespace == "" {
		return
	}
	w := who{s.group, s.name}
	places := slices.Clone(t.places.of(w))
	for range len(all) - len(rest) {
		n := slices.Index(places, s.namespace)
		places = slices.Delete(places, n, n+1)
	}
	t.places.set(w, places)
}

// of yields a user's grants: cluster-wide ones and, if the namespace is not empty, those in it.
func (t *table) of(u user.Info, namespace string) iter.Seq[*grant] {
	return func(yield func(*grant) bool) {
		_ = t.visit(u, "", yield) && namespace != "" && t.visit(u, namespace, yield)
	}
}

func (t *table) visit(u user.Info, namespace string, yield func(*grant) bool) bool {
	s := subject{namespace: namespace, name: u.GetName()}
	for _, g := range t.grants.of(s) {
		if !yield(g) {
			return false
		}
	}
	s.group = true
	for _, s.name = range u.GetGroups() {
		for _, g := range t.grants.of(s) {
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
		for _, namespace := range t.places.of(w) {
			if !yield(namespace) {
				return
			}
		}
		w.group = true
		for _, w.name = range u.GetGroups() {
			for _, namespace := range t.places.of(w) {
				if !yield(namespace) {
					return
				}
			}
		}
	}
}
