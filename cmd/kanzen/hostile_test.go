package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	forksv1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// kubeconfigOf writes a kubeconfig of a server.
func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"default"}},{"name":"other","context":{"cluster":"other","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":%q}},{"name":"other","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"x"}}]}`, url, url+"/forks/a")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// said runs a command and returns all that it prints, its error as well.
func said(ctx context.Context, args ...string) (string, error) {
	cmd := rootCommand()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		exitCode(&out, err)
	}
	return out.String(), err
}

// askers are the commands that ask a server.
func askers(t *testing.T, files ...string) [][]string {
	dir := t.TempDir()
	all := [][]string{
		{"console", "--open=false"}, {"console", "--open=false", "-o", "json"}, {"diagnose"}, {"diagnose", "-o", "json"},
		{"explain-access", "--as", "alice", "get", "widgets"}, {"explain-access", "--as", "alice", "get", "/metrics", "-o", "json"}, {"explain-access", "--as", "alice", "get", "nothing"},
		{"grant", "--as", "alice", "get", "widgets"}, {"grant", "--as", "alice", "get", "widgets", "--yes"},
		{"apply", "-f", "kwok.yaml"}, {"plan", "-f", "kwok.yaml"}, {"plan", "-f", "kwok.yaml", "-o", "json"}, {"fork", "list"}, {"fork", "create", "a"},
		{"history", "widgets/x"}, {"history", "widgets", "-o", "json"}, {"get", "widgets/x", "--at", "1h"}, {"get", "widgets/x", "--at", "1h", "-o", "json"}, {"diff", "widgets/x@1h"}, {"diff", "--at", "2h"}, {"diff", "widgets", "--at", "2h", "--at", "1h", "-o", "json"}, {"diff", "--context", "c", "--with-context", "other"}, {"blame", "widgets/x"}, {"blame", "widgets/x", "-o", "json"}, {"undelete", "widgets/x"}, {"forget", "widgets/x"},
		{"fork", "diff", "a"}, {"diff", "--fork", "a"}, {"diff", "--fork", "a", "--fork", "b"}, {"fork", "merge", "a"}, {"fork", "merge", "a", "-o", "json"}, {"fork", "merge", "refused"}, {"fork", "merge", "refused", "-o", "json"}, {"fork", "merge", "a", "--dry-run"}, {"fork", "diff", "a", "-o", "json"}, {"fork", "kubeconfig", "a"}, {"fork", "delete", "a"},
		{"why", "widgets/x"}, {"why", "widgets/x", "-o", "json"}, {"why", "nothing/x"}, {"encryption", "status"}, {"encryption", "rewrite"},
		{"top", "--once", "--window=500ms"}, {"top", "--once", "--planes", "--window=500ms"}, {"top", "--window=500ms", "-o", "json"}, {"snapshot", "save", filepath.Join(dir, "saved")},
	}
	for _, f := range files {
		all = append(all, []string{"snapshot", "diff", f}, []string{"snapshot", "restore", f, "--all"}, []string{"snapshot", "restore", f, "--all", "--overwrite", "--dry-run"})
	}
	return all
}

// full fills a value with a text wherever there is room for one.
func full(v reflect.Value, text string, depth int) {
	now := time.Now().Add(-time.Hour)
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.NewTime(now)
		return
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(now)
		return
	case *metav1.ListMeta:
		p.ResourceVersion = text
		return
	case *metav1.Duration:
		p.Duration = time.Second
		return
	case *resource.Quantity:
		*p = resource.MustParse("1")
		return
	case *intstr.IntOrString, *metav1.FieldsV1, *k8sruntime.RawExtension, *apiextensionsv1.JSON, *apiextensionsv1.JSONSchemaProps:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(500)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Struct:
		for n := range v.NumField() {
			if f := v.Field(n); f.CanSet() {
				full(f, text, depth)
			}
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			full(v.Elem(), text, depth-1)
		}
	case reflect.Slice:
		if depth > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			full(v.Index(0), text, depth-1)
			full(v.Index(1), text, depth-1)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Key().Kind() == reflect.String {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(text)
			full(value, text, depth-1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	}
}

func filled[T any](text string) *T {
	v := new(T)
	full(reflect.ValueOf(v).Elem(), text, 8)
	return v
}

// teller is a server whose every text is the same one.
func teller(text string) http.HandlerFunc {
	answers := map[string]any{
		"objecthistories": filled[v1alpha1.ObjectHistory](text), "accessexplanations": filled[v1alpha1.AccessExplanation](text), "codes": map[string]any{"code": text, "seconds": 5},
		"requests": filled[v1alpha1.RequestList](text), "watches": filled[v1alpha1.WatchList](text), "webhookstats": filled[v1alpha1.WebhookStatList](text),
		"deprecateduses": filled[v1alpha1.DeprecatedUseList](text), "datastores": filled[v1alpha1.DatastoreList](text), "definitions": filled[v1alpha1.DefinitionList](text),
		"planestats":                      filled[v1alpha1.PlaneStatList](text),
		"planeservers":                    filled[v1alpha1.PlaneServerList](text),
		"findings":                        filled[v1alpha1.FindingList](text),
		"validatingwebhookconfigurations": filled[admissionv1.ValidatingWebhookConfigurationList](text), "mutatingwebhookconfigurations": filled[admissionv1.MutatingWebhookConfigurationList](text),
		"customresourcedefinitions": filled[apiextensionsv1.CustomResourceDefinitionList](text), "apiservices": filled[apiregistrationv1.APIServiceList](text),
		"namespaces": filled[corev1.NamespaceList](text), "resourcequotas": filled[corev1.ResourceQuotaList](text), "version": map[string]string{"gitVersion": text},
	}
	change := bundlev1.Other{Group: "example.com", Resource: "widgets", Name: text, Result: text}
	unlisted := change
	unlisted.Resource = text
	merged := filled[forksv1.Merge](text)
	raw, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": text, "metadata": map[string]any{"name": text}, "spec": map[string]any{text: text}})
	if err != nil {
		panic(err) // of a text nothing else can be made
	}
	for n := range merged.Status.Objects {
		o := &merged.Status.Objects[n]
		o.Object.Raw = raw
		if n > 0 {
			o.Result = bundlev1.Changed
		}
	}
	conflict := metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: text, Message: text}
	widget := map[string]any{"metadata": filled[metav1.ObjectMeta](text), "status": map[string]any{"conditions": []any{map[string]any{"type": text, "status": "True", "message": text}}}, "spec": map[string]any{text: text}}
	return func(w http.ResponseWriter, r *http.Request) {
		path, copied := r.URL.Path, r.URL.Query().Has("at")
		if name, below, ok := strings.Cut(strings.TrimPrefix(path, "/forks/"), "/"); ok && strings.HasPrefix(path, "/forks/") {
			path, copied = "/"+below, name == "a"
		}
		widget := maps.Clone(widget)
		if copied { // differs
			widget["spec"] = map[string]any{text: []any{text}, text + text: text}
		}
		last := path[strings.LastIndexByte(path, '/')+1:]
		encode := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		w.Header().Set("Warning", `299 - "warned"`)
		switch {
		case path == "/apis":
			r := apidiscoveryv2.APIResourceDiscovery{Resource: "widgets", SingularResource: text, ShortNames: []string{text}, Scope: "Namespaced", Verbs: []string{"list", "delete", "get"},
				ResponseKind: &metav1.GroupVersionKind{Kind: text}}
			others := r
			others.Resource = "gadgets"
			list := apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{ObjectMeta: metav1.ObjectMeta{Name: "example.com"},
				Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{r, others}}}}}}
			encode(list)
		case path == "/api":
			encode(apidiscoveryv2.APIGroupDiscoveryList{})
		case path == "/readyz", path == "/metrics":
			fmt.Fprintf(w, "[-]%s\n", text)
		case path == encryption.Path:
			encode(encryption.Line{Progress: &encryption.Progress{Step: text}})
			encode(encryption.Line{Report: filled[encryption.Report](text)})
		case last == "requests" && r.URL.Query().Has("watch"):
			encode(map[string]any{"type": "ADDED", "object": filled[v1alpha1.Request](text)})
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case last == "gadgets":
			w.WriteHeader(http.StatusForbidden)
			encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Code: 403, Message: text, Reason: metav1.StatusReason(text)})
		case strings.HasPrefix(path, "/forks/"):
			encode(forks.Info{Name: text, Creator: text, Changes: []bundlev1.Other{change, unlisted}})
		case last == "merges":
			var asked forksv1.Merge
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Spec.Fork != "refused" {
				encode(merged)
				return
			}
			w.WriteHeader(http.StatusConflict)
			encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Status: "Failure", Code: 409, Message: text, Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{conflict, conflict}}})
		case answers[last] != nil:
			encode(answers[last])
		case r.Method == http.MethodPost && strings.HasSuffix(path, "/widgets"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Code: 422, Message: text, Reason: metav1.StatusReasonInvalid})
		case last == "widgets":
			encode(map[string]any{"apiVersion": "example.com/v1", "kind": "WidgetList", "items": []any{widget}})
		default:
			encode(widget)
		}
	}
}

// TestHostileServer runs each command that asks a server on one whose texts are nasty, and on one that answers the same with
// plain ones: nothing but visible characters is printed, and in as many lines.
func TestHostileServer(t *testing.T) {
	plainFile, nastyFile := hostileSnapshots(t)
	plainServer, nastyServer := httptest.NewServer(teller("x")), httptest.NewServer(teller(nasty))
	defer plainServer.Close()
	defer nastyServer.Close()
	one, other := kubeconfigOf(t, plainServer.URL), kubeconfigOf(t, nastyServer.URL)
	with := func(args []string, kubeconfig string) string {
		text, _ := said(t.Context(), append(args, "--kubeconfig", kubeconfig)...)
		return text
	}
	shown := 0
	compare := func(args []string, want, got string) {
		t.Helper()
		clean(t, strings.Join(args, " "), got)
		if a, b := strings.Count(want, "\n"), strings.Count(got, "\n"); a != b || a == 0 {
			t.Errorf("%q prints %d lines, of plain texts %d:\n%s\n%s", args, b, a, got, want)
		}
		if strings.Contains(got, "PWNED") {
			shown++
		}
	}
	// grant shows the role of a path even if the server refuses to say whether that is needed.
	for _, args := range append(askers(t, plainFile), []string{"grant", "--as-group", "dev", "get", "/metrics", "-o", "json"}) {
		compare(args, with(args, one), with(args, other))
	}
	clean(t, "get -o yaml", with([]string{"get", "widgets/x", "-o", "yaml"}, other)) // its lines are not as many: some texts have several
	for n, args := range askers(t, nastyFile) {
		if n >= len(askers(t)) {
			compare(args, with(append(args[:2:2], append([]string{plainFile}, args[3:]...)...), one), with(args, other))
		}
	}
	for _, args := range [][]string{{"snapshot", "diff", plainFile}, {"snapshot", "inspect"}, {"snapshot", "inspect", "-o", "json"}} {
		want, _ := said(t.Context(), append(args, plainFile)...)
		got, err := said(t.Context(), append(args, nastyFile)...)
		if err != nil {
			t.Error(err)
		}
		clean(t, strings.Join(args, " "), got)
		if args[1] == "inspect" && strings.Count(want, "\n") != strings.Count(got, "\n") || args[1] == "diff" && strings.Count(got, "\n") != 2 {
			t.Errorf("%q: %s\n%s", args, got, want)
		}
	}
	if shown < 12 {
		t.Errorf("only %d answers were shown", shown)
	}
}

// hostileSnapshots makes two snapshots of a custom resource: with plain field names, and with nasty ones.
func hostileSnapshots(t *testing.T) (plainFile, nastyFile string) {
	t.Helper()
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	save := func(name, text string) string {
		obj, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "spec": map[string]any{text: text}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/example.com/widgets/default/w", Value: obj}}}); err != nil {
			t.Fatal(err)
		}
		from, err := db.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		path := filepath.Join(t.TempDir(), name)
		if err := snapshot.Save(t.Context(), from, path, nil); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return save("plain.db", "x"), save("nasty.db", nasty)
}

// TestRefusals has a server refuse everything with nasty texts, in each of the ways in which one can.
func TestRefusals(t *testing.T) {
	status, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Code: 403, Message: nasty, Reason: metav1.StatusReason(nasty),
		Details: &metav1.StatusDetails{Name: nasty, Causes: []metav1.StatusCause{{Field: nasty, Message: nasty}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{301, 401, 403, 404, 429, 500} {
		for kind, body := range map[string]string{"Status": string(status), "text": nasty, "JSON": `{"message":"` + strings.Repeat(`\u001b\n`, 100) + `"}`, "nothing": "", "much": strings.Repeat(nasty, 10_000)} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			}))
			kubeconfig := kubeconfigOf(t, server.URL)
			for _, args := range append(askers(t), []string{"record"}) {
				got, _ := said(t.Context(), append(args, "--kubeconfig", kubeconfig)...)
				clean(t, fmt.Sprintf("%d %s: %v", code, kind, args), got)
				if lines := strings.Count(got, "\n"); lines != 1 && (args[0] != "top" || lines != 2) { // top asks two things at once
					t.Errorf("%d %s: %v prints %d lines: %s", code, kind, args, lines, got)
				}
			}
			server.Close()
		}
	}
}

// TestTopOfHostileServers has top ask servers that answer what is wrong, too much, or without an end.
func TestTopOfHostileServers(t *testing.T) {
	endless := func(begin, more string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, err := io.WriteString(w, begin)
			for chunk := strings.Repeat(more, 64<<10/max(len(more), 1)+1); err == nil && r.Context().Err() == nil; {
				if more == "" {
					<-r.Context().Done()
					return
				}
				_, err = io.WriteString(w, chunk)
			}
		}
	}
	answers := map[string]http.HandlerFunc{
		"nothing": endless("", ""), "spaces": endless("", " "), "a text": endless(`{"items":["`, "a"), "objects": endless(`{"items":[{}`, ",{}"), "keys": endless(`{"items":[{"a":1`, `,"a":1`),
		"owners": endless(`{"items":[{"metadata":{"ownerReferences":[{}`, ",{}"), "brackets": endless("", "["), "names": endless(`{"x":1`, `,"x":1`), "steps": endless(`{"type":"ADDED","object":{"steps":[{}`, ",{}"),
		"events": endless("", `{"type":"ADDED","object":{"verb":"get","weight":9223372036854775807,"duration":"2562047h","time":"9999-12-31T23:59:59.999999Z","user":"`+strings.Repeat("u", 900)+`"}}`+"\n"),
	}
	for _, body := range []string{"", "null", "[]", "1", `"a"`, "{", `{"items":{}}`, `{"items":1}`, `{"items":[1]}`, `{"items":[null]}`, `{"items":[{"metadata":1}]}`, `{"items":null}`, `{"metadata":[]}`,
		`{"items":[{"lag":"x","events":"y"}]}`, `{"type":1}`, `{"type":"ADDED"}`, `{"type":"ADDED","object":null}`, `{"type":"ADDED","object":{"time":"\u001b"}}`, `{"type":"` + "\x1b[2J" + `"}`,
		`{"type":"ADDED","object":{"duration":"-1h","weight":-1,"code":-2147483648}}`, "\x00\xff", nasty} {
		answers[body] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
	}
	for name, answer := range answers {
		for _, mode := range []string{"lists", "the watch", "all"} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if watch := r.URL.Query().Has("watch"); mode == "all" || watch == (mode == "the watch") {
					answer(w, r)
					return
				}
				teller(nasty)(w, r)
			}))
			peak, done := watchHeap()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			got, _ := said(ctx, "top", "--once", "--window=500ms", "--kubeconfig", kubeconfigOf(t, server.URL))
			cancel()
			done()
			server.CloseClientConnections()
			server.Close()
			clean(t, name+" for "+mode, got)
			if mib := peak.Load() >> 20; mib > 700 {
				t.Errorf("%.40q for %s: %d MiB", name, mode, mib)
			}
		}
	}
}

// watchHeap returns by how much the heap has grown at most, until done is called.
func watchHeap() (peak *atomic.Int64, done func()) {
	runtime.GC()
	used := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, ended, gone := used(), make(chan struct{}), make(chan struct{})
	peak = new(atomic.Int64)
	go func() {
		defer close(gone)
		for ticker := time.NewTicker(20 * time.Millisecond); ; {
			peak.Store(max(peak.Load(), used()-before))
			select {
			case <-ticker.C:
			case <-ended:
				ticker.Stop()
				return
			}
		}
	}()
	return peak, func() { close(ended); <-gone }
}
