package controllers

import (
	"cmp"
	"fmt"
	"time"

	"github.com/blang/semver/v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
)

// This file judges candidates for leases, and the leases.

// electionNeeded reports whether a lease (nil: there is none) has no holder, or another one than the best of its candidates, or
// whether it is time to ask the candidates whether they live.
func electionNeeded(lease *coordinationv1.Lease, candidates []*coordinationv1beta1.LeaseCandidate, now time.Time) (bool, error) {
	if lease == nil || expired(lease, now) || holderOf(lease) == "" {
		return true, nil
	}
	for _, c := range candidates {
		if t := c.Spec.RenewTime; t != nil && t.Add(candidateLife/2).Before(now) {
			return true, nil
		}
	}
	strategy, err := strategyOf(candidates)
	if err != nil || strategy != coordinationv1.OldestEmulationVersion {
		return false, err
	}
	best := oldest(candidates)
	return best != nil && best.Name != holderOf(lease), nil
}

// answer is what a candidate has said to the question whether it lives.
type answer int

const (
	given   answer = iota // it lives
	unasked               // it has to be asked
	awaited               // it was asked, and still has time
	missing               // it was asked, and has let the time pass
)

func answerOf(c *coordinationv1beta1.LeaseCandidate, now time.Time) answer {
	asked, renewed := c.Spec.PingTime, c.Spec.RenewTime
	due := asked != nil && renewed != nil && renewed.Before(asked)
	switch {
	case due && asked.Add(electionTime).After(now):
		return awaited
	case renewed != nil && renewed.Add(electionTime).After(now):
		return given
	case due:
		return missing
	case asked != nil && !asked.Add(electionTime).Before(now):
		return missing // it has answered, too long ago to count
	default:
		return unasked
	}
}

// strategyOf returns the strategy of the candidates with the newest binary, which must agree.
func strategyOf(candidates []*coordinationv1beta1.LeaseCandidate) (coordinationv1.CoordinatedLeaseStrategy, error) {
	first := candidates[0]
	for _, c := range candidates[1:] {
		switch newer := binary(c).Compare(binary(first)); {
		case newer > 0:
			first = c
		case newer == 0 && c.Spec.Strategy != first.Spec.Strategy:
			return "", fmt.Errorf("candidates %q and %q have the same binary version, and the strategies %s and %s", first.Name, c.Name, first.Spec.Strategy, c.Spec.Strategy)
		}
	}
	return first.Spec.Strategy, nil
}

// oldest returns the candidate with the lowest emulation version, then the lowest binary version, that is there for longest; nil
// if none has valid versions.
func oldest(candidates []*coordinationv1beta1.LeaseCandidate) *coordinationv1beta1.LeaseCandidate {
	var best *coordinationv1beta1.LeaseCandidate
	for _, c := range candidates {
		_, emulation := semver.ParseTolerant(c.Spec.EmulationVersion)
		_, own := semver.ParseTolerant(c.Spec.BinaryVersion)
		if emulation == nil && own == nil && (best == nil || before(c, best)) {
			best = c
		}
	}
	return best
}

func before(a, b *coordinationv1beta1.LeaseCandidate) bool {
	return cmp.Or(tolerant(a.Spec.EmulationVersion).Compare(tolerant(b.Spec.EmulationVersion)), binary(a).Compare(binary(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time)) < 0
}

func binary(c *coordinationv1beta1.LeaseCandidate) semver.Version {
	return tolerant(c.Spec.BinaryVersion)
}

// tolerant reads a version; an invalid one is the lowest.
func tolerant(version string) semver.Version {
	v, _ := semver.ParseTolerant(version)
	return v
}

func expired(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	return s.RenewTime == nil || s.LeaseDurationSeconds == nil || s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second).Before(now)
}

func tooOld(c *coordinationv1beta1.LeaseCandidate, now time.Time) bool {
	return c.Spec.RenewTime == nil || c.Spec.RenewTime.Add(candidateLife).Before(now)
}
