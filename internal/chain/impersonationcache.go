package chain

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// rememberImpersonation is how long an allowed impersonation by a constrained mode is cached. Refusals are not cached.
const rememberImpersonation = 10 * time.Second

// impersonationCache caches allowed impersonations under two keys: one with all attributes of the request, and one for the
// checks that do not depend on the request.
type impersonationCache struct {
	cache.Cache[[sha256.Size]byte, allowedImpersonation]
	clock clock.PassiveClock
}

type allowedImpersonation struct {
	as    *user.DefaultInfo
	until time.Time
}

func (c *impersonationCache) get(key [sha256.Size]byte) *user.DefaultInfo {
	if a := c.Get(key); a != nil && c.clock.Now().Before(a.until) {
		return a.as
	}
	return nil
}

func (c *impersonationCache) put(key [sha256.Size]byte, as *user.DefaultInfo) {
	c.Put(key, &allowedImpersonation{as, c.clock.Now().Add(rememberImpersonation)})
}

// key identifies a decision: by the mode, the asker, the wanted user and, if on is not nil, the request's attributes. In
// the nameless mode it contains no node's name.
func (c *impersonationCheck) key(m impersonationMode, on *authz.Attributes) [sha256.Size]byte {
	asker, wanted := c.asked.User, *c.wanted
	if m.nameless {
		asker, wanted.Name = withoutToken(asker), "system:node:*"
	}
	// JSON is unambiguous and sorts maps. None of these types fails to encode.
	text, _ := json.Marshal(struct {
		Mode   string
		Asker  user.DefaultInfo
		Wanted user.DefaultInfo
		On     *authz.Attributes
	}{m.name, user.DefaultInfo{Name: asker.GetName(), UID: asker.GetUID(), Groups: asker.GetGroups(), Extra: asker.GetExtra()}, wanted, on})
	return sha256.Sum256(text)
}
