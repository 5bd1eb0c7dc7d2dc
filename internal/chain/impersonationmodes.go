package chain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// impersonationMode is one set of permissions by which a user may act as
// another. The constrained ones need two: "impersonate:MODE" on the user, and
// "impersonate-on:MODE:VERB" on what is asked for. The legacy one needs
// "impersonate" on the user only, and is always tried last.
type impersonationMode struct {
	name    string // empty: legacy
	applies func(wanted *user.DefaultInfo, asker user.Info) bool
	// alone is the legacy mode where it is the only one (the gate ConstrainedImpersonation is off): the questions to the
	// authorizer, and what it says to a refusal, are those from before the others existed.
	alone bool
	// nameless leaves out of the checks which node it is and what is particular
	// to the asker's token: the permission is for the node one runs on.
	nameless bool
}

// impersonationModes are the modes, and which of them each asker last
// succeeded by. That one is tried first: who acts by the legacy mode pays
// nothing for the others, and is refused in its terms.
type impersonationModes struct {
	all  []impersonationMode
	last cache.Cache[[sha256.Size]byte, int]
}

// anyOf returns the user to be, and by which mode, as metrics call it: the first
// that allows it. The error is
// that of the first mode that was tried.
func (ms *impersonationModes) anyOf(ctx context.Context, c *impersonationCheck) (as *user.DefaultInfo, mode string, err error) {
	var first error
	try := func(n int) *user.DefaultInfo {
		m := ms.all[n]
		if !m.applies(c.wanted, c.asked.User) {
			return nil
		}
		u, err := c.by(ctx, m)
		switch {
		case err == nil:
			request.AuditFrom(ctx).Impersonate(u, m.constraint())
		case first == nil:
			first = err
		}
		return u
	}
	asker := sha256.Sum256([]byte(c.asked.User.GetName()))
	last := ms.last.Get(asker)
	if last != nil {
		if u := try(*last); u != nil {
			return u, ms.all[*last].label(), nil
		}
	}
	for n := range ms.all {
		if last != nil && n == *last {
			continue
		}
		if u := try(n); u != nil {
			ms.last.Put(asker, &n)
			return u, ms.all[n].label(), nil
		}
	}
	return nil, "", first
}

func allImpersonationModes(constrained bool) []impersonationMode {
	legacy := impersonationMode{applies: func(*user.DefaultInfo, user.Info) bool { return true }}
	if !constrained {
		legacy.alone = true
		return []impersonationMode{legacy}
	}
	return []impersonationMode{
		{name: "associated-node", applies: onOwnNode, nameless: true},
		{name: "arbitrary-node", applies: func(w *user.DefaultInfo, _ user.Info) bool { return onlyName(w) && nodeOf(w.Name) != "" }},
		{name: "serviceaccount", applies: func(w *user.DefaultInfo, _ user.Info) bool { return onlyName(w) && isServiceAccount(w.Name) }},
		{name: "user-info", applies: func(w *user.DefaultInfo, _ user.Info) bool { return nodeOf(w.Name) == "" && !isServiceAccount(w.Name) }},
		legacy,
	}
}

// constraint is what an audit event tells of a mode: the verb that allowed it.
func (m impersonationMode) constraint() string {
	if m.name == "" {
		return ""
	}
	return "impersonate:" + m.name
}

// label is what metrics call a mode.
func (m impersonationMode) label() string {
	if m.name == "" {
		return "legacy"
	}
	return m.name
}

// impersonationCheck is one request's wish to act as another.
type impersonationCheck struct {
	authorizer authz.Authorizer
	asked      *authz.Attributes
	wanted     *user.DefaultInfo
	allowed    *impersonationCache
	clock      clock.PassiveClock
	observer   ImpersonationObserver
}

// by returns the user to be by a mode, from memory where a constrained one
// has allowed it a moment ago.
func (c *impersonationCheck) by(ctx context.Context, m impersonationMode) (*user.DefaultInfo, error) {
	if m.name == "" {
		return c.as(ctx, m)
	}
	on := *c.asked
	on.User = nil // who asks is in the key already
	whole := c.key(m, &on)
	if u := c.allowed.get(whole); u != nil {
		return c.named(u), nil
	}
	on.User, on.Verb = c.asked.User, "impersonate-on:"+m.name+":"+on.Verb
	if err := c.may(ctx, m, &on); err != nil {
		return nil, err
	}
	identity := c.key(m, nil)
	u := c.allowed.get(identity)
	if u == nil {
		var err error
		if u, err = c.as(ctx, m); err != nil {
			return nil, err
		}
		c.allowed.put(identity, u)
	}
	c.allowed.put(whole, u)
	return c.named(u), nil
}

// named is a user under the name that is wanted: the nameless mode remembers
// one of them for all nodes.
func (c *impersonationCheck) named(u *user.DefaultInfo) *user.DefaultInfo {
	if u.Name == c.wanted.Name {
		return u
	}
	out := *u
	out.Name = c.wanted.Name
	return &out
}

// as checks all that does not depend on what is asked for.
func (c *impersonationCheck) as(ctx context.Context, m impersonationMode) (*user.DefaultInfo, error) {
	u := *c.wanted
	checks := []func(context.Context, impersonationMode, *user.DefaultInfo) error{c.mayName, c.mayUID, c.mayGroups, c.mayExtra}
	if m.alone {
		checks = []func(context.Context, impersonationMode, *user.DefaultInfo) error{c.mayName, c.mayGroups, c.mayExtra, c.mayUID}
	}
	for _, check := range checks {
		if err := check(ctx, m, &u); err != nil {
			return nil, err
		}
	}
	switch {
	case u.Name == user.Anonymous:
		addGroup(&u, user.AllUnauthenticated)
	case !slices.Contains(u.Groups, user.AllUnauthenticated):
		addGroup(&u, user.AllAuthenticated)
	}
	return &u, nil
}

// mayName checks the name, and adds the groups that follow from it.
func (c *impersonationCheck) mayName(ctx context.Context, m impersonationMode, u *user.DefaultInfo) error {
	a := c.attributes(m, m.identityGroup(), "users", u.Name)
	if node := nodeOf(u.Name); node != "" && m.name != "" {
		a.Resource, a.Name = "nodes", node
		u.Groups = []string{user.NodesGroup}
		if m.nameless {
			a.Name = "*"
		}
	}
	if namespace, name, err := serviceaccount.SplitUsername(u.Name); err == nil {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if len(u.Groups) == 0 {
			u.Groups = serviceaccount.Groups(namespace)
		}
	}
	return c.may(ctx, m, a)
}

func (c *impersonationCheck) mayUID(ctx context.Context, m impersonationMode, _ *user.DefaultInfo) error {
	if c.wanted.UID == "" {
		return nil
	}
	return c.may(ctx, m, c.attributes(m, authenticationv1.GroupName, "uids", c.wanted.UID))
}

// wildcardFrom is from how many values on a constrained mode first asks for
// permission for all of them at once.
const wildcardFrom = 4

func (c *impersonationCheck) mayGroups(ctx context.Context, m impersonationMode, _ *user.DefaultInfo) error {
	a := c.attributes(m, m.identityGroup(), "groups", "")
	if m.name != "" {
		if slices.Contains(c.wanted.Groups, "") {
			return authz.Forbidden(a, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(c.wanted.Groups, user.SystemPrivilegedGroup) {
			a.Name = user.SystemPrivilegedGroup
			return authz.Forbidden(a, "impersonating the system:masters group is not allowed")
		}
		if len(c.wanted.Groups) >= wildcardFrom {
			a.Name = "*"
			if c.may(ctx, m, a) == nil {
				return nil
			}
		}
	}
	for _, a.Name = range c.wanted.Groups {
		if err := c.may(ctx, m, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *impersonationCheck) mayExtra(ctx context.Context, m impersonationMode, _ *user.DefaultInfo) error {
	a := c.attributes(m, authenticationv1.GroupName, "userextras", "")
	extra := c.wanted.Extra
	if m.name != "" {
		if err := validateExtra(extra); err != nil {
			return authz.Forbidden(a, err.Error())
		}
		count := 0 // values; as many keys count as much, since each has one at least
		for _, values := range extra {
			count += len(values)
		}
		if count >= wildcardFrom {
			a.Subresource, a.Name = "*", "*"
			if c.may(ctx, m, a) == nil {
				return nil
			}
		}
	}
	// In order, so that of several refusals it is always the same.
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		a.Subresource = key
		for _, a.Name = range extra[key] {
			if err := c.may(ctx, m, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// identityGroup is the API group of users and groups in a mode's checks.
func (m impersonationMode) identityGroup() string {
	if m.name == "" {
		return ""
	}
	return authenticationv1.GroupName
}

func (c *impersonationCheck) attributes(m impersonationMode, group, resource, name string) *authz.Attributes {
	verb := "impersonate"
	if m.name != "" {
		verb += ":" + m.name
	}
	version := "v1"
	if m.alone && group == "" {
		version = ""
	}
	return &authz.Attributes{
		User: c.asked.User, Verb: verb, IsResource: true,
		Group: group, Version: version, Resource: resource, Name: name,
	}
}

// may asks the authorizer.
func (c *impersonationCheck) may(ctx context.Context, m impersonationMode, a *authz.Attributes) error {
	if m.nameless {
		shared := *a
		shared.User = withoutToken(a.User)
		a = &shared
	}
	began := c.clock.Now()
	decision, reason, err := c.authorizer.Authorize(ctx, a)
	c.observer.ImpersonationAuthorized(m.label(), decision == authz.Allow, c.clock.Since(began))
	switch {
	case decision == authz.Allow:
		return nil
	case m.alone: // the error is nobody's business
	case apierrors.IsForbidden(err):
		return err
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return authz.Forbidden(a, reason)
}

// withoutToken is a service account without the values that differ from one
// of its pods to the next; only what it is bound to is left.
func withoutToken(u user.Info) user.Info {
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(),
		Extra: map[string][]string{
			"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(u.GetExtra())),
		},
	}
}

// onOwnNode says whether a service account wants to act as the node that its
// token is bound to.
func onOwnNode(wanted *user.DefaultInfo, asker user.Info) bool {
	if asker == nil {
		return false
	}
	node := nodeOf(wanted.Name)
	bound := asker.GetExtra()[serviceaccount.NodeNameKey]
	return onlyName(wanted) && node != "" && isServiceAccount(asker.GetName()) && len(bound) == 1 && bound[0] == node
}

func onlyName(u *user.DefaultInfo) bool {
	return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0
}

// nodeOf is the node whose user name it is, empty where it is none's.
func nodeOf(username string) string {
	node, ok := strings.CutPrefix(username, "system:node:")
	if !ok || len(validation.NameIsDNSSubdomain(node, false)) > 0 {
		return ""
	}
	return node
}

func isServiceAccount(username string) bool {
	_, _, err := serviceaccount.SplitUsername(username)
	return err == nil
}

func validateExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		invalid := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate()
		switch values := extra[key]; {
		case key == "":
			return errors.New("impersonating the empty string key in extra is not allowed")
		case invalid != nil:
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", invalid)
		case key != strings.ToLower(key):
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// addGroup adds a group without touching a list that is not ours.
func addGroup(u *user.DefaultInfo, group string) {
	if !slices.Contains(u.Groups, group) {
		u.Groups = append(slices.Clip(u.Groups), group)
	}
}
