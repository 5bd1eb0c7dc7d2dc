package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Member is a member of an etcd cluster.
type Member struct {
	ID                   uint64
	Name                 string // empty: it has not started yet
	PeerURLs, ClientURLs []string
	// Learner: it follows, and has no vote yet.
	Learner bool
}

// Members returns the members of the cluster.
func (d *DB) Members(ctx context.Context) ([]Member, error) {
	r, err := d.Client.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	var out []Member
	for _, m := range r.Members {
		out = append(out, Member{m.ID, m.Name, m.PeerURLs, m.ClientURLs, m.IsLearner})
	}
	return out, nil
}

// AddLearner adds a member without a vote: a member that never starts takes no quorum away.
func (d *DB) AddLearner(ctx context.Context, peerURLs []string) error {
	_, err := d.Client.MemberAddAsLearner(ctx, peerURLs)
	return err
}

// promoteAgain is the pause between attempts to promote.
const promoteAgain = 200 * time.Millisecond

// Promote gives a learner its vote, once it has what the leader has.
func (d *DB) Promote(ctx context.Context, name string) error {
	var last error
	for {
		m, err := d.Member(ctx, name)
		if err == nil && !m.Learner {
			return nil
		}
		if err == nil {
			if _, err = d.Client.MemberPromote(ctx, m.ID); err == nil {
				return nil
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(promoteAgain):
		case <-ctx.Done():
			return fmt.Errorf("member %s: %w", name, errors.Join(last, ctx.Err()))
		}
	}
}

// Remove removes a member.
func (d *DB) Remove(ctx context.Context, name string) error {
	m, err := d.Member(ctx, name)
	if err != nil {
		return err
	}
	_, err = d.Client.MemberRemove(ctx, m.ID)
	return err
}

// Member finds a member by its name, its ID or one of its peer URLs.
func (d *DB) Member(ctx context.Context, name string) (Member, error) {
	all, err := d.Members(ctx)
	if err != nil {
		return Member{}, err
	}
	for _, m := range all {
		if m.Name == name || fmt.Sprintf("%x", m.ID) == strings.ToLower(name) || slices.Contains(m.PeerURLs, name) {
			return m, nil
		}
	}
	return Member{}, fmt.Errorf("no member is named %s (one that has not started is known by its URL or ID)", name)
}
