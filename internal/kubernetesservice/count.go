package kubernetesservice

import (
	"context"
	"net"
	"slices"
)

// Count is a Roster without leases: every server adds itself to the endpoints,
// and where these come to more than there are servers, takes off those behind
// itself, as the address of one that is gone may be. All servers must be told
// the same number.
type Count struct {
	servers int
	ip      string
	joined  bool
}

// NewCount makes the roster of one of so many servers, which has an address.
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

// Follow is part of Roster: nothing tells when a server goes.
func (c *Count) Follow(ctx context.Context, _ func()) { <-ctx.Done() }
