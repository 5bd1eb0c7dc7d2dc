package recorder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// TestGroups has users authenticate, and others impersonate them with groups that they choose.
func TestGroups(t *testing.T) {
	r, clk := newTest(1 << 20)
	impersonates := func(as *user.DefaultInfo) {
		serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "bob", 200, func(ctx context.Context) { request.Identify(ctx, as) })
	}
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"dev", user.AllAuthenticated}}
	root := &user.DefaultInfo{Name: "alice", Groups: []string{user.SystemPrivilegedGroup}}
	r.people.saw(alice)
	impersonates(root)
	impersonates(&user.DefaultInfo{Name: "carol", Groups: root.Groups})
	if got := r.people.of("alice"); !slices.Equal(got, alice.Groups) {
		t.Errorf("impersonation has changed the groups of a user to %q", got)
	}
	if got := r.people.of("carol"); got != nil {
		t.Errorf("impersonation has given a user the groups %q", got)
	}
}

// TestPeopleAreBounded has more users come than are remembered, with names and groups that are too long.
func TestPeopleAreBounded(t *testing.T) {
	p := people{groups: map[string][]string{}}
	for n := range 2 * maxPeople {
		p.saw(&user.DefaultInfo{Name: fmt.Sprint("user", n), Groups: []string{"g"}})
	}
	if n := len(p.groups); n != maxPeople {
		t.Errorf("%d are remembered", n)
	}
	if got := p.of(fmt.Sprint("user", 2*maxPeople-1)); !slices.Equal(got, []string{"g"}) {
		t.Errorf("the newest has %q", got)
	}
	long := strings.Repeat("x", maxUser+1)
	p.saw(&user.DefaultInfo{Name: long, Groups: []string{"g"}})
	if got := p.of(long); got != nil {
		t.Errorf("a long name has %q", got)
	}
	const name = "grows"
	for _, groups := range [][]string{{long}, slices.Repeat([]string{"g"}, maxGroups+1)} {
		p.saw(&user.DefaultInfo{Name: name, Groups: []string{"g"}})
		p.saw(&user.DefaultInfo{Name: name, Groups: groups})
		if got := p.of(name); got != nil {
			t.Errorf("with groups that do not fit, a user has %q", got)
		}
	}
}
