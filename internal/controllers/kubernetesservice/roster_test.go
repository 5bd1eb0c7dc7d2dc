//lint:file-ignore SA1019 Endpoints are what this package is about

package kubernetesservice

import (
	"net"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
)

// theirs is what kube-apiserver v1.36.3 stores for 10.1.2.3, and the same with
// --storage-media-type=application/json.
var theirs = map[string]string{
	"protobuf": "k8s\x00\n\x0f\n\x02v1\x12\tEndpoints\x12\"\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x02B\x00\x12\x0e\n\x0c\n\x0810.1.2.3\x1a\x00\x1a\x00\"\x00",
	"JSON":     `{"kind":"Endpoints","apiVersion":"v1","metadata":{"generation":2},"subsets":[{"addresses":[{"ip":"10.1.2.3"}]}]}` + "\n",
}

func TestLeasesOfKubeAPIServer(t *testing.T) {
	const key = "/registry/masterleases/10.1.2.3"
	for format, value := range theirs {
		c, ctx := newCluster(t), t.Context()
		s := c.server("10.1.2.4")
		put := func() {
			_, err := c.db.Client.Put(ctx, key, value)
			must(t, err)
		}
		put()
		must(t, s.publish(ctx))
		s.expect(format, "10.1.2.3,10.1.2.4:6443")
		// Kanzen takes over kube-apiserver's lease.
		same := c.server("10.1.2.3")
		must(t, same.Roster.Join(ctx))
		obj, err := same.Roster.(*Leases).ep.GetObject(ctx, "", "10.1.2.3")
		must(t, err)
		if e := obj.(*corev1.Endpoints); e.Generation != 3 || listed(e) != "10.1.2.3:" {
			t.Errorf("%s: renewed to %v", format, e)
		}
		put()
		same.Start(ctx)
		s.expect("removed "+format, "10.1.2.4:6443")
	}
}

func TestLeaseRunsOut(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	s := c.server("10.1.2.3")
	var last clientv3.LeaseID
	for range 2 {
		must(t, s.Roster.Join(ctx))
		r, err := c.db.Client.Get(ctx, "/registry/masterleases/10.1.2.3")
		must(t, err)
		id := clientv3.LeaseID(r.Kvs[0].Lease)
		l, err := c.db.Client.TimeToLive(ctx, id)
		must(t, err)
		if l.GrantedTTL != 15 || id == last || !strings.HasPrefix(string(r.Kvs[0].Value), "k8s\x00\n\x0f\n\x02v1\x12\tEndpoints") {
			t.Errorf("lease %d for %d s of %q", id, l.GrantedTTL, r.Kvs[0].Value)
		}
		last = id
	}
	must(t, s.Roster.Leave(ctx))
	must(t, s.Roster.Leave(ctx)) // the lease may be missing
}

func TestCount(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		servers    int
		have, want string // of 10.1.2.3
	}{
		{1, "", "10.1.2.3"},
		{1, "10.1.2.3", "10.1.2.3"},
		{1, "10.1.2.4", "10.1.2.3"},
		{2, "10.1.2.4", "10.1.2.3 10.1.2.4"},
		{2, "10.1.2.3 10.1.2.4", "10.1.2.3 10.1.2.4"},
		{2, "10.1.2.4 10.1.2.5", "10.1.2.3 10.1.2.5"}, // the next one
		{2, "10.1.2.1 10.1.2.2", "10.1.2.2 10.1.2.3"}, // wraps around
		{1, "10.1.2.1 10.1.2.3 10.1.2.5", "10.1.2.3"},
		{3, "10.1.2.5 10.1.2.1", "10.1.2.1 10.1.2.3 10.1.2.5"},
	} {
		c := NewCount(test.servers, net.ParseIP("10.1.2.3"))
		must(t, c.Join(ctx))
		got, err := c.Addresses(ctx, strings.Fields(test.have))
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("of %d servers, with %q: %q (%v), want %q", test.servers, test.have, got, err, test.want)
		}
		must(t, c.Leave(ctx))
		got, err = c.Addresses(ctx, strings.Fields(test.have))
		rest := slices.DeleteFunc(strings.Fields(test.have), func(a string) bool { return a == "10.1.2.3" })
		if err != nil || !slices.Equal(got, rest) {
			t.Errorf("of %d servers, without it: %q (%v), want %q", test.servers, got, err, rest)
		}
	}
}

func TestServersThatAreCounted(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	var servers []*server
	for _, ip := range []string{"10.1.2.3", "10.1.2.4", "10.1.2.5"} {
		s := c.server(ip)
		s.Roster = NewCount(2, s.Address)
		servers = append(servers, s)
	}
	must(t, servers[0].publish(ctx))
	must(t, servers[1].publish(ctx))
	servers[0].expect("two", "10.1.2.3,10.1.2.4:6443")
	// The first was killed, and a third has replaced it.
	must(t, servers[2].publish(ctx))
	must(t, servers[1].publish(ctx))
	servers[1].expect("exchanged", "10.1.2.4,10.1.2.5:6443")
	must(t, servers[2].withdraw(ctx))
	servers[1].expect("one has left", "10.1.2.4:6443")
	must(t, servers[1].withdraw(ctx))
	servers[1].expect("all have left", ":")
}
