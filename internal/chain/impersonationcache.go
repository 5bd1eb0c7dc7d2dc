package chain

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/authn/cache"
	"github.com/kanzen-io/kanzen/internal/authz"
)

// rememberImpersonation is how long an asker may go on acting as another by a
// constrained mode before the authorizer is asked again. Refusals are not
// remembered.
const rememberImpersonation = 10 * time.Second

// impersonationCache remembers whom an asker may act as: for a request with
// all its attributes, and for the part of the checks that does not depend on
// what is asked for.
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

// key is what an answer depends on: the mode, who asks, who is wanted, and
// what is asked for if that counts. For the nameless mode one's own node is
// like any other.
func (c *impersonationCheck) key(m impersonationMode, on *authz.Attributes) [sha256.Size]byte {
	asker, wanted := c.asked.User, *c.wanted
	if m.nameless {
		asker, wanted.Name = withoutToken(asker), "system:node:*"
	}
	// As JSON no two keys run into each other, and maps are in order. None of
	// these types fails to encode.
	text, _ := json.Marshal(struct {
		Mode   string
		Asker  user.DefaultInfo
		Wanted user.DefaultInfo
		On     *authz.Attributes
	}{m.name, user.DefaultInfo{Name: asker.GetName(), UID: asker.GetUID(), Groups: asker.GetGroups(), Extra: asker.GetExtra()}, wanted, on})
	return sha256.Sum256(text)
}
