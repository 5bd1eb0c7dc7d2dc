package builtin

import (
	"sync"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// Shared has the kinds of the groups whose rules need nothing of a control plane: they are made once for all that have the features and
// versions of Kubernetes that are there by default, and are never changed. A process may have a thousand control planes.
type Shared struct {
	mu     sync.Mutex
	groups map[sharedGroup][]*engine.Resource // guarded by mu
}

// sharedGroup is a group, and what its rules depend on.
type sharedGroup struct {
	name             string
	forbidPrivileged bool   // as podspec.Policy has it
	compatible       string // as features.At has it
}

// shared returns the complete resources of a group that needs nothing of this control plane, as others have them or as they are made.
func (d Deps) shared(group string, made func() []*engine.Resource) []*engine.Resource {
	s := d.Shared
	if s == nil || !d.Gates.Usual() {
		return d.own(made())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := sharedGroup{group, d.Core.Pods.ForbidPrivileged, d.At.Compatible.String()}
	if s.groups[of] == nil {
		if s.groups == nil {
			s.groups = map[sharedGroup][]*engine.Resource{}
		}
		s.groups[of] = d.own(made())
	}
	return s.groups[of]
}
