package recorder

import (
	"slices"
	"strings"
	"sync"
	"unique"

	"k8s.io/apiserver/pkg/authentication/user"
)

// maxPeople bounds the users whose groups are known. A further one takes the place of another: users who send requests are seen again.
const maxPeople = 4096

// maxGroups bounds the groups of a user. A user with more is not known, since some groups would be an answer that is wrong.
const maxGroups = 64

// people are the groups with which users have authenticated: a certificate or token says them, and nothing else does. Impersonation
// does not count, as whoever impersonates a user chooses the groups.
type people struct {
	mu     sync.Mutex
	groups map[string][]string // guarded by mu
}

// saw notes the groups of a user. Most have the same ones as before.
func (p *people) saw(u user.Info) {
	if u == nil || u.GetName() == user.Anonymous || len(u.GetName()) > maxUser {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.groups[u.GetName()]
	if ok && slices.Equal(known, u.GetGroups()) {
		return
	}
	delete(p.groups, u.GetName())
	if len(u.GetGroups()) > maxGroups || slices.ContainsFunc(u.GetGroups(), func(g string) bool { return len(g) > maxUser }) {
		return
	}
	if len(p.groups) >= maxPeople {
		for other := range p.groups {
			delete(p.groups, other)
			break
		}
	}
	groups := make([]string, len(u.GetGroups()))
	for n, g := range u.GetGroups() {
		groups[n] = unique.Make(g).Value()
	}
	p.groups[strings.Clone(u.GetName())] = groups
}

func (p *people) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups[name]
}

// StandardGroups adds the groups that every such user has to those that are known.
func StandardGroups(name string, groups ...string) []string {
	if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
		namespace, _, _ := strings.Cut(rest, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if name == user.Anonymous {
		return append(groups, user.AllUnauthenticated)
	}
	return append(groups, user.AllAuthenticated)
}
