package chaos

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// sound is a small cluster at rest.
const sound = `
- {kind: Namespace, apiVersion: v1, metadata: {name: a, uid: n1, resourceVersion: "2"}, status: {phase: Active}}
- {kind: Namespace, apiVersion: v1, metadata: {name: kube-node-lease, uid: n2, resourceVersion: "3"}, status: {phase: Active}}
- {kind: Namespace, apiVersion: v1, metadata: {name: kube-system, uid: n3, resourceVersion: "4"}, status: {phase: Active}}
- {kind: Node, apiVersion: v1, metadata: {name: m, uid: m1, resourceVersion: "5"}, status: {conditions: [{type: Ready, status: "True"}]}}
- {kind: ReplicaSet, apiVersion: apps/v1, metadata: {name: r, namespace: a, uid: r1, resourceVersion: "6"}}
- {kind: Pod, apiVersion: v1, metadata: {name: p, namespace: a, uid: p1, resourceVersion: "7", labels: {app: p, x: z}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r1}]},
   spec: {nodeName: m}, status: {phase: Running, conditions: [{type: Ready, status: "True"}]}}
- {kind: Service, apiVersion: v1, metadata: {name: s, namespace: a, uid: s1, resourceVersion: "8"}, spec: {selector: {app: p}}}
- {kind: EndpointSlice, apiVersion: discovery.k8s.io/v1, metadata: {name: s-1, namespace: a, uid: e1, resourceVersion: "9", labels: {kubernetes.io/service-name: s}},
   endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: p, uid: p1}}]}
- {kind: ResourceQuota, apiVersion: v1, metadata: {name: q, namespace: a, uid: q1, resourceVersion: "10"}, spec: {hard: {pods: "5", count/replicasets.apps: "5"}}, status: {used: {pods: "1", count/replicasets.apps: "1"}}}
- {kind: Lease, apiVersion: coordination.k8s.io/v1, metadata: {name: m, namespace: kube-node-lease, uid: l1, resourceVersion: "11"}, spec: {leaseDurationSeconds: 40, renewTime: "2026-01-01T00:00:00.000000Z"}}
- {kind: Lease, apiVersion: coordination.k8s.io/v1, metadata: {name: apiserver-1, namespace: kube-system, uid: l2, resourceVersion: "12", labels: {apiserver.kubernetes.io/identity: kube-apiserver}},
   spec: {leaseDurationSeconds: 3600, renewTime: "2026-01-01T00:00:00.000000Z"}}
- {kind: Lease, apiVersion: coordination.k8s.io/v1, metadata: {name: leader, namespace: kube-system, uid: l3, resourceVersion: "13"}, spec: {leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}}
- {kind: Site, apiVersion: web.example.com/v1, metadata: {name: w, namespace: a, uid: w1, resourceVersion: "14"}, spec: {title: T}, status: {conditions: [{type: Ready, status: "True"}]}}
- {kind: ConfigMap, apiVersion: v1, metadata: {name: w, namespace: a, uid: c1, resourceVersion: "15", ownerReferences: [{apiVersion: web.example.com/v1, kind: Site, name: w, uid: w1}]}, data: {index.html: <h1>T</h1>}}
`

var kindNames = map[string]string{"Namespace": "namespaces", "Node": "nodes", "Pod": "pods", "Service": "services", "ConfigMap": "configmaps", "ResourceQuota": "resourcequotas", "ReplicaSet": "apps/replicasets",
	"EndpointSlice": "discovery.k8s.io/endpointslices", "Lease": "coordination.k8s.io/leases", "Site": "web.example.com/sites"}

// soundObjects reads the cluster, after some text of it was changed.
func soundObjects(t *testing.T, changes ...string) objects {
	t.Helper()
	text := sound
	for n := 0; n+1 < len(changes); n += 2 {
		if !strings.Contains(text, changes[n]) {
			t.Fatalf("there is no %q", changes[n])
		}
		text = strings.ReplaceAll(text, changes[n], changes[n+1])
	}
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for _, o := range list {
		u := &unstructured.Unstructured{Object: o}
		all[kindNames[u.GetKind()]] = append(all[kindNames[u.GetKind()]], u)
	}
	return all
}

// TestStateChecks damages a sound cluster, and sees the damage named.
func TestStateChecks(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	judged := func(now time.Time, changes ...string) string {
		return strings.Join(judgeState(soundObjects(t, changes...), now, 1, []string{"kube-system/leader"}), "\n")
	}
	if wrong := judged(now); wrong != "" {
		t.Fatalf("nothing is damaged, and %s", wrong)
	}
	for _, c := range []struct{ was, is, want string }{
		{"name: r, uid: r1}", "name: r, uid: r0}", "pods a/p: its owner ReplicaSet r (r0) is not there"},
		{"name: w, uid: w1}", "name: w, uid: w0}", "configmaps a/w: its owner Site w (w0) is not there"},
		{`uid: r1, resourceVersion: "6"}`, `uid: r1, resourceVersion: "6", deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [f]}`, "apps/replicasets a/r: was deleted at 00:00:00 and is there, for [f]"},
		{"{name: a, uid: n1", "{name: b, uid: n1", "pods a/p: its namespace is not there"},
		{`resourceVersion: "2"}, status: {phase: Active}`, `resourceVersion: "2"}, status: {phase: Terminating}`, "namespaces a: is Terminating"},
		{"spec: {nodeName: m}", "spec: {nodeName: other}", "pods a/p: its node other is not there"},
		{"spec: {nodeName: m}", "spec: {}", "pods a/p: has no node"},
		{`phase: Running, conditions: [{type: Ready, status: "True"}]`, "phase: Pending", "pods a/p: is Pending, and not ready"},
		{`status: {conditions: [{type: Ready, status: "True"}]}}
- {kind: ReplicaSet`, `status: {}}
- {kind: ReplicaSet`, "nodes m: is not ready"},
		{"name: p, uid: p1}}]", "name: p, uid: p0}}]", "services a/s: endpoint p: the pods' list has it at p1, the slices at p0"},
		{"conditions: {ready: true}", "conditions: {ready: false}", "services a/s: endpoint p: the pods' list has it at p1, the slices has not"},
		{`used: {pods: "1"`, `used: {pods: "2"`, "resourcequotas a/q: pods says 2 are used, there are 1"},
		{`used: {pods: "1", `, `used: {`, "resourcequotas a/q: 2 limits, 1 uses"},
		{"{name: leader,", "{name: other,", "coordination.k8s.io/leases kube-system/leader: is not there"},
		{"{name: m, namespace: kube-node-lease", "{name: o, namespace: kube-node-lease", "coordination.k8s.io/leases kube-node-lease/m: is not there"},
		{"apiserver.kubernetes.io/identity: kube-apiserver", "x: y", "0 of servers, there are 1 servers"},
		{"<h1>T</h1>", "<h1>t</h1>", `web.example.com/sites a/w: its page is "<h1>t</h1>", it should be "<h1>T</h1>"`},
		{`status: {conditions: [{type: Ready, status: "True"}]}}
- {kind: ConfigMap`, `status: {}}
- {kind: ConfigMap`, "web.example.com/sites a/w: is not ready"},
	} {
		if wrong := judged(now, c.was, c.is); !strings.Contains(wrong, c.want) {
			t.Errorf("%s in the place of %s: found %q, not %q", c.is, c.was, wrong, c.want)
		}
	}
	if wrong := judged(now.Add(time.Minute)); !strings.Contains(wrong, "leases kube-system/leader: was renewed at") || strings.Contains(wrong, "apiserver-1") {
		t.Errorf("a minute later: %s", wrong)
	}
}

// TestComparisons damages what is compared: a key is missing, one is too many, a revision differs, an object has another identity.
func TestComparisons(t *testing.T) {
	all := soundObjects(t)
	keys := map[string]int64{"/registry/ranges/x": 1}
	for kind, list := range all {
		for n, o := range list {
			var revision int64
			_, _ = fmt.Sscan(o.GetResourceVersion(), &revision)
			keys[fmt.Sprintf("/registry/%s/%s", kind, id(list[n]))] = revision
		}
	}
	if wrong := unstored("s0", all, keys, ownKeys); len(wrong) > 0 {
		t.Fatalf("nothing is damaged, and %q", wrong)
	}
	for name, c := range map[string]struct {
		damage func(keys map[string]int64)
		want   []string
	}{
		"a key is missing": {func(k map[string]int64) { delete(k, "/registry/pods/a/p") }, []string{"pods a/p: s0 lists it at 7, where etcd has no such key"}},
		"a key is too many": {func(k map[string]int64) { k["/registry/pods/a/q"] = 20 },
			[]string{"/registry/pods/a/q: etcd has it at 20, and s0 lists no such object"}},
		"another revision": {func(k map[string]int64) { k["/registry/pods/a/p"] = 20 },
			[]string{"pods a/p: s0 lists it at 7, where etcd has no such key", "/registry/pods/a/p: etcd has it at 20, and s0 lists no such object"}},
	} {
		damaged := maps.Clone(keys)
		c.damage(damaged)
		if wrong := unstored("s0", all, damaged, ownKeys); strings.Join(wrong, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: found %q", name, wrong)
		}
	}
	for _, c := range [][3]string{
		{`uid: p1, resourceVersion: "7"`, `uid: p1, resourceVersion: "8"`, "pods a/p: one has it at p1 7, other at p1 8"},
		{`uid: p1, resourceVersion: "7"`, `uid: p2, resourceVersion: "7"`, "pods a/p: one has it at p1 7, other at p2 7"},
		{"name: p, namespace: a", "name: o, namespace: a", "pods a/o: other has it at p1 7, one has not; pods a/p: one has it at p1 7, other has not"},
	} {
		wrong := strings.Join(unequal("pods", "one", "other", versions(all["pods"]), versions(soundObjects(t, c[0], c[1])["pods"])), "; ")
		if wrong != c[2] {
			t.Errorf("found %q, not %q", wrong, c[2])
		}
	}
}

// TestMirrorJudges gives an informer's handler events that must not be.
func TestMirrorJudges(t *testing.T) {
	pod := func(name, revision string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "namespace": "a", "resourceVersion": revision}}}
	}
	m := &mirror{server: "s0", seen: map[string]uint64{}}
	m.OnAdd(pod("p", "5"), false)
	m.OnUpdate(nil, pod("p", "7"))
	m.OnUpdate(nil, pod("p", "7")) // as after a new list
	m.OnDelete(pod("p", "8"))
	m.OnAdd(pod("p", "9"), false)
	if len(m.faults) > 0 {
		t.Fatalf("%q", m.faults)
	}
	m.OnAdd(pod("p", "10"), false)
	m.OnUpdate(nil, pod("p", "4"))
	m.OnUpdate(nil, pod("q", "4"))
	m.OnDelete(pod("o", "4"))
	all := strings.Join(m.faults, "\n")
	for _, want := range []string{"a/p appeared at 10, and had at 9", "a/p was changed at 4 after 10", "a/q was changed at 4, and had never appeared", "a/o was deleted at 4, and had never appeared"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

// TestLedgerJudges has a ledger find what was acknowledged and is otherwise.
func TestLedgerJudges(t *testing.T) {
	l := newLedger()
	l.there = map[string]string{"a": "1", "b": "2"}
	l.gone["c"], l.unknown["d"] = true, true
	for _, found := range []map[string]string{{"a": "1", "b": "2"}, {"a": "1", "b": "2", "d": "9"}} {
		if wrong := l.differs(found); len(wrong) > 0 {
			t.Errorf("%v: %q", found, wrong)
		}
	}
	all := strings.Join(l.differs(map[string]string{"b": "3", "c": "4", "e": "5"}), "\n")
	for _, want := range []string{"ledger/a: its creation was acknowledged, and it is not there", "ledger/b: was created as 2, and is 3", "ledger/c: its deletion was acknowledged, and it is there",
		"ledger/e: is there, and nobody created it"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

// TestGrown grows one figure after another.
func TestGrown(t *testing.T) {
	before := figures{Process: 1, Resident: 200, Heap: 60, Goroutines: 500, Descriptors: 100, Threads: 20, Disk: 10, Series: 3000, Watches: 100}
	if wrong := grown("s0", before, before, false); len(wrong) > 0 {
		t.Errorf("nothing has grown, and %q", wrong)
	}
	for name, f := range map[string]func(*figures){"resident memory": func(f *figures) { f.Resident *= 2 }, "heap": func(f *figures) { f.Heap *= 3 }, "goroutines": func(f *figures) { f.Goroutines += 100 },
		"descriptors": func(f *figures) { f.Descriptors += 50 }, "threads": func(f *figures) { f.Threads += 30 }, "disk": func(f *figures) { f.Disk += 200 }, "series": func(f *figures) { f.Series *= 2 },
		"watches": func(f *figures) { f.Watches += 30 }, "name what is gone": func(f *figures) { f.Gone++ }, "process 1, and then 2": func(f *figures) { f.Process = 2 }} {
		after := before
		f(&after)
		for _, first := range []bool{true, false} {
			if wrong := grown("s0", before, after, first); len(wrong) != 1 || !strings.Contains(wrong[0], name) {
				t.Errorf("%s: found %q", name, wrong)
			}
		}
	}
}

// TestGrownLater grows what may grow while caches fill, and not after that.
func TestGrownLater(t *testing.T) {
	before := figures{Process: 1, Resident: 200, Heap: 100, Series: 30_000}
	after := figures{Process: 1, Resident: 300, Heap: 140, Series: 35_000}
	if wrong := grown("s0", before, after, true); len(wrong) > 0 {
		t.Errorf("at first: %q", wrong)
	}
	if wrong := grown("s0", before, after, false); len(wrong) != 3 {
		t.Errorf("later: %q", wrong)
	}
}

// TestGoneNames finds series that name what users of a soak create and delete.
func TestGoneNames(t *testing.T) {
	text := `# HELP a "g1.example.org"
a{group="g100001.example.org",code="200"} 1
a{group="web.example.com"} 1
a{namespace="ns-210000"} 1
a{name="x",object="job-10001"} 1
a{name="ns-x"} 1
`
	if n := len(goneNames.FindAllString(text, -1)); n != 3 {
		t.Errorf("found %d: %q", n, goneNames.FindAllString(text, -1))
	}
}
