package controlplane

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// The authorities are looked at as often as their files are (package pki); when they have changed, the object is updated at
// once. It is checked every 20th time in any case: authorities of other servers in the cluster expire, and people edit it.
const (
	authInfoLook  = 3 * time.Second
	authInfoCheck = 20
)

// AuthInfo maintains the ConfigMap extension-apiserver-authentication, from which extension API servers learn how to
// authenticate this server's users. Servers of a cluster differ while authorities are rotated, so values of other
// servers stay, except for expired certificates.
type AuthInfo struct {
	*catalog.Raw
	// Client makes the writes, as the server itself.
	Client *inprocess.Client
	// ClientCA and RequestHeaderCA return the current bundles of the authorities; nil: there are none.
	ClientCA, RequestHeaderCA func() []byte
	// Lists are the front proxy's settings by their keys in the ConfigMap.
	Lists map[string][]string
	// NoUID says nothing of the headers of UIDs, and takes out what another server says of them (the gate RemoteRequestHeaderUID
	// is off).
	NoUID bool
	Now   func() time.Time

	// published are the authorities that the object had last, a [2]string. Run reads them while the Bootstrapper may be making
	// the object.
	published atomic.Value
}

// Run maintains the object until ctx ends.
func (a *AuthInfo) Run(ctx context.Context, after func(time.Duration) <-chan time.Time, failed func(error)) {
	for look := 1; ; look++ {
		select {
		case <-after(authInfoLook):
		case <-ctx.Done():
			return
		}
		if look%authInfoCheck != 0 && a.published.Load() == any(a.own()) {
			continue
		}
		if err := a.ensure(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// own are this server's authorities.
func (a *AuthInfo) own() (bundles [2]string) {
	for i, pem := range []func() []byte{a.ClientCA, a.RequestHeaderCA} {
		if pem != nil {
			bundles[i] = string(pem())
		}
	}
	return bundles
}

// ensure updates the object, and remembers the authorities that it has then.
func (a *AuthInfo) ensure(ctx context.Context) error {
	own := a.own()
	err := a.update(ctx)
	if err == nil {
		a.published.Store(own)
	}
	return err
}

func (a *AuthInfo) update(ctx context.Context) error {
	if a.ClientCA == nil && a.RequestHeaderCA == nil {
		return nil
	}
	ep, err := a.Endpoint(schema.GroupResource{Resource: "configmaps"})
	if err != nil {
		return err
	}
	const name = "extension-apiserver-authentication"
	existing, err := ep.StoredObject(ctx, metav1.NamespaceSystem, name)
	if apierrors.IsNotFound(err) {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem}, Data: a.data(nil)}
		_, err = a.Client.Create(ctx, target(ep, m), m)
		if apierrors.IsAlreadyExists(err) {
			return nil // by another server; the next check adds what is missing
		}
		return err
	}
	if err != nil {
		return err
	}
	if have := existing.(*corev1.ConfigMap).Data; maps.Equal(have, a.data(have)) {
		return nil
	}
	// Whatever object has the name: what others have put into it by then stays.
	_, err = inprocess.Edit(ctx, a.Client, target(ep, existing), request.Named(metav1.NamespaceSystem, name), func(m *corev1.ConfigMap) error {
		m.Data = a.data(m.Data)
		return nil
	})
	return err
}

// uidHeaders is the key of the only list that is left out when it is empty.
const uidHeaders = "requestheader-uid-headers"

// data returns the existing data with this server's values added.
func (a *AuthInfo) data(have map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	authorities := func(key string, ours []byte) {
		if len(ours) > 0 {
			out[key] = a.certificates([]byte(have[key]), ours)
		}
	}
	if a.ClientCA != nil {
		authorities("client-ca-file", a.ClientCA())
	}
	if a.RequestHeaderCA == nil {
		return out
	}
	authorities("requestheader-client-ca-file", a.RequestHeaderCA())
	for key, ours := range a.Lists {
		if list := union(have[key], ours); list != "[]" || key != uidHeaders {
			out[key] = list
		}
	}
	if a.NoUID {
		delete(out, uidHeaders)
	}
	return out
}

// certificates returns the unexpired certificates of several bundles, without duplicates.
func (a *AuthInfo) certificates(bundles ...[]byte) string {
	var out []byte
	seen := map[string]bool{}
	for _, data := range bundles {
		for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if block.Type != "CERTIFICATE" || seen[string(block.Bytes)] || err != nil || cert.NotAfter.Before(a.Now()) {
				continue
			}
			seen[string(block.Bytes)] = true
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	return string(out)
}

// union adds strings to a JSON list.
func union(list string, more []string) string {
	all := []string{}
	_ = json.Unmarshal([]byte(list), &all) // anything that is not a list is replaced
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		return list
	}
	return string(out)
}
