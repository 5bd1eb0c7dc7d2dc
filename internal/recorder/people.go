package recorder

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
)

// maxPeople bounds the users whose groups are known. Who comes later is not.
const maxPeople = 2000

// maxGroups bounds the groups of a user.
const maxGroups = 64

// people are the groups with which users were seen: a certificate or token says them, and nothing else does.
type people struct {
	mu     sync.Mutex
	groups map[string][]string // guarded by mu
}

// saw notes the groups of a user. Most have the same ones as before.
func (p *people) saw(u user.Info) {
	if u == nil || u.GetName() == user.Anonymous {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.groups[u.GetName()]
	if ok && slices.Equal(known, u.GetGroups()) || !ok && len(p.groups) >= maxPeople || len(u.GetGroups()) > maxGroups {
		return
	}
	var groups []string
	for _, g := range u.GetGroups() {
		groups = append(groups, shared(g, maxUser))
	}
	p.groups[text(u.GetName(), maxUser)] = groups
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
