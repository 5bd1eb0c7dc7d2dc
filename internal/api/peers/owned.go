package peers

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// grace is how long a group and version is not asked of others after it was deleted here: they may not have seen that.
const grace = 5 * time.Minute

// managedLabel is on the APIServices of what API servers serve themselves; managedCustom: because of a definition.
const managedLabel, managedCustom = "kube-aggregator.kubernetes.io/automanaged", "true"

// owned are the groups and versions that objects define, and so every server of the cluster serves: custom resources and
// extension servers. What this server does not serve of them does not exist, whatever another has said before.
//
// All of them have APIServices: those of extension servers are made by people, those of custom resources by every API server.
type owned struct {
	now func() time.Time

	mu      sync.RWMutex
	by      map[string]schema.GroupVersion // by the name of the APIService
	deleted map[schema.GroupVersion]time.Time
}

// see is told of an APIService; nil: it is gone. It reports whether that changes anything.
func (o *owned) see(name string, a *apiregistrationv1.APIService) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, was := o.by[name]
	if a == nil || a.Spec.Service == nil && a.Labels[managedLabel] != managedCustom {
		if was {
			delete(o.by, name)
			if o.deleted == nil {
				o.deleted = map[schema.GroupVersion]time.Time{}
			}
			o.deleted[before] = o.now()
		}
		return false // it was not asked of others before, and is not now
	}
	if o.by == nil {
		o.by = map[string]schema.GroupVersion{}
	}
	gv := schema.GroupVersion{Group: a.Spec.Group, Version: a.Spec.Version}
	o.by[name] = gv
	delete(o.deleted, gv)
	return !was
}

// has reports whether a group and version must not be asked of others.
func (o *owned) has(gv schema.GroupVersion) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if _, deleted := o.deleted[gv]; deleted {
		return true
	}
	by, ok := o.by[gv.Version+"."+gv.Group] // the name that every APIService has
	return ok && by == gv
}

// forgive forgets what was deleted long enough ago, and reports whether there was any.
func (o *owned) forgive() (any bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for gv, at := range o.deleted {
		if o.now().Sub(at) > grace {
			delete(o.deleted, gv)
			any = true
		}
	}
	return any
}

var errNotRead = errors.New("the other servers of the cluster are not known yet")
