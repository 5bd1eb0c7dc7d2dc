package catalog

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Referents returns the newest state of the objects that service account tokens refer to, without decoding a pod for
// each of its requests: facts read from an object are valid while its revision is the same.
type Referents struct {
	*Raw
	known cache.Cache[referentKey, referent]
}

type referentKey struct {
	resource schema.GroupResource
	key      string
}

type referent struct {
	revision int64
	is       serviceaccount.Referent
}

// Referent is part of serviceaccount.Referents.
func (r *Referents) Referent(ctx context.Context, resource schema.GroupResource, namespace, name string) (serviceaccount.Referent, error) {
	ep, err := r.Endpoint(resource)
	if err != nil {
		return serviceaccount.Referent{}, err
	}
	key := referentKey{resource: resource, key: name}
	if namespace != "" {
		key.key = namespace + "/" + name
	}
	item, err := ep.View().Get(ctx, key.key)
	if err != nil {
		// A missing object may be new: try again after all acknowledged writes have arrived.
		obj, err := ep.GetObject(ctx, namespace, name)
		if err != nil {
			return serviceaccount.Referent{}, err
		}
		return referentOf(obj), nil
	}
	if known := r.known.Get(key); known != nil && known.revision == item.Rev {
		return known.is, nil
	}
	obj, err := ep.Decode(ctx, item)
	if err != nil {
		return serviceaccount.Referent{}, err
	}
	is := referentOf(obj)
	r.known.Put(key, &referent{item.Rev, is})
	return is, nil
}

func referentOf(obj engine.Object) serviceaccount.Referent {
	out := serviceaccount.Referent{UID: obj.GetUID()}
	if d := obj.GetDeletionTimestamp(); d != nil {
		out.Deleted = d.Time
	}
	return out
}

// MarkUsed returns what records in a secret the day when its token was last used. If that fails, the token is still accepted.
func (o *Raw) MarkUsed(log *slog.Logger) func(ctx context.Context, secret *corev1.Secret, day string) {
	return func(ctx context.Context, secret *corev1.Secret, day string) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := o.Update(ctx, schema.GroupResource{Resource: "secrets"}, request.Same(secret), false, func(obj engine.Object) error {
			labels := obj.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[serviceaccount.LastUsedLabel] = day
			obj.SetLabels(labels)
			return nil
		})
		if err != nil {
			log.Warn("could not write down the use of a service-account token", "namespace", secret.Namespace, "secret", secret.Name, "error", err)
		}
	}
}
