package controllers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Election elects the server of a cluster that runs the controllers, by a lease
// in kube-system. (client-go's elector would bring a client for every API into
// the binary.)
type Election struct {
	Name     string // of the lease
	Identity string // of this server
	Leases   *engine.Endpoint
	Client   *inprocess.Client
	Clock    clock.Clock
	Log      *slog.Logger
	// Times are the periods of the election; the zero value: those of kube-controller-manager.
	Times ElectionTimes

	// seen is the lease after its last change, with the time of the change by
	// our clock, because the clocks of servers may differ.
	seen   *coordinationv1.Lease
	seenAt time.Time
}

// ElectionTimes are the periods of an election.
type ElectionTimes struct {
	// Lease is how long others wait before they replace a leader that does not renew.
	Lease time.Duration
	// Renew is how long a leader tries to renew before it gives up.
	Renew time.Duration
	// Retry is how often a server tries.
	Retry time.Duration
}

// DefaultElectionTimes are those of kube-controller-manager.
func DefaultElectionTimes() ElectionTimes {
	return ElectionTimes{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second}
}

// Lead runs f while this server is the leader, until ctx ends.
func (e *Election) Lead(ctx context.Context, f func(ctx context.Context)) {
	if e.Times == (ElectionTimes{}) {
		e.Times = DefaultElectionTimes()
	}
	for e.acquire(ctx) {
		e.Log.Info("this server leads", "lease", e.Name)
		leading, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			f(leading)
		}()
		e.keep(ctx, done)
		stop()
		<-done
		if ctx.Err() == nil {
			e.Log.Warn("this server could not renew its lease and does not run the controllers any more")
		}
	}
}

// acquire returns true when this server has become the leader, false if ctx ends.
func (e *Election) acquire(ctx context.Context) bool {
	for ctx.Err() == nil {
		if err := e.take(ctx); err == nil {
			return true
		} else if !errors.Is(err, errLed) && ctx.Err() == nil {
			e.Log.Debug("could not become the leader", "error", err)
		}
		e.pause(ctx)
	}
	return false
}

func (e *Election) pause(ctx context.Context) {
	select {
	case <-e.Clock.After(e.Times.Retry):
	case <-ctx.Done():
	}
}

// keep renews the lease until that fails for too long or done is closed; when
// ctx ends it releases the lease.
func (e *Election) keep(ctx context.Context, done <-chan struct{}) {
	renewed := e.Clock.Now()
	for {
		select {
		case <-e.Clock.After(e.Times.Retry):
		case <-ctx.Done():
			<-done // our controllers have ended before another server begins
			e.release(context.WithoutCancel(ctx))
			return
		}
		err := e.take(ctx)
		switch {
		case err == nil:
			renewed = e.Clock.Now()
		case errors.Is(err, errLed) || e.Clock.Since(renewed) > e.Times.Renew:
			return
		}
	}
}

// errLed means that another server is the leader.
var errLed = errors.New("another server is the leader")

// take takes the lease, or renews it.
func (e *Election) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.Times.Renew/2)
	defer cancel()
	lease, err := e.read(ctx)
	if err != nil {
		return err
	}
	now := metav1.NewMicroTime(e.Clock.Now())
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.Name, Namespace: metav1.NamespaceSystem}}
		e.fill(lease, now)
		_, err := e.Client.Create(ctx, in(e.Leases, metav1.NamespaceSystem), lease)
		return err
	}
	holder := holderOf(lease)
	if holder != "" && holder != e.Identity && e.Clock.Since(e.seenAt) < e.Times.Lease {
		return errLed
	}
	lease = lease.DeepCopy()
	e.fill(lease, now)
	_, err = e.Client.Update(ctx, at(e.Leases, ""), request.Unchanged(lease), lease)
	return err
}

// read reads the lease, nil if there is none, and records when it changed.
func (e *Election) read(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := engine.IndexOf[*coordinationv1.Lease](e.Leases).Get(ctx, metav1.NamespaceSystem+"/"+e.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e.seen == nil || e.seen.ResourceVersion != lease.ResourceVersion {
		e.seen, e.seenAt = lease, e.Clock.Now()
	}
	return lease, nil
}

// fill makes this server the holder of a lease.
func (e *Election) fill(l *coordinationv1.Lease, now metav1.MicroTime) {
	seconds, changes := int32(e.Times.Lease/time.Second), int32(0)
	if l.Spec.LeaseTransitions != nil {
		changes = *l.Spec.LeaseTransitions
	}
	if holderOf(l) != e.Identity {
		if l.ResourceVersion != "" {
			changes++
		}
		l.Spec.AcquireTime = &now
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime, l.Spec.LeaseTransitions = &e.Identity, &seconds, &now, &changes
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// release releases the lease, so that other servers need not wait for its end.
func (e *Election) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.Times.Retry)
	defer cancel()
	// Whatever lease has the name: it is ours if it says so.
	_, err := inprocess.Edit(ctx, e.Client, at(e.Leases, ""), request.Named(metav1.NamespaceSystem, e.Name), func(l *coordinationv1.Lease) error {
		if holderOf(l) == e.Identity {
			nobody, second := "", int32(1)
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &nobody, &second
		}
		return nil
	})
	if err != nil {
		e.Log.Debug("could not give back the lease of the controllers", "error", err)
	}
}
