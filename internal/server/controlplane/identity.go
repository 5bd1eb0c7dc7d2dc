package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/request"
)

// This file maintains the lease with which an API server shows that it is alive.

const (
	identityLabel = "apiserver.kubernetes.io/identity"
	peerAddress   = "kubernetes.io/peer-advertise-address"
	// settingsOf has the version of a server and what must be the same in all servers, as NAME=VALUE, separated by commas.
	settingsOf       = "kanzen.io/settings"
	identityDuration = time.Hour
	identityRenewal  = 10 * time.Minute
	// identitySilence is how old a renewal may be of a server that is compared: one that has ended leaves its lease for an hour.
	identitySilence = identityRenewal * 3 / 2
	// maxSetting bounds a name and a value of settings, which anybody may have written who may write leases.
	maxSetting = 64
)

var leases = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}

// Identity is the lease of one server.
type Identity struct {
	*catalog.Raw
	client                      *inprocess.Client
	name, holder, host, address string
	settings                    map[string]string
	now                         func() time.Time
	began                       time.Time
}

// IdentityName derives a server's name from its host as kube-apiserver does, so that a restarted server takes over its
// lease, whichever of the two it was: the hash of the host and of the program's name, each after its length.
func IdentityName(hostname string) string {
	var named []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		named = append(binary.BigEndian.AppendUint16(named, uint16(len(part))), part...)
	}
	sum := sha256.Sum256(named)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// NewIdentity creates the lease of a server on a host. address is where other servers reach it; empty: it is not
// published. settings are what other servers compare with their own; nil: they do not.
func NewIdentity(o *catalog.Raw, client *inprocess.Client, hostname, address string, settings map[string]string, now func() time.Time) *Identity {
	id := IdentityName(hostname)
	return &Identity{Raw: o, client: client, name: id, holder: id + "_" + uuid.NewString(), host: hostname, address: address, settings: settings, now: now, began: now()}
}

// renew creates or renews the lease.
func (i *Identity) renew(ctx context.Context) error {
	ep, err := i.Endpoint(leases)
	if err != nil {
		return err
	}
	fill := func(l *coordinationv1.Lease) error {
		renewed, seconds := metav1.NewMicroTime(i.now()), int32(identityDuration/time.Second)
		l.Labels = map[string]string{identityLabel: "kube-apiserver", corev1.LabelHostname: i.host}
		l.Annotations = map[string]string{}
		if len(i.settings) > 0 {
			l.Annotations[settingsOf] = written(i.settings)
		}
		if i.address != "" {
			l.Annotations[peerAddress] = i.address
		}
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &i.holder, &renewed, &seconds
		return nil
	}
	// The name makes it the lease of this server, whoever wrote it.
	_, err = inprocess.Edit(ctx, i.client, inprocess.Target{Resource: ep.GVR}, request.Named(metav1.NamespaceSystem, i.name), fill)
	if !apierrors.IsNotFound(err) {
		return err
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: i.name, Namespace: metav1.NamespaceSystem}}
	if err := fill(l); err != nil {
		return err
	}
	if _, err = i.client.Create(ctx, target(ep, l), l); apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// keep creates the lease if it is missing.
func (i *Identity) keep(ctx context.Context) error {
	ep, err := i.Endpoint(leases)
	if err != nil {
		return err
	}
	if _, err := ep.StoredObject(ctx, metav1.NamespaceSystem, i.name); !apierrors.IsNotFound(err) {
		return err
	}
	return i.renew(ctx)
}

// Run renews the lease until ctx ends, and deletes the leases of servers that are gone.
func (i *Identity) Run(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	for {
		select {
		case <-after(identityRenewal):
		case <-ctx.Done():
			return
		}
		// A failed renewal is retried; the lease outlasts several renewals.
		_ = i.renew(ctx)
		_ = i.collect(ctx)
	}
}

// collect deletes the leases of servers that no longer renew them.
func (i *Identity) collect(ctx context.Context) error {
	objs, err := i.List(ctx, leases, metav1.NamespaceSystem)
	if err != nil {
		return err
	}
	for _, o := range objs {
		l := o.(*coordinationv1.Lease)
		s := l.Spec
		if l.Labels[identityLabel] != "kube-apiserver" || s.RenewTime == nil || s.LeaseDurationSeconds == nil ||
			i.now().Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second)) {
			continue
		}
		err := i.Delete(ctx, leases, request.Unchanged(l), nil)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another server was first, or the lease lives
			return err
		}
	}
	return nil
}

// Servers returns this server and the others that tell their settings.
func (i *Identity) Servers(ctx context.Context) (itself findings.Server, others []findings.Server) {
	itself = findings.Server{Name: i.name, Host: i.host, Settings: i.settings, Seen: i.began}
	objs, err := i.SeenList(ctx, leases, metav1.NamespaceSystem)
	if err != nil {
		return itself, nil
	}
	for _, o := range objs {
		l, ok := o.(*coordinationv1.Lease)
		if !ok || l.Labels[identityLabel] != "kube-apiserver" || l.Name == i.name || l.Annotations[settingsOf] == "" || l.Spec.RenewTime == nil || i.now().Sub(l.Spec.RenewTime.Time) > identitySilence {
			continue
		}
		others = append(others, findings.Server{Name: l.Name, Host: l.Labels[corev1.LabelHostname], Settings: read(l.Annotations[settingsOf]), Seen: l.Spec.RenewTime.Time})
	}
	return itself, others
}

// written and read are the form of settings in an annotation.
func written(settings map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, name+"="+settings[name])
	}
	return strings.Join(parts, ",")
}

func read(text string) map[string]string {
	settings := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(part, "="); ok && len(name) <= maxSetting && len(value) <= maxSetting {
			settings[name] = value
		}
	}
	return settings
}

// sharedFlags must be the same in all servers of a cluster: a client sees one API, whichever answers.
func sharedFlags() []string {
	return []string{"allow-privileged", "api-audiences", "authorization-mode", "default-not-ready-toleration-seconds",
		"default-unreachable-toleration-seconds", "disable-admission-plugins", "emulated-version", "enable-admission-plugins", "enable-bootstrap-token-auth",
		"etcd-prefix", "event-ttl", "extensions", "feature-gates", "runtime-config", "service-account-extend-token-expiration", "service-account-issuer",
		"service-cluster-ip-range", "service-node-port-range", "storage-media-type"}
}

// SharedSettings are the version and what those of flags are set to that must be the same in all servers. Who may read leases may not therefore read flags, so these are hashes.
func SharedSettings(flags map[string]string) map[string]string {
	settings := map[string]string{findings.VersionSetting: version.Kanzen}
	for _, name := range sharedFlags() {
		if value, ok := flags[name]; ok {
			sum := sha256.Sum256([]byte(name + "=" + value))
			settings[name] = hex.EncodeToString(sum[:4])
		}
	}
	return settings
}
