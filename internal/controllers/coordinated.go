package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// This file elects the leaders of components that leave that to the API server: each instance writes a LeaseCandidate for a
// lease, and the best one becomes the holder of the lease. It is asked (pingTime) whether it still lives, and answers by
// renewing its candidate (renewTime). A holder gives its lease up when the lease prefers another one.

// The times are kube-apiserver's.
const (
	// electionTime is how long candidates have to answer, and for how long an answer counts.
	electionTime = 5 * time.Second
	electedFor   = 5 * time.Second // until the leader has renewed its lease
	lookAgain    = 5 * time.Second // leases expire without a change
	// candidateLife is after how long a candidate that was not renewed is no more. Half of it causes an election, in which all
	// are renewed that live.
	candidateLife = 30 * time.Minute
)

// elector elects the holders of leases.
type elector struct {
	Config
	client             *inprocess.Client
	of, to             *engine.Endpoint
	candidates         *store.Index[*coordinationv1beta1.LeaseCandidate]
	leases             *store.Index[*coordinationv1.Lease]
	candidateT, leaseT inprocess.Target
}

// RunCoordinated elects leaders by their candidates until ctx ends, on the server that by leads. Without candidates in v1beta1 it
// does nothing, as kube-apiserver.
func RunCoordinated(ctx context.Context, c Config, client *inprocess.Client, by *Election) {
	e := &elector{Config: c, client: client}
	for _, ep := range c.Endpoints() {
		switch ep.GVR {
		case coordinationv1beta1.SchemeGroupVersion.WithResource("leasecandidates"):
			e.of = ep
		case coordinationv1.SchemeGroupVersion.WithResource("leases"):
			e.to = ep
		}
	}
	if e.of == nil || e.to == nil {
		c.Log.Warn("no leaders are elected, because leasecandidates of coordination.k8s.io/v1beta1 are not served")
		return
	}
	e.candidates, e.leases = engine.IndexOf[*coordinationv1beta1.LeaseCandidate](e.of), engine.IndexOf[*coordinationv1.Lease](e.to)
	e.candidateT, e.leaseT = at(e.of, ""), at(e.to, "")
	by.Lead(ctx, func(ctx context.Context) {
		c.Guard.Keep(ctx, "coordinated leader election", e.run)
	})
}

func (e *elector) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.collect(ctx)
	}()
	concerned := func(c store.Change[*coordinationv1beta1.LeaseCandidate]) (string, bool) {
		l, ok := c.Now, c.Now != nil
		if !ok {
			l, ok = c.Was(ctx)
		}
		if !ok {
			return "", false
		}
		// One that was asked and has not answered is in an election already.
		asked := l.Spec.PingTime != nil && (l.Spec.RenewTime == nil || l.Spec.RenewTime.Before(l.Spec.PingTime))
		return l.Namespace + "/" + l.Spec.LeaseName, !asked
	}
	e.work(ctx, "leader-election-controller", e.look, follow(e.candidates, concerned),
		follow(e.leases, func(c store.Change[*coordinationv1.Lease]) (string, bool) { return c.Key, true }))
	<-done
}

// look does the next step of the election for a lease, if one is needed.
func (e *elector) look(ctx context.Context, key string) (again time.Duration, err error) {
	candidates, err := e.living(ctx, key)
	if err != nil || len(candidates) == 0 {
		return 0, err
	}
	lease, exists, err := get(ctx, e.leases, key)
	if err != nil {
		return 0, err
	}
	if !exists {
		lease = nil
	}
	now := e.Clock.Now()
	if needed, err := electionNeeded(lease, candidates, now); err != nil || !needed {
		return lookAgain, err
	}
	var waiting bool
	for _, c := range candidates {
		switch answerOf(c, now) {
		case awaited:
			waiting = true
		case unasked:
			waiting = true
			c = c.DeepCopy()
			c.Spec.PingTime = &metav1.MicroTime{Time: now}
			if _, err := e.client.Update(ctx, e.candidateT, request.Unchanged(c), c); err != nil {
				return 0, err
			}
		}
	}
	if waiting {
		return lookAgain, nil
	}
	return lookAgain, e.elect(ctx, key, lease, candidates, now)
}

// living returns the candidates for a lease that are not too old.
func (e *elector) living(ctx context.Context, key string) ([]*coordinationv1beta1.LeaseCandidate, error) {
	namespace, name := split(key)
	all, err := e.candidates.Objects(ctx, namespace+"/")
	if err != nil {
		return nil, err
	}
	var out []*coordinationv1beta1.LeaseCandidate
	for _, c := range all {
		if c.Spec.LeaseName == name && !tooOld(c, e.Clock.Now()) {
			out = append(out, c)
		}
	}
	return out, nil
}

// elect writes the best of the candidates that have answered into the lease.
func (e *elector) elect(ctx context.Context, key string, lease *coordinationv1.Lease, candidates []*coordinationv1beta1.LeaseCandidate, now time.Time) error {
	var present []*coordinationv1beta1.LeaseCandidate
	for _, c := range candidates {
		if answerOf(c, now) == given {
			present = append(present, c)
		}
	}
	if len(present) == 0 {
		return fmt.Errorf("elect a leader for lease %s: no candidate answers", key)
	}
	strategy, err := strategyOf(present)
	if err != nil {
		return err
	}
	holder := "" // another controller knows the strategy
	if strategy == coordinationv1.OldestEmulationVersion {
		if best := oldest(present); best != nil {
			holder = best.Name
		} else {
			return errors.New("no candidate has valid versions")
		}
	}
	if lease == nil {
		namespace, name := split(key)
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		hold(lease, holder, strategy, now)
		_, err := e.client.Create(ctx, in(e.to, namespace), lease)
		return err
	}
	lease = lease.DeepCopy()
	if !hold(lease, holder, strategy, now) {
		return nil
	}
	_, err = e.client.Update(ctx, e.leaseT, request.Unchanged(lease), lease)
	return err
}

// hold makes a candidate the holder of a lease that nobody holds, and otherwise the preferred holder. It reports a change.
func hold(l *coordinationv1.Lease, holder string, strategy coordinationv1.CoordinatedLeaseStrategy, now time.Time) bool {
	s := &l.Spec
	was := holderOf(l)
	changed := s.Strategy == nil || *s.Strategy != strategy
	s.Strategy = &strategy
	seconds, renewed := int32(electedFor/time.Second), metav1.NewMicroTime(now)
	switch {
	case l.ResourceVersion == "": // a new one
		s.LeaseDurationSeconds, s.RenewTime = &seconds, &renewed
		if holder != "" {
			s.HolderIdentity = &holder
		}
	case holder == "":
		return changed
	case was == "", expired(l, now) && was != holder:
		s.PreferredHolder, s.AcquireTime = nil, nil
		s.HolderIdentity, s.RenewTime, s.LeaseDurationSeconds = &holder, &renewed, &seconds
	case was != holder && (s.PreferredHolder == nil || *s.PreferredHolder != holder):
		s.PreferredHolder = &holder
	default:
		return changed
	}
	return true
}

// collect deletes candidates that are too old, until ctx ends.
func (e *elector) collect(ctx context.Context) {
	for {
		all, err := e.candidates.Objects(ctx, "")
		for _, c := range all {
			if tooOld(c, e.Clock.Now()) {
				err = errors.Join(err, ignoreMissing(e.client.Delete(ctx, e.candidateT, request.Unchanged(c), nil)))
			}
		}
		if err != nil && ctx.Err() == nil {
			e.Log.Debug("could not delete old lease candidates", "error", err)
		}
		select {
		case <-e.Clock.After(candidateLife):
		case <-ctx.Done():
			return
		}
	}
}
