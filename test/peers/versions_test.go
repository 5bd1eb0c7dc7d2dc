package peers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kanzen-io/kanzen/test/peer"
)

const (
	bundles = "/apis/certificates.k8s.io/v1/clustertrustbundles"
	gateOff = "--feature-gates=UnknownVersionInteroperabilityProxy=false"
)

// TestVersions is a cluster that is being upgraded: clients of a server of 1.36 have what is new in 1.37.
func TestVersions(t *testing.T) {
	want := ofPeers(t, "versions", func() facts { return versions(t, kube, kube) })
	for _, pair := range [][2]string{{kanzen, kanzen}, {kanzen, kube}, {kube, kanzen}} {
		t.Run(pair[0]+" passes on to "+pair[1], func(t *testing.T) { compare(t, versions(t, pair[0], pair[1]), want) })
	}
}

func versions(t *testing.T, first, second string) facts {
	t.Helper()
	c, f := newCluster(t), facts{}
	older := c.start(t, first, "a-older", "--emulated-version=1.36")
	newer := c.start(t, second, "b-newer")
	within(t, "trust bundles are passed on", func() bool { return ask(t, older, "GET", bundles, "").code == http.StatusOK })
	f.add("create", ask(t, older, "POST", bundles, `{"metadata":{"name":"b"},"spec":{"trustBundle":"x"}}`))
	f.add("list", ask(t, newer, "GET", bundles, ""))
	within(t, "both have the same documents", func() bool {
		return groups(t, older, "/apis", aggregatedType) == groups(t, newer, "/apis", aggregatedType)
	})
	f.add("documents", groups(t, older, "/apis", aggregatedType))
	return f
}

// TestAddress is what servers tell others of their address, and that they do not if the gate is off.
func TestAddress(t *testing.T) {
	told := func(kind string, args ...string) facts {
		c, f := newCluster(t), facts{}
		if slices.Contains(args, gateOff) {
			c.withoutPeers()
		}
		server := c.start(t, kind, "machine", args...)
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.etcd}})
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Close()
		keys := func() *clientv3.GetResponse {
			found, err := etcd.Get(t.Context(), "/registry/peerserverleases/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if !slices.Contains(args, gateOff) {
			within(t, "the address is told", func() bool { return len(keys().Kvs) > 0 })
		}
		for _, kv := range keys().Kvs {
			//lint:ignore SA1019 kube-apiserver stores addresses so
			e := &corev1.Endpoints{}
			if _, _, err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Decode(kv.Value, nil, e); err != nil {
				t.Fatal(err)
			}
			lease, err := etcd.TimeToLive(t.Context(), clientv3.LeaseID(kv.Lease))
			if err != nil {
				t.Fatal(err)
			}
			port := e.Subsets[0].Ports[0]
			f.add("key", fmt.Sprint(string(kv.Key), e.TypeMeta, e.Labels, e.Generation, port.Name, port.Protocol, e.Subsets[0].NotReadyAddresses, lease.GrantedTTL))
			if !strings.HasSuffix(server.Host, fmt.Sprint(":", port.Port)) {
				t.Errorf("%s tells the port %d", server.Host, port.Port)
			}
		}
		f.add("keys", len(keys().Kvs))
		f.add("checks", checks(t, server))
		f.add("annotated", strings.Contains(ask(t, server, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "").body, "peer-advertise-address"))
		return f
	}
	compare(t, told(kanzen), ofPeers(t, "address", func() facts { return told(kube) }))
	compare(t, told(kanzen, gateOff), ofPeers(t, "address-off", func() facts { return told(kube, gateOff) }))
	c := newCluster(t)
	for _, flag := range []string{"--peer-ca-file=x", "--peer-advertise-ip=10.0.0.1", "--peer-advertise-port=1"} {
		if why := peer.Refusal(t, c.etcd, gateOff, flag); !strings.Contains(why, "requires UnknownVersionInteroperabilityProxy feature to be turned on") {
			t.Errorf("kube-apiserver says %q", why)
		}
	}
}

// TestNoAddress has a server ask others that cannot reach it: it listens on loopback only, and names no other address.
func TestNoAddress(t *testing.T) {
	c := newCluster(t)
	more := c.start(t, kanzen, "more")
	less := peer.StartProgram(t, program, c.etcd, "less", peer.FreePort(t), append(c.flags, "--runtime-config=batch/v1=false")...)
	within(t, "jobs are passed on", func() bool { return ask(t, less, "GET", jobs, "").code == http.StatusOK })
	if a := ask(t, more, "GET", "/apis/batch/v2/jobs", ""); a.code != http.StatusNotFound {
		t.Error(a)
	}
}

// TestAddressIsTakenBack has servers take their address back when they end.
func TestAddressIsTakenBack(t *testing.T) {
	for kind, path := range map[string]string{kube: "", kanzen: program} {
		address := peer.Etcd(t)
		_, stop := peer.StartStoppable(t, path, address, "--advertise-address=10.1.2.3")
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
		if err != nil {
			t.Fatal(err)
		}
		told := func() int64 {
			found, err := etcd.Get(t.Context(), "/registry/peerserverleases/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			return found.Count
		}
		within(t, "the address is told", func() bool { return told() == 1 })
		stop(syscall.SIGTERM)
		if n := told(); n != 0 {
			t.Errorf("%s leaves %d addresses behind", kind, n)
		}
		if err := etcd.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
