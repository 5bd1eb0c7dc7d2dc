package controlplane

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin/apiserverinternal"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file tells the other servers of the cluster, and whoever migrates objects, in which versions this one stores and reads
// each resource (the gate StorageVersionAPI).

var storageVersions = schema.GroupResource{Group: internalv1alpha1.GroupName, Resource: "storageversions"}

// StorageVersions keeps this server's part of the StorageVersions of the built-in resources.
type StorageVersions struct {
	*catalog.Raw
	Client *inprocess.Client
	// Server is the name of this server's lease.
	Server    string
	Resources []*engine.Resource
	Serves    func(schema.GroupVersionResource) bool
	Now       func() time.Time

	mu sync.Mutex
	// untold are the resources that have not been told yet, with the last error; nil: none was tried. Guarded by mu.
	untold map[schema.GroupResource]error
	all    atomic.Bool // all of them have been told
}

// TellStorageVersions begins to tell others how a server stores resources; untold is what it has not told yet. Both nil: the gates are off.
func TellStorageVersions(gates features.Set, v *StorageVersions) (_ *StorageVersions, untold chain.Untold) {
	if !gates.Enabled(features.StorageVersionAPI) || !gates.Enabled(features.APIServerIdentity) {
		return nil, nil
	}
	v.Expect()
	return v, v.Untold
}

// Untold reports whether a resource has not been told yet, and the last error. A resource in several groups is told once.
func (v *StorageVersions) Untold(of schema.GroupResource) (untold bool, last error) {
	if v.all.Load() {
		return false, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	last, untold = v.untold[of]
	return untold, last
}

// Expect begins to hold back what will be told.
func (v *StorageVersions) Expect() {
	v.untold = map[schema.GroupResource]error{}
	for _, r := range v.Resources {
		if v.told(r) {
			for _, of := range groupsOf(r) {
				v.untold[of] = nil
			}
		}
	}
}

// told reports whether others are told of a resource: it is stored, and served.
func (v *StorageVersions) told(r *engine.Resource) bool {
	return r.Prefix != "" && len(v.own(r).ServedVersions) > 0
}

// groupsOf returns the names that a resource has in its groups.
func groupsOf(r *engine.Resource) (all []schema.GroupResource) {
	for _, version := range r.Versions {
		if of := version.WithResource(r.Plural).GroupResource(); !slices.Contains(all, of) {
			all = append(all, of)
		}
	}
	return all
}

// attempted remembers the outcome of telling a resource.
func (v *StorageVersions) attempted(r *engine.Resource, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, of := range groupsOf(r) {
		if err != nil {
			v.untold[of] = err
		} else {
			delete(v.untold, of)
		}
	}
	v.all.Store(len(v.untold) == 0)
}

// tasks are one for each resource; nil makes none.
func (v *StorageVersions) tasks() (out []task) {
	if v == nil {
		return nil
	}
	for _, r := range v.Resources {
		if !v.told(r) {
			continue
		}
		own := v.own(r)
		group := r.Hub.Group
		if group == "" {
			group = "core" // the name of an object begins with a domain
		}
		name := group + "." + r.Plural
		out = append(out, func(ctx context.Context) error {
			err := v.tell(ctx, name, own)
			v.attempted(r, err)
			return err
		})
	}
	return out
}

// own is what this server does with a resource. Its other groups share what is stored.
func (v *StorageVersions) own(r *engine.Resource) internalv1alpha1.ServerStorageVersion {
	own := internalv1alpha1.ServerStorageVersion{APIServerID: v.Server, EncodingVersion: discovery.StorageVersion(r).String()}
	for _, version := range r.Versions {
		own.DecodableVersions = append(own.DecodableVersions, version.GroupVersion.String())
		if version.GroupVersion.Group == r.Hub.Group && v.Serves(version.WithResource(r.Plural)) {
			own.ServedVersions = append(own.ServedVersions, version.GroupVersion.String())
		}
	}
	if !slices.Contains(own.DecodableVersions, own.EncodingVersion) {
		own.DecodableVersions = append(own.DecodableVersions, own.EncodingVersion)
	}
	return own
}

// tell writes this server's part of an object, which it makes if it is missing.
func (v *StorageVersions) tell(ctx context.Context, name string, own internalv1alpha1.ServerStorageVersion) error {
	ep, err := v.Endpoint(storageVersions)
	if err != nil {
		return err
	}
	status := inprocess.Target{Resource: ep.GVR, Name: name, Subresource: "status"}
	fill := func(stored *internalv1alpha1.StorageVersion) error {
		v.fill(stored, own)
		return nil
	}
	_, err = inprocess.Edit(ctx, v.Client, status, request.Named("", name), fill)
	if apierrors.IsNotFound(err) {
		obj := &internalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := v.Client.Create(ctx, inprocess.Target{Resource: ep.GVR}, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make the storage version of %s: %w", name, err)
		}
		_, err = inprocess.Edit(ctx, v.Client, status, request.Named("", name), fill)
	}
	if err != nil {
		return fmt.Errorf("write the storage version of %s: %w", name, err)
	}
	return nil
}

// fill puts in this server's part, and what follows from all parts.
func (v *StorageVersions) fill(obj *internalv1alpha1.StorageVersion, own internalv1alpha1.ServerStorageVersion) {
	s := &obj.Status
	n := slices.IndexFunc(s.StorageVersions, func(other internalv1alpha1.ServerStorageVersion) bool { return other.APIServerID == own.APIServerID })
	if n < 0 {
		s.StorageVersions = append(s.StorageVersions, own)
	} else {
		s.StorageVersions[n] = own
	}
	apiserverinternal.Agree(obj, v.Now())
}
