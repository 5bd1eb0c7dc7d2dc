package kubernetesservice

import (
	"context"
	"net"
	"slices"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Count is a Roster without leases: every server adds itself to the endpoints. If these are more than the number of
// servers, it removes the ones behind itself, which may be of servers that are gone. All servers must have the same
// number.
type Count struct {
	servers int
	ip      string
	joined  bool
}

// NewRoster returns the roster of a kind (--endpoint-reconciler-type); nil: there is none, or the address of this server is not for endpoints,
// which must not have loopback addresses.
func NewRoster(kind string, e *engine.Engine, address net.IP, servers int) (Roster, error) {
	switch {
	case address == nil || address.IsLoopback():
	case kind == "lease":
		return NewLeases(e, address)
	case kind == "master-count":
		return NewCount(servers, address), nil
	}
	return nil, nil
}

// NewCount creates the roster for one of a number of servers, which has the given address.
func NewCount(servers int, address net.IP) *Count {
	return &Count{servers: servers, ip: address.String()}
}

// Join is part of Roster.
func (c *Count) Join(context.Context) error { c.joined = true; return nil }

// Leave is part of Roster.
func (c *Count) Leave(context.Context) error { c.joined = false; return nil }

// Addresses is part of Roster.
func (c *Count) Addresses(_ context.Context, have []string) ([]string, error) {
	out := slices.DeleteFunc(slices.Clone(have), func(a string) bool { return a == c.ip })
	if !c.joined {
		return out, nil
	}
	out = append(out, c.ip)
	slices.Sort(out)
	for len(out) > c.servers {
		behind := (slices.Index(out, c.ip) + 1) % len(out)
		out = slices.Delete(out, behind, behind+1)
	}
	return out, nil
}

// Follow is part of Roster. Without leases, it never learns that a server has left.
func (c *Count) Follow(ctx context.Context, _ func()) { <-ctx.Done() }
