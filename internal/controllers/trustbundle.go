package controllers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// servingSigner is the signer of serving certificates of API servers.
const servingSigner = "kubernetes.io/kube-apiserver-serving"

// runTrustBundle keeps one trust bundle with the authority by which pods verify the server.
func runTrustBundle(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(certificatesv1.Resource("clustertrustbundles"))
	if c.RootCA == nil || ep == nil {
		return
	}
	// Bundles of a signer have its name before theirs. The hash makes a bundle of another authority another object.
	prefix := strings.ReplaceAll(servingSigner, "/", ":") + ":"
	hash := sha256.Sum256(c.RootCA)
	k := &trustBundleKeeper{
		bundles: engine.IndexOf[*certificatesv1.ClusterTrustBundle](ep), endpoint: ep, client: cl,
		prefix: prefix, name: fmt.Sprintf("%s%x", prefix, hash[:12]), bundle: string(c.RootCA),
	}
	c.work(ctx, "ca_cert_publisher_cluster_trust_bundles", once(k.publish),
		func(_ context.Context, q *queue.Queue, _, ended func()) { q.Add(k.name); ended() },
		follow(k.bundles, func(c store.Change[*certificatesv1.ClusterTrustBundle]) (string, bool) {
			return k.name, strings.HasPrefix(c.Name(), prefix)
		}))
}

type trustBundleKeeper struct {
	bundles              *store.Index[*certificatesv1.ClusterTrustBundle]
	endpoint             *engine.Endpoint
	client               *inprocess.Client
	prefix, name, bundle string
}

// publish writes the bundle, and then deletes those of former authorities.
func (k *trustBundleKeeper) publish(ctx context.Context, _ string) error {
	if err := k.write(ctx); err != nil {
		return err
	}
	bundles, err := k.bundles.Objects(ctx, k.prefix)
	errs := []error{err}
	for _, b := range bundles {
		if b.Name != k.name {
			errs = append(errs, ignoreMissing(k.client.Delete(ctx, at(k.endpoint, ""), request.Same(b), nil)))
		}
	}
	return errors.Join(errs...)
}

func (k *trustBundleKeeper) write(ctx context.Context) error {
	b, ok, err := get(ctx, k.bundles, k.name)
	switch {
	case err != nil:
		return err
	case !ok:
		_, err := k.client.Create(ctx, in(k.endpoint, ""), &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: k.name},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: servingSigner, TrustBundle: k.bundle},
		})
		if apierrors.IsAlreadyExists(err) {
			return nil // its event comes
		}
		return err
	case b.Spec.TrustBundle == k.bundle:
		return nil
	}
	_, err = inprocess.Edit(ctx, k.client, at(k.endpoint, ""), request.Same(b), func(b *certificatesv1.ClusterTrustBundle) error {
		b.Spec.TrustBundle = k.bundle
		return nil
	})
	return ignoreMissing(err)
}
