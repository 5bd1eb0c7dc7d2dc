package test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// TestManifests applies the manifests of well-known projects as `kubectl apply
// --server-side --force-conflicts` does, and holds every answer against what
// kube-apiserver v1.36.3 gave, with --emulated-version=1.36.
func TestManifests(t *testing.T) {
	t.Parallel()
	projects, err := filepath.Glob("testdata/manifests/*/project.json")
	if err != nil || len(projects) == 0 {
		t.Fatalf("%d projects, %v", len(projects), err)
	}
	seen := make([]int, len(knownDifferences))
	documents := 0
	for _, p := range projects {
		t.Run(filepath.Base(filepath.Dir(p)), func(t *testing.T) {
			a := newApplier(t, filepath.Dir(p))
			a.run(t)
			documents += a.compared
			for _, d := range a.differences {
				if n := slices.IndexFunc(knownDifferences, func(k knownDifference) bool { return k.is.MatchString(d) }); n >= 0 {
					seen[n]++
					t.Logf("known (%s): %s", knownDifferences[n].reason, d)
				} else {
					t.Error(d)
				}
			}
		})
	}
	t.Logf("%d documents compared", documents)
	for n, k := range knownDifferences {
		if seen[n] != k.times {
			t.Errorf("known difference %q (%s): seen %d times, want %d", k.is, k.reason, seen[n], k.times)
		}
	}
}

// knownDifference is one that is not to be mended here and now.
type knownDifference struct {
	is     *regexp.Regexp // matches the whole text of a difference
	times  int
	reason string
}

var knownDifferences = []knownDifference{}

// answer is a line of expected.jsonl: a document, and what came back for it.
type answer struct {
	File       string         `json:"file"`
	Index      int            `json:"index"`
	Item       *int           `json:"item"`
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Namespace  string         `json:"namespace"`
	Name       string         `json:"name"`
	Code       int            `json:"code"`
	Reason     string         `json:"reason"`
	Causes     []cause        `json:"causes"`
	Warnings   int            `json:"warnings"`
	Object     map[string]any `json:"object"`
	message    string
}

type cause struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// applier applies one project's documents to a server of its own.
type applier struct {
	dir         string
	http        *http.Client
	host        string
	discovery   *discovery.DiscoveryClient
	resources   map[string]metav1.APIResource // by apiVersion and kind
	namespace   string
	prepared    map[string]bool // namespaces with a service account
	compared    int
	differences []string
}

func newApplier(t *testing.T, dir string) *applier {
	t.Helper()
	k := serve(t, t.TempDir(), "--emulated-version=1.36", "--controllers=", "--admission-webhook-warnings=false", "--authorization-mode=RBAC,Node", "--allow-privileged=true", "--service-cluster-ip-range=10.96.0.0/16")
	c, err := rest.HTTPClientFor(k.config())
	if err != nil {
		t.Fatal(err)
	}
	a := &applier{dir: dir, http: c, host: "https://" + k.address, discovery: discovery.NewDiscoveryClientForConfigOrDie(k.config()), prepared: map[string]bool{}}
	a.discover(t)
	return a
}

// discover asks what is served now. An extension server that is not there
// serves nothing.
func (a *applier) discover(t *testing.T) {
	t.Helper()
	_, all, err := a.discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	a.resources = map[string]metav1.APIResource{}
	for _, l := range all {
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				a.resources[l.GroupVersion+" "+r.Kind] = r
			}
		}
	}
}

// awaitServed waits until what definitions define is served, all of its
// versions.
func (a *applier) awaitServed(t *testing.T, definitions []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	missing := ""
	within(t, 30*time.Second, "custom resources are served", func(context.Context) bool {
		a.discover(t)
		for _, d := range definitions {
			for _, v := range d.Spec.Versions {
				missing = d.Spec.Group + "/" + v.Name + " " + d.Spec.Names.Kind
				if _, ok := a.resources[missing]; v.Served && !ok {
					return false
				}
			}
		}
		return true
	})
}

func (a *applier) run(t *testing.T) {
	var project struct {
		Namespace  string
		Namespaces []string
	}
	if err := json.Unmarshal(read(t, filepath.Join(a.dir, "project.json")), &project); err != nil {
		t.Fatal(err)
	}
	a.namespace = project.Namespace
	for _, ns := range append(project.Namespaces, "default") {
		a.prepare(t, ns)
	}
	expected := map[string]answer{}
	for dec := json.NewDecoder(bytes.NewReader(read(t, filepath.Join(a.dir, "expected.jsonl.gz")))); dec.More(); {
		var e answer
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		expected[key(e.File, e.Index, e.Item)] = e
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "*.yaml.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		var defined []*apiextensionsv1.CustomResourceDefinition
		for _, d := range documents(t, read(t, f)) {
			k := key(filepath.Base(f), d.index, d.item)
			e, ok := expected[k]
			if !ok {
				t.Fatalf("%s is not expected", k)
			}
			got := a.apply(t, d.object, e.Object != nil)
			a.compared++
			a.compare(k, got, e)
			if got.Kind == "CustomResourceDefinition" && got.Code < 300 {
				definition := &apiextensionsv1.CustomResourceDefinition{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.object, definition); err != nil {
					t.Fatal(err)
				}
				defined = append(defined, definition)
			}
		}
		if len(defined) > 0 {
			a.awaitServed(t, defined)
		}
	}
}

func key(file string, index int, item *int) string {
	k := fmt.Sprintf("%s#%d", strings.TrimSuffix(file, ".gz"), index)
	if item != nil {
		k += fmt.Sprintf(".%d", *item)
	}
	return k
}

type document struct {
	index  int
	item   *int
	object map[string]any
}

var separator = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?$`)

// documents takes a file apart, and the lists in it.
func documents(t *testing.T, b []byte) []document {
	t.Helper()
	var out []document
	index := 0
	texts := separator.Split(string(b), -1)
	for n, text := range texts {
		if n < len(texts)-1 {
			text = strings.TrimSuffix(text, "\n") // belongs to the separator
		}
		var obj map[string]any
		if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
			t.Fatal(err)
		}
		if len(obj) == 0 {
			continue
		}
		kind, _ := obj["kind"].(string)
		if items, ok := obj["items"].([]any); ok && strings.HasSuffix(kind, "List") {
			for n, i := range items {
				i := i.(map[string]any)
				if i["apiVersion"] == nil {
					i["apiVersion"], i["kind"] = obj["apiVersion"], strings.TrimSuffix(kind, "List")
				}
				out = append(out, document{index, &n, i})
			}
		} else {
			out = append(out, document{index, nil, obj})
		}
		index++
	}
	return out
}

// apply applies a document. What discovery does not have is not sent.
func (a *applier) apply(t *testing.T, obj map[string]any, wantObject bool) answer {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	got := answer{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
	r, ok := a.resources[got.APIVersion+" "+got.Kind]
	if !ok {
		got.Code, got.Reason = http.StatusNotFound, "NoMatch"
		return got
	}
	path := ""
	if r.Namespaced {
		if got.Namespace == "" {
			got.Namespace = a.namespace
			u.SetNamespace(a.namespace)
		}
		a.prepare(t, got.Namespace)
		path = "/namespaces/" + got.Namespace
	}
	root := "/apis/"
	if !strings.Contains(got.APIVersion, "/") {
		root = "/api/"
	}
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	path = root + got.APIVersion + path + "/" + r.Name + "/" + url.PathEscape(got.Name) + "?fieldManager=kubectl&fieldValidation=Strict&force=true"
	code, header, answered := a.do(t, http.MethodPatch, path, "application/apply-patch+yaml", body)
	got.Code, got.Warnings = code, len(header.Values("Warning"))
	if code >= 300 {
		var st metav1.Status
		if err := json.Unmarshal(answered, &st); err != nil {
			t.Fatalf("%s: %s", path, answered)
		}
		got.Reason, got.message = string(st.Reason), st.Message
		if st.Details != nil {
			for _, c := range st.Details.Causes {
				if c.Field != "" || c.Type != "" {
					got.Causes = append(got.Causes, cause{c.Field, string(c.Type)})
				}
			}
		}
		slices.SortFunc(got.Causes, func(a, b cause) int { return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason)) })
		return got
	}
	if got.Kind == "Namespace" {
		a.prepare(t, got.Name)
	}
	if wantObject {
		got.Object = normalize(t, answered, obj)
	}
	return got
}

// prepare makes sure of a namespace and of the service account that its bare
// pods need, which no controller makes here.
func (a *applier) prepare(t *testing.T, ns string) {
	t.Helper()
	if a.prepared[ns] {
		return
	}
	a.prepared[ns] = true
	a.do(t, http.MethodPost, "/api/v1/namespaces", "application/json", []byte(`{"metadata":{"name":"`+ns+`"}}`))
	a.do(t, http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts", "application/json", []byte(`{"metadata":{"name":"default"}}`))
}

func (a *applier) do(t *testing.T, method, path, contentType string, body []byte) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, b
}

var tokenVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)

// normalize leaves out of an object what differs from server to server.
func normalize(t *testing.T, b []byte, applied map[string]any) map[string]any {
	t.Helper()
	var u unstructured.Unstructured
	if err := json.Unmarshal(b, &u.Object); err != nil {
		t.Fatal(err)
	}
	uid, kind := string(u.GetUID()), u.GetKind()
	for _, f := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	if uid != "" {
		if b, err := u.MarshalJSON(); err == nil && bytes.Contains(b, []byte(uid)) {
			u.Object = nil
			if err := json.Unmarshal(bytes.ReplaceAll(b, []byte(uid), []byte("<uid>")), &u.Object); err != nil {
				t.Fatal(err)
			}
		}
	}
	switch kind {
	case "CustomResourceDefinition":
		delete(u.Object, "status")
	case "PersistentVolume":
		if s, ok := u.Object["status"].(map[string]any); ok && s["lastPhaseTransitionTime"] != nil {
			s["lastPhaseTransitionTime"] = "<time>"
		}
	case "Pod":
		b, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		u.Object = nil
		if err := json.Unmarshal(tokenVolume.ReplaceAll(b, []byte("kube-api-access-<random>")), &u.Object); err != nil {
			t.Fatal(err)
		}
	case "Service":
		hideAllocated(u.Object, applied)
	}
	return u.Object
}

// hideAllocated hides addresses and ports of a service that the document
// leaves to the server.
func hideAllocated(obj, applied map[string]any) {
	const allocated = "<allocated>"
	spec, _ := obj["spec"].(map[string]any)
	asked, _ := applied["spec"].(map[string]any)
	if ip, _ := spec["clusterIP"].(string); ip != "" && ip != "None" && asked["clusterIP"] == nil {
		spec["clusterIP"] = allocated
		ips, _ := spec["clusterIPs"].([]any)
		for n := range ips {
			ips[n] = allocated
		}
	}
	if spec["healthCheckNodePort"] != nil && asked["healthCheckNodePort"] == nil {
		spec["healthCheckNodePort"] = allocated
	}
	ports, _ := spec["ports"].([]any)
	askedPorts, _ := asked["ports"].([]any)
	for n, p := range ports {
		p := p.(map[string]any)
		if p["nodePort"] != nil && (n >= len(askedPorts) || askedPorts[n].(map[string]any)["nodePort"] == nil) {
			p["nodePort"] = allocated
		}
	}
}

// compare notes each part in which an answer is not the expected one.
func (a *applier) compare(where string, got, want answer) {
	what := fmt.Sprintf("%s %s %s/%s", filepath.Base(a.dir), where, got.Kind, got.Name)
	if got.Code != want.Code {
		a.differ("%s: code %d, want %d %s %v; %s", what, got.Code, want.Code, want.Reason, want.Causes, got.message)
		return
	}
	if got.Reason != want.Reason {
		a.differ("%s: reason %q, want %q; %s", what, got.Reason, want.Reason, got.message)
	}
	if !slices.Equal(got.Causes, want.Causes) {
		a.differ("%s: causes %v, want %v; %s", what, got.Causes, want.Causes, got.message)
	}
	if got.Warnings != want.Warnings {
		a.differ("%s: %d warnings, want %d", what, got.Warnings, want.Warnings)
	}
	if want.Object != nil && !reflect.DeepEqual(got.Object, want.Object) {
		a.differ("%s: object: %s", what, strings.Join(differences("", got.Object, want.Object), "; "))
	}
}

func (a *applier) differ(format string, args ...any) {
	a.differences = append(a.differences, fmt.Sprintf(format, args...))
}

// differences tells in which fields two values differ.
func differences(path string, got, want any) []string {
	if g, ok := got.(map[string]any); ok {
		if w, ok := want.(map[string]any); ok {
			var out []string
			for k := range w {
				out = append(out, differences(path+"."+k, g[k], w[k])...)
			}
			for k := range g {
				if _, ok := w[k]; !ok {
					out = append(out, differences(path+"."+k, g[k], nil)...)
				}
			}
			slices.Sort(out)
			return out
		}
	}
	g, okg := got.([]any)
	if w, ok := want.([]any); ok && okg && len(g) == len(w) {
		var out []string
		for n := range w {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, n), g[n], w[n])...)
		}
		return out
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, want %v", path, got, want)}
}

// read reads a file, unpacking what is packed.
func read(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
