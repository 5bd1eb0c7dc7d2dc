//lint:file-ignore SA1019 a lease is stored as an Endpoints object

package kubernetesservice

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// LeasesPlural is the name of the leases as a resource, and the prefix of their keys.
const LeasesPlural = "masterleases"

// leaseTTL is how long a crashed server stays in the roster; one renewal may fail.
const leaseTTL = 15 * time.Second

// Leases is a Roster of keys in etcd, one per server, that expire unless they are renewed. They include
// kube-apiserver's: below "masterleases/", named after the server's address, an Endpoints object with the address.
type Leases struct {
	ep *engine.Endpoint
	ip string
}

// NewLeases creates the roster for the server with an address. The leases are a resource of the engine without a path.
func NewLeases(e *engine.Engine, address net.IP) (*Leases, error) {
	v1 := corev1.SchemeGroupVersion
	ep, err := e.Endpoint(&engine.Resource{
		Plural: LeasesPlural, Singular: "masterlease", Kind: "Endpoints",
		Prefix:              LeasesPlural,
		Hub:                 v1,
		Versions:            []*engine.Version{engine.VersionOf[corev1.Endpoints, corev1.EndpointsList](v1, nil)},
		NoGarbageCollection: true,
		TTL:                 func(engine.Object) time.Duration { return leaseTTL },
	})
	if err != nil {
		return nil, err
	}
	return &Leases{ep: ep, ip: address.String()}, nil
}

// own is the lease of this server, whoever wrote it: it belongs to the address.
func (l *Leases) own() request.Which { return request.Named("", l.ip) }

// Join is part of Roster. It creates or renews the lease.
func (l *Leases) Join(ctx context.Context) error {
	fill := func(obj engine.Object) error {
		e := obj.(*corev1.Endpoints)
		e.Generation++ // as kube-apiserver counts renewals
		e.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: l.ip}}}}
		return nil
	}
	_, err := l.ep.UpdateObject(ctx, l.own(), false, fill)
	if apierrors.IsNotFound(err) {
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: l.ip}}
		_ = fill(e) // never fails
		_, err = l.ep.CreateObject(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", l.ip, err)
	}
	return nil
}

// Leave is part of Roster. It deletes the lease.
func (l *Leases) Leave(ctx context.Context) error {
	if err := l.ep.DeleteObject(ctx, l.own(), nil); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the lease of %s: %w", l.ip, err)
	}
	return nil
}

// Addresses is part of Roster. It returns the addresses of all leases.
func (l *Leases) Addresses(ctx context.Context, _ []string) ([]string, error) {
	leases, err := l.ep.ListObjects(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("list the leases of API servers: %w", err)
	}
	var out []string
	for _, obj := range leases { // sorted by key, which is the address
		if s := obj.(*corev1.Endpoints).Subsets; len(s) > 0 && len(s[0].Addresses) > 0 {
			out = append(out, s[0].Addresses[0].IP)
		}
	}
	return out, nil
}

// Follow is part of Roster.
func (l *Leases) Follow(ctx context.Context, gone func()) {
	engine.IndexOf[engine.Object](l.ep).Follow(ctx, func(c store.Change[engine.Object]) {
		if c.Gone {
			gone()
		}
	}, nil)
}
