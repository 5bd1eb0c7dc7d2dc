package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

var (
	neighbourSeed  = flag.Uint64("neighbour-seed", 1, "the seed of what TestHostileNeighbour writes")
	neighbourTurns = flag.Int("neighbour-turns", 2, "how often TestHostileNeighbour writes objects of each kind")
)

// TestHostileNeighbour shares the storage with somebody who writes into it what no server would: objects that no validation has seen, those of
// other kinds and places, and bytes that are none. Servers trust what is in their storage, but no such value may end one, or keep it from serving
// what is well.
func TestHostileNeighbour(t *testing.T) {
	n := newNeighbour(t)
	for n.turn = range *neighbourTurns {
		n.writeAll()
		n.ask()
		n.change()
		if !n.garbles() { // a server does not start on services that it cannot decode
			n.restart()
		}
	}
	n.removeAll()
	n.ask()
	t.Log("answers by their codes:", n.codes)
	for _, fault := range n.panics.all() {
		t.Errorf("%d panics like this:\n%s", fault.times, fault.text)
	}
}

// neighbour is who writes beside a server.
type neighbour struct {
	*testing.T
	plane  *Plane
	server *server
	db     store.DB
	random *rand.Rand
	plain  *randfill.Filler // what can be encoded and decoded
	wild   *randfill.Filler
	codec  runtime.Encoder
	panics *panics
	kinds  []storedKind
	wrote  map[string]string // paths by keys
	turn   int
	mu     sync.Mutex
	codes  map[int]int // how many answers had which
}

// storedKind is a kind that is stored.
type storedKind struct {
	schema.GroupVersionKind
	resource, prefix string
	namespaced       bool
}

func newNeighbour(t *testing.T) *neighbour {
	n := &neighbour{T: t, panics: &panics{}, random: rand.New(rand.NewPCG(*neighbourSeed, 1)), wrote: map[string]string{}, codes: map[int]int{}}
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener, cfg.Engine = t.TempDir(), true, true, config.EnginePebble
	root, _, err := cfg.Validate()
	if err != nil {
		t.Fatal(err)
	}
	given := process.Given{Around: func(db store.DB) store.DB { n.db = db; return db }}
	on, err := process.OpenWith(context.Background(), root, slog.New(n.panics), debug.NewVerbosity(0), given)
	if err != nil {
		t.Fatal(err)
	}
	n.plane = planeOn(t, &cfg, on)
	n.server = running(t, n.plane, on.Close)
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), apiextensionsv1.AddToScheme(kinds), apiregistrationv1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	n.codec = protobuf.NewSerializer(kinds, kinds)
	n.plain, n.wild = unvalidated(int64(*neighbourSeed), 1), unvalidated(int64(*neighbourSeed), 4)
	for r := range n.server.base.objects.Now().All() {
		e, err := r.Endpoint(r.Storage)
		if err != nil || e.R.Prefix == "" {
			continue
		}
		gvk := e.R.Hub.WithKind(r.Kind)
		if _, err := kinds.New(gvk); err == nil {
			n.kinds = append(n.kinds, storedKind{gvk, r.Resource, e.R.Prefix, r.Namespaced})
		}
	}
	if len(n.kinds) < 50 {
		t.Fatalf("only %d kinds", len(n.kinds))
	}
	return n
}

// unvalidated fills objects with what their types allow. Few fields are set, so that what validation requires is often missing. Of values that not
// all encodings have, the first are such as can be decoded; the filler takes as many as it is told, if there are so many.
func unvalidated(seed int64, values int) *randfill.Filler {
	texts := []string{"", "a", "default", "kube-system", "*", "..", "a/b", "Allow", "Deny", "v1", "pods", "system:masters", "10.96.0.1", "::1", "-1", "999999999999999999999", "NodePort",
		"ClusterIP", strings.Repeat("x", 3000), "\xff"}
	if values == 1 {
		texts = texts[:len(texts)-1]
	}
	times := []time.Time{time.Unix(0, 0), {}, time.Now().Add(time.Second), time.Unix(1<<40, 0)}[:max(values, 3)]
	sets := []string{`{"f:spec":{}}`, `{"f:spec":{"k:{":{}}}`, `{"f:metadata":1}`, ``}[:values]
	documents := [][]byte{[]byte(`{"kind":"A"}`), nil, []byte(`null`), []byte(`{`)}[:max(values, 3)]
	return randfill.NewWithSeed(seed).NilChance(0.6).NumElements(0, 3).MaxDepth(14).Funcs(
		func(s *string, c randfill.Continue) { *s = texts[c.Intn(len(texts))] },
		func(n *int32, c randfill.Continue) { *n = []int32{0, 1, -1, 80, 1 << 30, -1 << 31}[c.Intn(6)] },
		func(n *int64, c randfill.Continue) { *n = []int64{0, 1, -1, 1 << 62, -1 << 63}[c.Intn(5)] },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = []resource.Quantity{{}, resource.MustParse("-1"), resource.MustParse("1e18")}[c.Intn(3)]
		},
		func(n *intstr.IntOrString, c randfill.Continue) {
			*n = []intstr.IntOrString{intstr.FromInt32(-1), intstr.FromString(""), intstr.FromString("x%"), intstr.FromString("80")}[c.Intn(4)]
		},
		func(t *metav1.Time, c randfill.Continue) { t.Time = times[c.Intn(len(times))] },
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = times[c.Intn(2)] },
		func(d *metav1.Duration, c randfill.Continue) { d.Duration = []time.Duration{0, -1, 1 << 62}[c.Intn(3)] },
		func(o *metav1.ManagedFieldsOperationType, c randfill.Continue) {
			*o = []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply, "x", ""}[c.Intn(max(values, 2))]
		},
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(sets[c.Intn(len(sets))]) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = documents[c.Intn(len(documents))] },
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = documents[c.Intn(min(2, len(documents)))] },
	)
}

// writeAll writes some values of each kind. Who is served by roles and what discovery shows stay as they are: who asks must be able to.
func (n *neighbour) writeAll() {
	n.Helper()
	for _, k := range n.kinds {
		if n.turn == 0 && k.Group == "admissionregistration.k8s.io" {
			continue // it refuses all that is asked after that
		}
		for range 3 {
			name := []string{"a", "default", "kubernetes", "b.example.com"}[n.random.IntN(4)]
			key := "/registry/" + k.prefix + "/" + name
			namespace := ""
			if k.namespaced {
				namespace = []string{"hostile", "default", "nowhere"}[n.random.IntN(3)]
				key = "/registry/" + k.prefix + "/" + namespace + "/" + name
			}
			if n.garbles() && n.random.IntN(12) == 0 {
				key += "/more"
			}
			n.put(key, k.path(namespace)+"/"+name, n.value(k, namespace, name))
		}
	}
}

// garbles says whether a value may be one that cannot be decoded, or another object than its key says. A list has an error if one of its objects
// cannot be decoded, so every other turn has none of these.
func (n *neighbour) garbles() bool { return n.turn%2 == 1 }

// path is that of the objects of a namespace.
func (k *storedKind) path(namespace string) string {
	path := "/apis/" + k.Group + "/" + k.Version
	if k.Group == "" {
		path = "/api/" + k.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + k.resource
}

func (n *neighbour) put(key, path string, value []byte) {
	n.Helper()
	if strings.HasPrefix(key, "/registry/namespaces/default") {
		return // where others ask
	}
	if _, err := n.db.Commit(n.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: value}}}); err != nil {
		n.Fatalf("%s: %v", key, err)
	}
	n.wrote[key] = path
}

// value is what somebody may write for a kind.
func (n *neighbour) value(k storedKind, namespace, name string) []byte {
	if n.garbles() && n.random.IntN(10) == 0 {
		k = n.kinds[n.random.IntN(len(n.kinds))] // of another kind
	}
	obj, err := scheme.Scheme.New(k.GroupVersionKind)
	if err != nil {
		obj = map[string]runtime.Object{"CustomResourceDefinition": &apiextensionsv1.CustomResourceDefinition{}, "APIService": &apiregistrationv1.APIService{}}[k.Kind]
	}
	if n.garbles() {
		n.wild.Fill(obj)
	} else {
		n.plain.Fill(obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	meta := obj.(metav1.Object)
	if !n.garbles() || n.random.IntN(8) > 0 { // what its key says
		meta.SetNamespace(namespace)
		meta.SetName(name)
	}
	if n.random.IntN(3) > 0 {
		meta.SetUID(types.UID(fmt.Sprint("uid", n.random.IntN(9))))
		meta.SetDeletionTimestamp(nil)
	}
	var out bytes.Buffer
	if n.random.IntN(4) == 0 {
		err = json.NewEncoder(&out).Encode(obj)
	} else {
		err = n.codec.Encode(obj, &out)
	}
	b := out.Bytes()
	if err != nil {
		b = []byte("k8s\x00")
	}
	if !n.garbles() {
		return b
	}
	switch n.random.IntN(16) {
	case 0:
		return b[:n.random.IntN(len(b))]
	case 1:
		for range 1 + len(b)/100 {
			b[n.random.IntN(len(b))] ^= 1 << n.random.IntN(8)
		}
	case 2:
		return []byte([]string{"", "{", "null", "k8s", "k8s\x00", "k8s:enc:aesgcm:v1:k:x", "\xd9\xd9\xf7", strings.Repeat(`{"a":`, 20000), strings.Repeat("[", 100000)}[n.random.IntN(9)])
	}
	return b
}

// ask reads each kind in some ways, and writes what must go on.
func (n *neighbour) ask() {
	n.Helper()
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, k := range n.kinds {
		path := k.path("")
		watches.Go(func() {
			n.get(path+"?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "application/json")
		})
		for _, query := range []string{"", "?limit=2", "?resourceVersion=0"} {
			for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/vnd.kubernetes.protobuf"} {
				if query != "" && accept != "application/json" && n.random.IntN(6) > 0 {
					continue
				}
				n.get(path+query, accept)
			}
		}
	}
	for _, path := range []string{"/livez", "/api", "/apis", "/openapi/v2", "/openapi/v3", "/metrics", "/apis/apps/v1"} {
		if code := n.get(path, "*/*"); code != 200 {
			n.Errorf("%s: %d", path, code)
		}
	}
}

// change asks to change what is stored, in ways that look at all of it.
func (n *neighbour) change() {
	n.Helper()
	const merge, status = "application/merge-patch+json", `{"status":{"phase":"a","conditions":[{"type":"A","status":"True"}]}}`
	for _, key := range slices.Sorted(maps.Keys(n.wrote)) {
		path := n.wrote[key]
		_, is := n.send("GET", path, "", "application/json", "")
		for _, c := range []struct{ method, path, contentType, body string }{
			{"PATCH", path + "?dryRun=All", merge, `{"metadata":{"labels":{"x":"y"}}}`},
			{"PATCH", path, "application/strategic-merge-patch+json", `{"metadata":{"annotations":{"x":"y"},"finalizers":null}}`},
			{"PATCH", path + "?fieldManager=m&force=true&dryRun=All", "application/apply-patch+yaml", `{"metadata":{"labels":{"z":"y"}}}`},
			{"PUT", path, "application/json", is},
			{"PUT", path + "/status", "application/json", is},
			{"PATCH", path + "/status", merge, status},
			{"PATCH", path + "/scale", merge, `{"spec":{"replicas":2}}`},
			{"GET", path + "/scale", "", ""},
			{"POST", path + "/eviction", "application/json", `{"metadata":{"name":"` + path[strings.LastIndexByte(path, '/')+1:] + `"}}`},
			{"POST", path + "/binding", "application/json", `{"target":{"name":"a"}}`},
			{"PATCH", path + "/resize", merge, `{"spec":{"containers":[{"name":"a"}]}}`},
			{"PATCH", path + "/ephemeralcontainers", merge, `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`},
			{"DELETE", path + "?dryRun=All", "", ""},
			{"DELETE", path + "?propagationPolicy=Foreground", "", ""},
		} {
			if n.random.IntN(3) == 0 {
				n.send(c.method, c.path, c.contentType, "application/json", c.body)
			}
		}
	}
}

func (n *neighbour) get(path, accept string) int {
	n.Helper()
	code, _ := n.send("GET", path, "", accept, "")
	return code
}

// send sends a request, and returns the answer.
func (n *neighbour) send(method, path, contentType, accept, body string) (int, string) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), 30*time.Second)
	defer cancel()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req = req.WithContext(inprocess.WithUser(ctx, masters))
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	n.server.handler.ServeHTTP(w, req)
	if w.Code >= 500 && strings.Contains(w.Body.String(), "panic") {
		n.Errorf("%s %s (%s) %s: %d %.300s", method, path, accept, body, w.Code, w.Body)
	}
	if ctx.Err() != nil {
		n.Errorf("%s %s (%s): no end within half a minute", method, path, accept)
	}
	n.mu.Lock()
	n.codes[w.Code]++
	n.mu.Unlock()
	return w.Code, w.Body.String()
}

// restart starts the server anew, on what is stored.
func (n *neighbour) restart() {
	n.Helper()
	err := n.plane.Stop()
	if err == nil {
		err = n.plane.Start(context.Background())
	}
	if err != nil {
		n.Fatal(err)
	}
	n.server = n.plane.serving.Load()
}

// removeAll takes everything away.
func (n *neighbour) removeAll() {
	n.Helper()
	for key := range n.wrote {
		if _, err := n.db.Commit(n.Context(), kv.Txn{Then: []kv.Op{{Key: key, Delete: true}}}); err != nil {
			n.Fatal(err)
		}
	}
}

// panics is a log of which only panics are kept, each place once.
type panics struct {
	mu   sync.Mutex
	said map[string]*panicked
}

type panicked struct {
	times int
	text  string
}

func (p *panics) all() map[string]*panicked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.said)
}

func (*panics) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (p *panics) WithAttrs([]slog.Attr) slog.Handler         { return p }
func (p *panics) WithGroup(string) slog.Handler              { return p }

// Handle is part of slog.Handler.
func (p *panics) Handle(_ context.Context, r slog.Record) error {
	text, stack := r.Message, ""
	r.Attrs(func(a slog.Attr) bool {
		text += "\n" + a.String()
		if a.Key == "stack" {
			stack = a.Value.String()
		}
		return true
	})
	if stack == "" {
		return nil
	}
	_, at, _ := strings.Cut(stack, "\npanic(")
	lines := strings.Split(at, "\n")
	place := lines[min(3, len(lines)-1)] // after those of panic itself
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said == nil {
		p.said = map[string]*panicked{}
	}
	if p.said[place] == nil {
		p.said[place] = &panicked{text: text}
	}
	p.said[place].times++
	return nil
}

// TestObjectOfAnotherKey stores a role under the key of another. It is not taken for the one that it says it is.
func TestObjectOfAnotherKey(t *testing.T) {
	n := newNeighbour(t)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	const all = `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`
	for user, role := range map[string]string{"bob": "little", "carol": "late"} {
		do(t, n.server, "POST", rbac+"clusterroles", "application/json", "", []byte(`{"metadata":{"name":"`+role+`"}}`), 201)
		do(t, n.server, "POST", rbac+"clusterrolebindings", "application/json", "", []byte(`{"metadata":{"name":"`+role+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+role+`"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"`+user+`"}]}`), 201)
	}
	may := func(user string) bool {
		t.Helper()
		return strings.Contains(string(do(t, n.server, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", "",
			[]byte(`{"spec":{"user":"`+user+`","resourceAttributes":{"verb":"list","resource":"secrets"}}}`), 201)), `"allowed":true`)
	}
	n.put("/registry/clusterroles/other", rbac+"clusterroles/other", []byte(`{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"little","uid":"u"},`+all+`}`))
	do(t, n.server, "PATCH", rbac+"clusterroles/late", "application/merge-patch+json", "", []byte(`{`+all+`}`), 200)
	for end := time.Now().Add(30 * time.Second); !may("carol"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a role that was written afterwards is not seen")
		}
	}
	if may("bob") {
		t.Error("bob has the rights of a role that only says that it is his")
	}
}
