package controllers

import (
	"context"
	"errors"
	"slices"
	"strings"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin/apiserverinternal"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// storageVersionCollector takes what servers that are gone have told out of StorageVersions.
type storageVersionCollector struct {
	endpoint *engine.Endpoint
	versions *store.Index[*internalv1alpha1.StorageVersion]
	leases   *store.Index[*coordinationv1.Lease]
	config   Config
	client   *inprocess.Client
}

// runStorageVersionCollector takes what servers without a lease have told out of StorageVersions, and deletes those that nothing is
// left of.
func runStorageVersionCollector(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(schema.GroupResource{Group: internalv1alpha1.GroupName, Resource: "storageversions"})
	leases := c.endpoint(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"})
	if ep == nil || leases == nil || !c.Gates.Enabled(features.StorageVersionAPI) || !c.Gates.Enabled(features.APIServerIdentity) {
		return
	}
	s := &storageVersionCollector{ep, engine.IndexOf[*internalv1alpha1.StorageVersion](ep), engine.IndexOf[*coordinationv1.Lease](leases), c, cl}
	c.work(ctx, "storage_version_garbage_collector", once(s.look), s.ended, follow(s.versions, func(c store.Change[*internalv1alpha1.StorageVersion]) (string, bool) {
		return c.Key, !c.Gone
	}))
}

// ended is a source of the StorageVersions to which a server has told something that is gone.
func (s *storageVersionCollector) ended(ctx context.Context, q *queue.Queue, begun, ended func()) {
	inSystem := func(_, now *store.Item) bool { return strings.HasPrefix(now.Key, metav1.NamespaceSystem+"/") }
	s.leases.Where(inSystem).Join(ctx, ended, func(c store.Change[*coordinationv1.Lease]) {
		if !c.Gone {
			return
		}
		all, err := s.versions.Objects(ctx, "")
		if err != nil {
			return // the server stops
		}
		for _, v := range all {
			if slices.ContainsFunc(v.Status.StorageVersions, func(t internalv1alpha1.ServerStorageVersion) bool { return t.APIServerID == c.Name() }) {
				q.Add(v.Name)
			}
		}
	}, func(int64) { begun() })
}

func (s *storageVersionCollector) look(ctx context.Context, name string) error {
	if err := s.config.Store.Fresh(ctx); err != nil { // a server makes its lease before it tells anything
		return err
	}
	v, ok, err := get(ctx, s.versions, name)
	if !ok {
		return err
	}
	var left []internalv1alpha1.ServerStorageVersion
	for _, told := range v.Status.StorageVersions {
		alive, err := s.alive(ctx, told.APIServerID)
		if err != nil {
			return err
		}
		if alive {
			left = append(left, told)
		}
	}
	switch len(left) {
	case len(v.Status.StorageVersions):
		return nil
	case 0:
		return ignoreMissing(s.client.Delete(ctx, at(s.endpoint, ""), request.Unchanged(v), nil))
	}
	_, err = inprocess.Edit(ctx, s.client, at(s.endpoint, "status"), request.Unchanged(v), func(v *internalv1alpha1.StorageVersion) error {
		v.Status.StorageVersions = left
		apiserverinternal.Agree(v, s.config.Clock.Now())
		return nil
	})
	return ignoreMissing(err)
}

// alive reports whether a server has its lease.
func (s *storageVersionCollector) alive(ctx context.Context, server string) (bool, error) {
	lease, err := s.leases.Peek(ctx, metav1.NamespaceSystem+"/"+server)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && lease.Labels["apiserver.kubernetes.io/identity"] == "kube-apiserver", err
}
