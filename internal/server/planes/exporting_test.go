package planes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	exportsPath     = "/apis/planes.kanzen.io/v1/exports"
	bindingsPath    = "/apis/planes.kanzen.io/v1/bindings"
	widgetsPath     = "/apis/example.com/v1/namespaces/default/widgets"
	allWidgets      = "/exports/widgets/apis/example.com/v1/widgets"
	aliceOfWidgets  = "/exports/widgets/planes/alice"
)

// widgets is a definition; more stands in the schema of spec.
func widgets(more string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"kind":"Widget","plural":"widgets"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object"` + more + `,"properties":{"size":{"type":"integer"}}},"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}]}}`
}

func widget(name string, size int) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q},"spec":{"size":%d}}`, name, size)
}

const mapsClaim = `{"resource":"configmaps","verbs":["get","list","watch","create","delete"],"labelSelector":{"matchLabels":{"widgets":"yes"}}}`

// export has a plane offer widgets to some others.
func (g *ground) export(t testing.TB, consumers string) {
	t.Helper()
	g.must(t, "provider", "POST", definitionsPath, widgets(""), nil)
	g.must(t, "provider", "POST", exportsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},"spec":{"resources":[{"group":"example.com","resource":"widgets"}],
		"consumers":`+consumers+`,"claims":[`+mapsClaim+`]}}`, nil)
}

// bind has a plane bind widgets, and waits until a condition is as it is to be.
func (g *ground) bind(t testing.TB, plane, accept string) {
	t.Helper()
	g.must(t, plane, "POST", bindingsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Binding","metadata":{"name":"widgets"},"spec":{"export":{"plane":"provider","name":"widgets"},"accept":[`+accept+`]}}`, nil)
}

// becomes waits until a condition of a binding has a status and returns its message.
func (g *ground) becomes(t testing.TB, plane, condition string, want metav1.ConditionStatus) (reason, message string) {
	t.Helper()
	var b exports.Binding
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		b = exports.Binding{}
		g.must(t, plane, "GET", bindingsPath+"/widgets", "", &b)
		if c := meta.FindStatusCondition(b.Status.Conditions, condition); c != nil && c.Status == want && c.ObservedGeneration == b.Generation {
			return c.Reason, c.Message
		}
		if time.Now().After(end) {
			t.Fatalf("the binding of %s: %s is not %s: %+v", plane, condition, want, b.Status)
		}
	}
}

// inEachLog runs a test with planes that lie in the log of the root, and with planes in a storage class.
func inEachLog(t *testing.T, cfg func() *config.Config, test func(t *testing.T, g *ground)) {
	if cfg == nil {
		cfg = func() *config.Config { return settings(t.TempDir()) }
	}
	t.Run("root", func(t *testing.T) { test(t, start(t, cfg())) })
	t.Run("class", func(t *testing.T) {
		given := newLogs(t).given(nil)
		db := etcdtest.Start(t, false).Dial()
		t.Cleanup(func() { _ = db.Close() })
		given.Classes[1].DB = db
		g := startWith(t, cfg(), given)
		g.class = "b"
		test(t, g)
	})
}

// have creates planes where those of the test lie.
func (g *ground) have(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		g.create(t, name, PlaneSpec{StorageClass: g.class})
	}
}

// seen is what a provider sees of an object.
type seen struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Size int `json:"size"`
	} `json:"spec"`
}

func (s *seen) key() string {
	return s.Metadata.Annotations[exports.PlaneAnnotation] + "/" + s.Metadata.Namespace + "/" + s.Metadata.Name
}

// lists returns what the provider's list has, by plane, namespace and name.
func (g *ground) lists(t testing.TB, path string) map[string]seen {
	t.Helper()
	var list struct{ Items []seen }
	g.must(t, "provider", "GET", path, "", &list)
	out := map[string]seen{}
	for _, o := range list.Items {
		out[o.key()] = o
	}
	return out
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func (g *ground) fails(t testing.TB, code int, words, plane, method, path, body string) {
	t.Helper()
	if got, answer := g.ask(t, plane, plane, method, path, body); got != code || !strings.Contains(answer, words) {
		t.Errorf("%s %s of %s: %d %s; want %d and %q", method, path, plane, got, answer, code, words)
	}
}

// A kind that is bound is served with the provider's schema; the provider sees its objects in all planes and writes them in each; what
// it may do with other kinds is what was accepted. When the binding goes, all of that goes.
func TestExport(t *testing.T) { inEachLog(t, nil, testExport) }

func testExport(t *testing.T, g *ground) {
	g.have(t, "provider", "alice", "bob", "carol")
	g.export(t, `{"planes":["alice","bob"]}`)
	for _, name := range []string{"alice", "bob"} {
		g.bind(t, name, mapsClaim)
		g.becomes(t, name, exports.Bound, metav1.ConditionTrue)
		g.becomes(t, name, exports.ClaimsAccepted, metav1.ConditionTrue)
		g.must(t, name, "POST", widgetsPath, widget("w", len(name)), nil)
	}
	g.bind(t, "carol", "")
	if reason, message := g.becomes(t, "carol", exports.Bound, metav1.ConditionFalse); reason != "NoExport" || message != "there is no export provider/widgets for this plane" {
		t.Errorf("%s: %s", reason, message)
	}
	if got := g.lists(t, allWidgets); len(got) != 2 || got["alice/default/w"].Spec.Size != 5 || got["bob/default/w"].Spec.Size != 3 {
		t.Errorf("%+v", got)
	}
	if got := g.lists(t, "/exports/widgets"+widgetsPath+"?fieldSelector=metadata.name%3Dw&limit=10"); len(got) != 2 {
		t.Errorf("by name: %+v", got)
	}
	g.providerWrites(t)
	g.definitionsAreKept(t)
	g.must(t, "alice", "DELETE", bindingsPath+"/widgets", "", nil)
	eventually(t, "the binding of alice stays", func() bool {
		code, _ := g.ask(t, "alice", "alice", "GET", bindingsPath+"/widgets", "")
		return code == http.StatusNotFound
	})
	g.fails(t, 404, "", "alice", "GET", definitionsPath+"/widgets.example.com", "")
	g.fails(t, 404, "", "provider", "GET", aliceOfWidgets+widgetsPath, "")
	if got := g.lists(t, allWidgets); len(got) != 1 {
		t.Errorf("without alice: %+v", got)
	}
	if got := g.lists(t, "/exports/widgets/api/v1/configmaps"); len(got) != 0 {
		t.Errorf("maps without alice: %+v", got)
	}
	var bound struct{ Items []struct{ Name string } }
	g.must(t, "provider", "GET", "/exports/widgets/planes", "", &bound)
	if len(bound.Items) != 1 || bound.Items[0].Name != "bob" {
		t.Errorf("planes: %+v", bound)
	}
}

// providerWrites has the provider do what it may and may not in a plane.
func (g *ground) providerWrites(t *testing.T) {
	status := `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"status":{"phase":"made"}}`
	g.must(t, "provider", "PATCH", aliceOfWidgets+widgetsPath+"/w/status?fieldManager=t", status, nil)
	g.must(t, "provider", "POST", aliceOfWidgets+widgetsPath, widget("own", 1), nil)
	g.must(t, "provider", "DELETE", aliceOfWidgets+widgetsPath+"/own", "", nil)
	g.must(t, "provider", "POST", aliceOfWidgets+configMaps, `{"metadata":{"name":"mine","labels":{"widgets":"yes"}}}`, nil)
	g.must(t, "alice", "POST", configMaps, `{"metadata":{"name":"other"}}`, nil)
	for _, path := range []string{"/exports/widgets/api/v1/configmaps", aliceOfWidgets + configMaps} {
		if got := g.lists(t, path); len(got) != 1 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	g.fails(t, 403, "rights only to those that match widgets=yes", "provider", "POST", aliceOfWidgets+configMaps, `{"metadata":{"name":"theirs"}}`)
	g.fails(t, 403, "rights only to those that match widgets=yes", "provider", "DELETE", aliceOfWidgets+configMaps+"/other", "")
	g.fails(t, 404, `configmaps \"other\" not found`, "provider", "GET", aliceOfWidgets+configMaps+"/other", "")
	g.fails(t, 403, `does not give the export provider/widgets the verb \"patch\"`, "provider", "PATCH", aliceOfWidgets+configMaps+"/mine", `{}`)
	g.fails(t, 403, "does not give the export", "provider", "GET", aliceOfWidgets+"/api/v1/secrets", "")
	g.fails(t, 403, "does not give the export", "provider", "GET", aliceOfWidgets+"/apis/rbac.authorization.k8s.io/v1/clusterroles", "")
	g.fails(t, 404, `planes.planes.kanzen.io \"carol\" not found`, "provider", "GET", "/exports/widgets/planes/carol"+widgetsPath, "")
	g.fails(t, 404, `planes.planes.kanzen.io \"nobody\" not found`, "provider", "GET", "/exports/widgets/planes/nobody"+widgetsPath, "")
	g.fails(t, 404, `exports.planes.kanzen.io \"none\" not found`, "provider", "GET", "/exports/none/apis", "")
	g.fails(t, 404, "", "provider", "GET", "/exports/widgets/api/v1/secrets", "")
	g.fails(t, 405, "has lists and watches only", "provider", "GET", "/exports/widgets"+widgetsPath+"/w", "")
	g.fails(t, 405, "has lists and watches only", "provider", "POST", "/exports/widgets"+widgetsPath, widget("x", 1))
	// One request has one audit ID, and a wish for another protocol, which cannot be had here, is passed over.
	watch := g.request(t, "provider", "GET", "https://root/planes/provider"+aliceOfWidgets+widgetsPath+"?watch=1&timeoutSeconds=1", "", "Connection", "Upgrade", "Upgrade", "websocket")
	if watch.Code != http.StatusOK || len(watch.Header()["Audit-Id"]) != 1 || len(watch.Header()["Cache-Control"]) != 1 {
		t.Errorf("a watch: %d %v", watch.Code, watch.Header())
	}
	for _, path := range []string{"/exports/widgets/apis", aliceOfWidgets + "/apis"} {
		if _, answer := g.ask(t, "provider", "provider", "GET", path, ""); !strings.Contains(answer, "example.com") || strings.Contains(answer, "rbac") {
			t.Errorf("%s: %s", path, answer)
		}
	}
	if code, _ := g.ask(t, "alice", "provider", "GET", allWidgets, ""); code != http.StatusUnauthorized {
		t.Errorf("the view as the administrator of a consumer: %d", code)
	}
	if code, answer := g.asNobody(t, "provider", allWidgets); code != http.StatusForbidden {
		t.Errorf("the view as a user without rights: %d %s", code, answer)
	}
}

// asNobody asks a plane as one of its users who may do nothing.
func (g *ground) asNobody(t *testing.T, plane, path string) (int, string) {
	r := httptest.NewRequest("GET", "https://root"+path, nil).WithContext(t.Context())
	resp, err := g.Transport(plane, &userInfo{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

type userInfo struct{}

func (*userInfo) GetName() string               { return "ann" }
func (*userInfo) GetUID() string                { return "" }
func (*userInfo) GetGroups() []string           { return []string{"system:authenticated"} }
func (*userInfo) GetExtra() map[string][]string { return nil }

// definitionsAreKept has a consumer try to change what it has bound.
func (g *ground) definitionsAreKept(t *testing.T) {
	const path = definitionsPath + "/widgets.example.com"
	g.fails(t, 403, "delete the binding widgets instead", "alice", "DELETE", path, "")
	var d map[string]any
	g.must(t, "alice", "GET", path, "", &d)
	change := func(f func(meta, spec map[string]any)) string {
		text, _ := json.Marshal(d)
		var c map[string]any
		_ = json.Unmarshal(text, &c)
		f(c["metadata"].(map[string]any), c["spec"].(map[string]any))
		text, _ = json.Marshal(c)
		return string(text)
	}
	g.fails(t, 403, "only labels and annotations", "alice", "PUT", path, change(func(_, spec map[string]any) { spec["names"].(map[string]any)["shortNames"] = []string{"wi"} }))
	g.fails(t, 403, "only labels and annotations", "alice", "PUT", path, change(func(meta, _ map[string]any) { delete(meta, "ownerReferences") }))
	g.fails(t, 403, "only labels and annotations", "alice", "PUT", path, change(func(meta, _ map[string]any) { delete(meta, "annotations") }))
	g.fails(t, 403, "its status is not to be changed", "alice", "PUT", path+"/status", change(func(_, _ map[string]any) {}))
	g.must(t, "alice", "PUT", path, change(func(meta, _ map[string]any) { meta["labels"] = map[string]any{"a": "b"} }), nil)
	g.fails(t, 403, "kinds of the server only", "alice", "POST", definitionsPath, strings.NewReplacer("example.com", "planes.kanzen.io", "widgets", "bindings").Replace(widgets("")))
}

// A schema that does not fit what a plane has stored is held back there, and taken elsewhere.
func TestExportedSchemas(t *testing.T) { inEachLog(t, nil, testExportedSchemas) }

func testExportedSchemas(t *testing.T, g *ground) {
	g.have(t, "provider", "alice", "bob")
	g.must(t, "bob", "POST", definitionsPath, widgets(""), nil)
	g.export(t, `{"all":true}`)
	for _, name := range []string{"alice", "bob"} {
		g.bind(t, name, "")
	}
	g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	if reason, message := g.becomes(t, "bob", exports.Bound, metav1.ConditionFalse); reason != "Conflict" {
		t.Errorf("%s: %s", reason, message)
	}
	g.must(t, "bob", "DELETE", definitionsPath+"/widgets.example.com", "", nil)
	g.becomes(t, "bob", exports.Bound, metav1.ConditionTrue)
	for n := range 5 {
		g.must(t, "alice", "POST", widgetsPath, widget(fmt.Sprint("w", n), 10+n), nil)
	}
	g.must(t, "bob", "POST", widgetsPath, widget("w", 1), nil)

	g.must(t, "provider", "PATCH", definitionsPath+"/widgets.example.com?fieldManager=t&force=true", widgets(`,"x-kubernetes-validations":[{"rule":"self.size < 12"}]`), nil)
	_, message := g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionFalse)
	if !strings.Contains(message, "3 objects of widgets.example.com do not fit the new schema: default/w2: spec: Invalid value") {
		t.Error(message)
	}
	// A definition that is written is served a moment later, so what it refuses is asked until it is.
	hasRule := func(name string) {
		t.Helper()
		eventually(t, name+" does not get the new schema", func() bool {
			code, answer := g.ask(t, name, name, "POST", widgetsPath+"?dryRun=All", widget("large", 20))
			return code == http.StatusUnprocessableEntity && strings.Contains(answer, "failed rule: self.size")
		})
	}
	hasRule("bob")
	g.must(t, "alice", "POST", widgetsPath, widget("large", 20), nil) // by the schema that it still has
	for _, name := range []string{"w2", "w3", "w4", "large"} {
		g.must(t, "alice", "DELETE", widgetsPath+"/"+name, "", nil)
	}
	g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionTrue)
	hasRule("alice")

	// A version that is stored does not go away.
	v2 := strings.Replace(widgets(""), `"name":"v1"`, `"name":"v2"`, 1)
	g.must(t, "provider", "DELETE", definitionsPath+"/widgets.example.com", "", nil)
	g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionFalse)
	eventually(t, "the definition stays", func() bool {
		code, _ := g.ask(t, "provider", "provider", "POST", definitionsPath, v2)
		return code == http.StatusCreated
	})
	eventually(t, "a version that goes away is not held back", func() bool {
		_, message := g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionFalse)
		return strings.Contains(message, "it is stored in version v1, which is no more")
	})
	g.must(t, "alice", "GET", widgetsPath+"/w0", "", nil)
	for _, name := range []string{"w0", "w1"} {
		g.must(t, "alice", "DELETE", widgetsPath+"/"+name, "", nil)
	}
	g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionTrue)
	eventually(t, "alice does not serve the new version", func() bool {
		code, _ := g.ask(t, "alice", "alice", "GET", strings.Replace(widgetsPath, "v1", "v2", 1), "")
		return code == http.StatusOK
	})
}

// Rights that are withdrawn, and a provider that is deleted, take the provider's view away and leave objects.
func TestExportWithdrawn(t *testing.T) { inEachLog(t, nil, testExportWithdrawn) }

func testExportWithdrawn(t *testing.T, g *ground) {
	g.have(t, "provider", "alice", "bob")
	g.export(t, `{"all":true}`)
	for _, name := range []string{"alice", "bob"} {
		g.bind(t, name, "")
		g.becomes(t, name, exports.Bound, metav1.ConditionTrue)
		g.must(t, name, "POST", widgetsPath, widget("w", 1), nil)
	}
	g.must(t, "provider", "PATCH", exportsPath+"/widgets?fieldManager=t&force=true", `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},
		"spec":{"resources":[{"group":"example.com","resource":"widgets"}],"consumers":{"all":false,"planes":["bob"]}}}`, nil)
	g.becomes(t, "alice", exports.Bound, metav1.ConditionFalse)
	eventually(t, "the provider still sees alice", func() bool { return len(g.lists(t, allWidgets)) == 1 })
	g.must(t, "alice", "GET", widgetsPath+"/w", "", nil)
	for _, again := range []bool{false, true} {
		if err := g.Delete(t.Context(), "provider"); err != nil {
			t.Fatal(err)
		}
		delete(g.certs, "provider")
		if again {
			break
		}
		g.becomes(t, "bob", exports.Bound, metav1.ConditionFalse)
		// Another plane of the name has no part in what the first one had.
		g.have(t, "provider")
		g.export(t, `{"all":true}`)
		eventually(t, "another export is not told apart", func() bool {
			reason, _ := g.becomes(t, "bob", exports.Bound, metav1.ConditionFalse)
			return reason == "AnotherExport"
		})
		eventually(t, "the kind is not offered", func() bool { // its definition may not be established yet
			code, _ := g.ask(t, "provider", "provider", "GET", allWidgets, "")
			return code == http.StatusOK
		})
		if got := g.lists(t, allWidgets); len(got) != 0 {
			t.Errorf("another provider sees %+v", got)
		}
	}
	g.must(t, "bob", "GET", widgetsPath+"/w", "", nil)
	g.must(t, "bob", "DELETE", bindingsPath+"/widgets", "", nil)
	eventually(t, "the binding stays", func() bool {
		code, _ := g.ask(t, "bob", "bob", "GET", widgetsPath+"/w", "")
		return code == http.StatusNotFound
	})
}

// What is encrypted is read by the controller, the view and the check of schemas as it is in planes.
func TestExportEncrypted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	const configuration = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["*.*"],"providers":[
		{"aesgcm":{"keys":[{"name":"k","secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}}]}]}`
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	inEachLog(t, func() *config.Config {
		cfg := settings(t.TempDir())
		cfg.EncryptionConfigFile = file
		return cfg
	}, testExportEncrypted)
}

func testExportEncrypted(t *testing.T, g *ground) {
	g.have(t, "provider", "alice")
	g.export(t, `{"all":true}`)
	g.bind(t, "alice", mapsClaim)
	g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
	informer := g.inform(t)
	g.must(t, "alice", "POST", widgetsPath, widget("w", 20), nil)
	g.must(t, "provider", "POST", aliceOfWidgets+configMaps, `{"metadata":{"name":"mine","labels":{"widgets":"yes"}}}`, nil)
	if got := g.lists(t, "/exports/widgets/api/v1/configmaps"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	eventually(t, "the informer does not have it", func() bool { return len(held(informer)) == 1 })
	plain := false
	_, err := g.classes[g.class].db.Range(t.Context(), kv.Range{Key: Prefix, End: kv.PrefixEnd(Prefix)}, func(k kv.KeyValue) bool {
		plain = plain || strings.Contains(string(k.Value), `"kind":"Widget"`) && strings.Contains(string(k.Key), "example.com/widgets")
		return true
	})
	if err != nil || plain {
		t.Errorf("stored in plain text: %v, %v", plain, err)
	}
	g.must(t, "provider", "PATCH", definitionsPath+"/widgets.example.com?fieldManager=t&force=true", widgets(`,"x-kubernetes-validations":[{"rule":"self.size < 12"}]`), nil)
	if _, message := g.becomes(t, "alice", exports.SchemasFit, metav1.ConditionFalse); !strings.Contains(message, "1 objects") {
		t.Error(message)
	}
}

// Watches of a provider take no seats of its plane, however many there are.
func TestExportWatches(t *testing.T) { inEachLog(t, nil, testExportWatches) }

func testExportWatches(t *testing.T, g *ground) {
	g.have(t, "provider")
	g.export(t, `{"all":true}`)
	eventually(t, "the kind is not offered", func() bool {
		code, _ := g.ask(t, "provider", "provider", "GET", allWidgets, "")
		return code == http.StatusOK
	})
	many := int64(cap(g.find("provider").seats.Load().taken) + 1)
	ctx, cancel := context.WithCancel(t.Context())
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	for range many {
		r := httptest.NewRequest("GET", "https://root/planes/provider"+allWidgets+"?watch=true", nil).WithContext(ctx)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{g.administrator(t, "provider")}}
		watches.Go(func() { g.front.ServeHTTP(httptest.NewRecorder(), r) })
	}
	eventually(t, "the watches do not begin", func() bool { return g.find("provider").watching.Load() == many })
	if got := g.lists(t, allWidgets); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
