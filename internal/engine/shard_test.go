package engine

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/kanzen-io/kanzen/internal/store"
)

// newShards is newKinds with shard selectors, and with UIDs of which the hashes are as different as those of real ones.
func newShards(t *testing.T) *kinds {
	t.Helper()
	x, made := newKinds(t), 0
	for _, ep := range x.eps { // of one engine
		ep.e.Shards, ep.e.NewUID = true, func() string {
			made++
			return uuid.NewSHA1(uuid.Nil, fmt.Append(nil, made)).String()
		}
	}
	return x
}

// bounds are those of four shards.
var bounds = []string{"0x0000000000000000", "0x4000000000000000", "0x8000000000000000", "0xc000000000000000", "0x10000000000000000"}

// shardRange is a selector of the n-th of four shards.
func shardRange(field string, n int) string {
	return fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, bounds[n], bounds[n+1])
}

func shardQuery(selector string) string { return "shardSelector=" + url.QueryEscape(selector) }

// shardHas says whether the n-th shard has a value, by the library that clients use.
func shardHas(n int, value string) bool {
	hash := "0x" + sharding.HashField(value)
	return !sharding.HexLess(hash, bounds[n]) && sharding.HexLess(hash, bounds[n+1])
}

func TestShardedLists(t *testing.T) {
	x := newShards(t)
	const perNamespace = 5
	kinds := map[string]string{"/apis/apps/v1/": "deployments", "/apis/apps/v1beta1/": "deployments", "/apis/example.com/v1/": "widgets"}
	for n := range 4 * perNamespace {
		ns := fmt.Sprintf("ns%d", n/perNamespace)
		x.expect("POST /apis/apps/v1/namespaces/"+ns+"/deployments", deployment(fmt.Sprint("d", n), ``), "201")
		x.expect("POST /apis/example.com/v1/namespaces/"+ns+"/widgets", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w%d"}}`, n), "201")
	}
	for gv, plural := range kinds {
		for _, field := range []string{"uid", "namespace"} {
			for form, accept := range map[string]string{"object": "application/json", "partial": asPartialList} {
				seen := map[string]bool{}
				for n := range 4 {
					selector := shardRange(field, n)
					doc := x.expect("GET "+gv+plural+"?"+shardQuery(selector), "", "200", "Accept: "+accept)
					if got, has := at(doc, "metadata.shardInfo.selector"), form == "object" && plural == "deployments"; (got == selector) != has {
						t.Errorf("%s%s as %s: shardInfo is %q", gv, plural, form, got)
					}
					items, _ := doc["items"].([]any)
					for _, i := range items {
						if value := at(i, "metadata."+field); !shardHas(n, value) {
							t.Errorf("%s %s is not in shard %d", field, value, n)
						}
						seen[at(i, "metadata.uid")] = true
					}
				}
				if len(seen) != 4*perNamespace {
					t.Errorf("%s%s by %s as %s: the shards have %d objects", gv, plural, field, form, len(seen))
				}
			}
		}
	}
}

// A shard is read in pages, together with other selectors, and deleted.
func TestShardsAndOptions(t *testing.T) {
	x := newShards(t)
	var names []string // of those in either of two shards
	for n := range 12 {
		doc := x.expect("POST "+deploys, deployment(fmt.Sprintf("d%02d", n), fmt.Sprintf(`,"spec":{"paused":%v}`, n%2 == 0)), "201")
		if uid := at(doc, "metadata.uid"); shardHas(0, uid) || shardHas(2, uid) {
			names = append(names, at(doc, "metadata.name"))
		}
	}
	selector := shardRange("uid", 0) + " || " + shardRange("uid", 2)
	query := "?" + shardQuery(selector)
	if len(names) < 3 || len(names) == 12 {
		t.Fatalf("the shards have %q", names)
	}
	var paged []string
	next := ""
	for {
		page := query + "&limit=2"
		if next != "" {
			page += "&continue=" + next
		}
		doc := x.expect("GET "+deploys+page, "", "200 metadata.remainingItemCount=")
		paged = append(paged, namesIn(doc)...)
		if next = at(doc, "metadata.continue"); next == "" {
			break
		}
	}
	x.want(paged, names...)
	one := "&fieldSelector=metadata.name%3D"
	x.want(namesIn(x.expect("GET "+deploys+query+one+names[1], "", "200")), names[1])
	x.want(namesIn(x.expect("GET "+deploys+"?"+shardQuery(shardRange("uid", 1))+one+names[1], "", "200")))
	list := protobufOf(t, x.do("GET "+deploys+query, "", "Accept: "+protobufMedia).Body.Bytes(), &appsv1.DeploymentList{})
	if len(list.Items) != len(names) || list.ShardInfo == nil || list.ShardInfo.Selector != selector {
		t.Errorf("in protobuf: %d items, %v", len(list.Items), list.ShardInfo)
	}
	if got := at(x.expect("DELETE "+deploys+query, "", "200"), "metadata.shardInfo.selector"); got != selector {
		t.Errorf("shardInfo of what was deleted is %q", got)
	}
	x.expect("GET "+deploys, "", fmt.Sprintf("200 items.#=%d", 12-len(names)))
}

// namesIn are the names of a list's items.
func namesIn(list map[string]any) (names []string) {
	items, _ := list["items"].([]any)
	for _, i := range items {
		names = append(names, at(i, "metadata.name"))
	}
	return names
}

func TestShardedWatch(t *testing.T) {
	x := newShards(t)
	var in, out string // of a shard
	const shard = 1
	for n := 0; in == "" || out == ""; n++ {
		name := fmt.Sprint("d", n)
		if doc := x.expect("POST "+deploys, deployment(name, ``), "201"); shardHas(shard, at(doc, "metadata.uid")) {
			in = name
		} else {
			out = name
		}
	}
	last := at(x.expect("GET "+deploys, "", "200"), "metadata.resourceVersion")
	change := func() {
		for _, name := range []string{out, in} {
			x.expect("PATCH/merge "+deploys+"/"+name, `{"spec":{"replicas":8}}`, "200")
		}
	}
	remove := func() {
		for _, name := range []string{out, in} {
			x.expect("DELETE "+deploys+"/"+name, "", "200")
		}
	}
	m := NewMetrics(prometheus.NewRegistry(), func(schema.GroupVersionResource) bool { return true })
	for _, ep := range x.eps {
		ep.e.Metrics = m
	}
	change()
	got := x.watched("resourceVersion="+last+"&"+shardQuery(shardRange("uid", shard)), "application/json", nameAndReplicas, remove)
	x.want(got, "MODIFIED "+in+"=8", "DELETED "+in+"=8")
	want := `# HELP apiserver_watch_filtered_events_total Objects that were not sent to watches of a shard because they are in another.
# TYPE apiserver_watch_filtered_events_total counter
apiserver_watch_filtered_events_total{group="apps",resource="deployments"} 3
# HELP apiserver_watch_shards_total Watches of a shard that are open.
# TYPE apiserver_watch_shards_total gauge
apiserver_watch_shards_total{group="apps",resource="deployments"} 0
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "apiserver_watch_filtered_events_total", "apiserver_watch_shards_total"); err != nil {
		t.Error(err)
	}
}

func TestShardSelectorErrors(t *testing.T) {
	x := newShards(t)
	for selector, want := range map[string]string{
		" ":          "empty shard selector is not allowed; omit the parameter for unfiltered lists",
		"x":          "unexpected expression kind 3; expected shardRange() call or || operator",
		"f(1)":       `unsupported function "f"; only shardRange() and || are allowed`,
		"shardRange": "unexpected expression kind 3; expected shardRange() call or || operator",
		"shardRange(object.metadata.uid, '0x0', '0x8')":                             `hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)`,
		strings.Replace(shardRange("uid", 0), "uid", "name", 1):                     `unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace`,
		shardRange("uid", 0) + " || " + shardRange("namespace", 1):                  `all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"`,
		"shardRange(object.metadata.uid, '" + bounds[1] + "', '" + bounds[1] + "')": "shard range start 0x4000000000000000 must be less than end 0x4000000000000000",
	} {
		for _, what := range []string{"GET " + deploys + "?", "GET " + deploys + "?watch=1&", "GET " + deploys + "?continue=x&", "DELETE " + deploys + "?"} {
			if got, want := at(x.expect(what+shardQuery(selector), "", "500 reason="), "message"), "invalid shard selector: "+want; got != want {
				t.Errorf("%s: %s, want %s", selector, got, want)
			}
		}
	}
	// Virtual resources do not look at it, and neither do others without the gate.
	x.expect("GET /api/v1/componentstatuses?"+shardQuery("x"), "", "200 items.#=2")
	newKinds(t).expect("GET "+deploys+"?"+shardQuery("x"), "", "200 metadata.shardInfo=")
}

// What finding out an item's shard costs.
func BenchmarkShard(b *testing.B) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "ns", UID: "01234567-89ab-cdef-0123-456789abcdef"}}
	raw, err := d.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string][]byte{
		"protobuf": append(appendEnvelope(nil, typeMeta(appsv1.SchemeGroupVersion.WithKind("Deployment")), len(raw)), append(raw, envelopeTail...)...),
		"json":     []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","namespace":"ns","uid":"01234567-89ab-cdef-0123-456789abcdef"}}`),
	} {
		b.Run(name, func(b *testing.B) {
			item, holds := store.NewItem("ns/d", 1, value), (&shard{ranges: []hashRange{{0, 1 << 63}}}).holds()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := holds(item); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
