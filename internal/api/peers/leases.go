//lint:file-ignore SA1019 an address is stored as an Endpoints object

package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

const (
	// LeasesPlural is the name of the addresses as a resource, and the prefix of their keys.
	LeasesPlural = "peerserverleases"
	// serverLabel has the name of the server.
	serverLabel = "apiserverIdentity"
	// leaseTTL is how long the address of a crashed server stays; one renewal may fail.
	leaseTTL = 15 * time.Second
	renewal  = 10 * time.Second
	// untilReady is how often a server that is not ready yet looks whether it is.
	untilReady = 100 * time.Millisecond
)

// Leases are the addresses at which the servers of a cluster reach each other: keys in etcd, one per server, that expire
// unless they are renewed. Those of kube-apiserver are among them: below "peerserverleases/", named after the server's
// lease, an Endpoints object with the address.
type Leases struct {
	ep      *engine.Endpoint
	server  string
	subsets []corev1.EndpointSubset
}

// NewLeases makes the addresses, for the server with a name and an address; "": it has none to tell. They are a resource of the
// engine without a path.
func NewLeases(e *engine.Engine, server, address string) (*Leases, error) {
	subsets, err := subsetsOf(address)
	if err != nil {
		return nil, err
	}
	v1 := corev1.SchemeGroupVersion
	ep, err := e.Endpoint(&engine.Resource{
		Plural: LeasesPlural, Singular: "peerserverlease", Kind: "Endpoints",
		Prefix:              LeasesPlural,
		Hub:                 v1,
		Versions:            []*engine.Version{engine.VersionOf[corev1.Endpoints, corev1.EndpointsList](v1, nil)},
		NoGarbageCollection: true,
		TTL:                 func(engine.Object) time.Duration { return leaseTTL },
	})
	if err != nil {
		return nil, err
	}
	return &Leases{ep: ep, server: server, subsets: subsets}, nil
}

// subsetsOf is how an address is stored.
func subsetsOf(address string) ([]corev1.EndpointSubset, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: host}},
		Ports:     []corev1.EndpointPort{{Name: "https", Port: int32(number), Protocol: corev1.ProtocolTCP}},
	}}, nil
}

// Keep tells the address of this server from when it is ready until ctx ends; a nil Leases tells nothing.
func (l *Leases) Keep(ctx context.Context, ready func(context.Context) error, clk clock.Clock, log *slog.Logger) {
	if l == nil {
		return
	}
	pause := func(d time.Duration) bool {
		select {
		case <-clk.After(d):
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
	for ready(ctx) != nil {
		if !pause(untilReady) {
			return
		}
	}
	attempt := func(what string, f func(context.Context) error) {
		// The end of ctx does not cancel f: a cancelled renewal could reach etcd after the last word.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewal)
		defer cancel()
		if err := f(ctx); err != nil {
			log.Warn("could not "+what, "error", err)
		}
	}
	for {
		attempt("tell other servers the address of this one", l.renew)
		if !pause(renewal) {
			break
		}
	}
	attempt("take back the address that other servers have of this one", l.remove)
}

// own is the key of this server, whoever wrote it: it belongs to the name.
func (l *Leases) own() request.Which { return request.Named("", l.server) }

// renew creates or renews the key of this server.
func (l *Leases) renew(ctx context.Context) error {
	fill := func(obj engine.Object) error {
		e := obj.(*corev1.Endpoints)
		e.Generation++ // as kube-apiserver counts renewals
		e.Labels = map[string]string{serverLabel: l.server}
		e.Subsets = l.subsets
		return nil
	}
	_, err := l.ep.UpdateObject(ctx, l.own(), false, fill)
	if apierrors.IsNotFound(err) {
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: l.server}}
		_ = fill(e) // never fails
		_, err = l.ep.CreateObject(ctx, e)
	}
	return err
}

func (l *Leases) remove(ctx context.Context) error {
	if err := l.ep.DeleteObject(ctx, l.own(), nil); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// address returns where a server is reached.
func (l *Leases) address(ctx context.Context, server string) (string, error) {
	obj, err := engine.IndexOf[engine.Object](l.ep).Peek(ctx, server)
	if err != nil {
		return "", fmt.Errorf("the address of %s: %w", server, err)
	}
	if e, ok := obj.(*corev1.Endpoints); ok && len(e.Subsets) > 0 && len(e.Subsets[0].Addresses) > 0 && len(e.Subsets[0].Ports) > 0 {
		return net.JoinHostPort(e.Subsets[0].Addresses[0].IP, strconv.Itoa(int(e.Subsets[0].Ports[0].Port))), nil
	}
	return "", fmt.Errorf("%s has told no address", server)
}

// follow calls told with the name of a server whose address has changed.
func (l *Leases) follow(ctx context.Context, told func(server string)) {
	engine.IndexOf[engine.Object](l.ep).Follow(ctx, func(c store.Change[engine.Object]) { told(c.Name()) }, nil)
}
