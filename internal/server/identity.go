package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/observe/findings"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
)

// This file tells the servers of a cluster apart.

// sharedFlags must be the same in all servers of a cluster: a client sees one API, whichever answers.
func sharedFlags() []string {
	return []string{"allow-privileged", "api-audiences", "authorization-mode", "default-not-ready-toleration-seconds",
		"default-unreachable-toleration-seconds", "disable-admission-plugins", "emulated-version", "enable-admission-plugins", "enable-bootstrap-token-auth",
		"etcd-prefix", "event-ttl", "extensions", "feature-gates", "runtime-config", "service-account-extend-token-expiration", "service-account-issuer",
		"service-cluster-ip-range", "service-node-port-range", "storage-media-type"}
}

// sharedSettings are the version and what sharedFlags are set to. Who may read leases may not therefore read flags, so these are hashes.
func (b *base) sharedSettings() map[string]string {
	settings := map[string]string{findings.VersionSetting: version.Kanzen}
	for _, name := range sharedFlags() {
		if value, ok := b.root.Flags[name]; ok {
			sum := sha256.Sum256([]byte(name + "=" + value))
			settings[name] = hex.EncodeToString(sum[:4])
		}
	}
	return settings
}

// identity makes the lease of this server. Without a flight recorder, as under the name kube-apiserver, nobody compares settings, and the
// lease is that of kube-apiserver.
func (b *base) identity() *controlplane.Identity {
	var settings map[string]string
	if b.root.FlightRecorderMemory > 0 {
		settings = b.sharedSettings()
	}
	return controlplane.NewIdentity(b.objects, b.itself, b.process.Hostname(), b.root.PeerAddress(b.port), settings, b.process.Clock.Now)
}

// servers returns what findings compare: the servers of the cluster.
func servers(first func() *controlplane.Bootstrapper) func(context.Context) (findings.Server, []findings.Server) {
	return func(ctx context.Context) (itself findings.Server, others []findings.Server) {
		b := first()
		if b == nil || b.Identity == nil {
			return itself, nil
		}
		own, all := b.Identity.Servers(ctx)
		for _, o := range all {
			others = append(others, findings.Server{Name: o.Name, Host: o.Host, Settings: o.Settings, Seen: o.Renewed})
		}
		return findings.Server{Name: own.Name, Host: own.Host, Settings: own.Settings, Seen: own.Renewed}, others
	}
}
