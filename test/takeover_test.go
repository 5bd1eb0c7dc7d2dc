package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/standin"
)

// TestTakeover fills an etcd with objects of every kind through one server, stops it and starts the other on the same etcd: that
// one serves every object equal, byte for byte of its JSON. It changes all and deletes some; the first, started again, serves that.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		for _, byPeer := range []bool{true, false} {
			t.Run(fmt.Sprintf("encrypted %v, filled by peer %v", encrypted, byPeer), func(t *testing.T) {
				t.Parallel()
				var args []string
				if encrypted {
					file := filepath.Join(t.TempDir(), "encryption.yaml")
					must(t, os.WriteFile(file, []byte(encryptionConfig(standin.StartKMS(t, "key-1"), "k1")), 0o600))
					args = append(args, "--encryption-provider-config="+file)
				}
				takeOver(t, byPeer, args)
			})
		}
	}
}

func takeOver(t *testing.T, byPeer bool, args []string) {
	etcd := peer.Etcd(t)
	bases := goldenBases(t)
	var filled, changed map[string]string
	// A server ends with its part of the test.
	phase := func(name string, usePeer bool, f func(t *testing.T, s *takeoverServer)) {
		ok := t.Run(name, func(t *testing.T) {
			s := &takeoverServer{t: t}
			if usePeer {
				s.config = peer.StartOn(t, etcd, append([]string{"--disable-admission-plugins=ServiceAccount"}, args...)...)
			} else {
				k := serve(t, filepath.Join(t.TempDir(), "kanzen"), append([]string{"--etcd-servers=" + etcd, "--controllers=",
					"--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24", "--flight-recorder-memory=0", "--extensions="}, args...)...)
				defer k.end(syscall.SIGTERM)
				s.config = k.config()
			}
			f(t, s)
		})
		if !ok {
			t.FailNow()
		}
	}
	phase("fill", byPeer, func(t *testing.T, s *takeoverServer) {
		s.fill(bases)
		filled = s.settled()
		if n := len(filled); n < 400 {
			t.Errorf("only %d objects", n)
		}
	})
	phase("take over", !byPeer, func(t *testing.T, s *takeoverServer) {
		s.serves(filled)
		s.change(bases, "over")
		changed = s.settled()
		if len(changed) >= len(filled) {
			t.Errorf("%d objects before some were deleted, %d after", len(filled), len(changed))
		}
	})
	phase("give back", byPeer, func(t *testing.T, s *takeoverServer) { s.serves(changed) })
}

// goldenBase is a valid manifest of a kind, and where it goes.
type goldenBase struct {
	ID, Collection, Name, Namespace string
	object                          map[string]any
}

func (b *goldenBase) path() string { return b.Collection + "/" + b.Name }

// goldenBases are the manifests of every kind that the goldens have, fixtures first.
func goldenBases(t *testing.T) (all []*goldenBase) {
	t.Helper()
	const dir = "goldens/base"
	fixtures, err := filepath.Glob(dir + "/fixtures/*.yaml")
	must(t, err)
	slices.Sort(fixtures)
	plurals := map[string]string{"PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses", "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
		"StorageClass": "/apis/storage.k8s.io/v1/storageclasses", "VolumeAttributesClass": "/apis/storage.k8s.io/v1/volumeattributesclasses",
		"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "Namespace": "/api/v1/namespaces"}
	read := func(file string) map[string]any {
		data, err := os.ReadFile(file)
		must(t, err)
		o := map[string]any{}
		must(t, yaml.Unmarshal(data, &o))
		return o
	}
	for _, file := range fixtures {
		o := read(file)
		if collection := plurals[o["kind"].(string)]; collection != "" { // not quotas and limits, which forbid others
			all = append(all, &goldenBase{ID: file, Collection: collection, Name: o["metadata"].(map[string]any)["name"].(string), object: o})
		}
	}
	data, err := os.ReadFile(dir + "/index.json")
	must(t, err)
	var index []*goldenBase
	must(t, json.Unmarshal(data, &index))
	for _, b := range index {
		if b.Collection == "" {
			continue
		}
		b.object = read(filepath.Join(dir, b.ID+".yaml"))
		if b.Namespace != "" {
			b.object["metadata"].(map[string]any)["namespace"] = b.Namespace
		}
		if spec, ok := b.object["spec"].(map[string]any); ok && b.object["kind"] == "Pod" && spec["serviceAccountName"] == nil {
			spec["serviceAccountName"] = "default" // as the admission of service accounts would
		}
		all = append(all, b)
	}
	return all
}

// takeoverServer is a server that is asked for everything it serves.
type takeoverServer struct {
	t      *testing.T
	config *rest.Config
}

func (s *takeoverServer) send(method, path string, body any) (int, string) {
	s.t.Helper()
	data, err := json.Marshal(body)
	must(s.t, err)
	h, err := rest.HTTPClientFor(s.config)
	must(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.config.Host+path, bytes.NewReader(data))
	must(s.t, err)
	req.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	resp, err := h.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	must(s.t, err)
	return resp.StatusCode, string(out)
}

// fill makes all objects, those of definitions once they are served.
func (s *takeoverServer) fill(bases []*goldenBase) {
	s.t.Helper()
	for _, b := range bases {
		if b.Namespace != "" {
			if code, body := s.send("POST", "/api/v1/namespaces", namespace(b.Namespace)); code != http.StatusCreated && code != http.StatusConflict {
				s.t.Errorf("namespace %s: %d %s", b.Namespace, code, body)
			}
		}
		var code int
		var body string
		within(s.t, 60*time.Second, b.ID+" is served", func(context.Context) bool {
			code, body = s.send("POST", b.Collection, b.object)
			return code != http.StatusNotFound
		})
		if code != http.StatusCreated && code != http.StatusConflict {
			s.t.Errorf("%s: %d %s", b.ID, code, body)
		}
	}
}

// change labels every object, and deletes some. It returns those that are left.
func (s *takeoverServer) change(bases []*goldenBase, label string) (left []*goldenBase) {
	s.t.Helper()
	s.label(bases, label)
	for _, b := range bases {
		if !strings.HasSuffix(b.ID, ".min") || !slices.ContainsFunc([]string{"Secret", "Deployment", "Gizmo", "ConfigMap"}, func(kind string) bool { return strings.Contains(b.ID, kind) }) {
			left = append(left, b)
		} else if code, body := s.send("DELETE", b.path(), nil); code != http.StatusOK {
			s.t.Errorf("delete %s: %d %s", b.ID, code, body)
		}
	}
	return left
}

// label writes every object.
func (s *takeoverServer) label(bases []*goldenBase, label string) {
	s.t.Helper()
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]any{"taken": label}}}
	for _, b := range bases {
		if code, body := s.send("PATCH", b.path(), patch); code != http.StatusOK {
			s.t.Errorf("patch %s: %d %s", b.ID, code, body)
		}
	}
}

// ofEachServer says that a server writes this about itself, or that it is computed.
func ofEachServer(key string) bool {
	for _, own := range []string{"leases kube-system/apiserver-", "leases kube-system/kanzen-", "endpoints default/kubernetes", "endpointslices default/kubernetes",
		"componentstatuses ", "configmaps kube-system/extension-apiserver-authentication"} {
		if strings.Contains(key, "/"+own) {
			return true
		}
	}
	return false
}

// objects are all objects in all served versions: their JSON, by version, plural, namespace and name.
func (s *takeoverServer) objects() map[string]string {
	s.t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(s.config)
	must(s.t, err)
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // bases register servers that are not there
		s.t.Fatal(err)
	}
	out := map[string]string{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") {
				continue
			}
			path := "/apis/" + l.GroupVersion
			if l.GroupVersion == "v1" {
				path = "/api/v1"
			}
			var code int
			var body string
			within(s.t, 60*time.Second, r.Name+" are listed", func(context.Context) bool {
				code, body = s.send("GET", path+"/"+r.Name, nil)
				return code != http.StatusTooManyRequests // kube-apiserver has just begun to serve a definition
			})
			if code != http.StatusOK {
				s.t.Errorf("list %s of %s: %d %s", r.Name, l.GroupVersion, code, body)
				continue
			}
			var list struct{ Items []json.RawMessage }
			must(s.t, json.Unmarshal([]byte(body), &list))
			for _, item := range list.Items {
				var o metav1.PartialObjectMetadata
				must(s.t, json.Unmarshal(item, &o))
				if key := l.GroupVersion + "/" + r.Name + " " + o.Namespace + "/" + o.Name; !ofEachServer(key) {
					out[key] = string(item)
				}
			}
		}
	}
	return out
}

// settled is what the server serves once it has written all that it writes by itself after its start and after changes.
func (s *takeoverServer) settled() (now map[string]string) {
	s.t.Helper()
	var since time.Time
	within(s.t, 120*time.Second, "what is served stays as it is", func(ctx context.Context) bool {
		last := now
		now = s.objects()
		if diff := changedObjects(last, now); len(diff) > 0 || since.IsZero() {
			since = time.Now()
		}
		select {
		case <-time.After(time.Second): // all objects are listed each time
		case <-ctx.Done():
		}
		return time.Since(since) > 5*time.Second
	})
	return now
}

// serves checks that exactly these objects are served.
func (s *takeoverServer) serves(want map[string]string) {
	s.t.Helper()
	var diff []string
	deadline := time.Now().Add(30 * time.Second)
	for {
		if diff = changedObjects(want, s.objects()); len(diff) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	for n, d := range diff {
		if n == 10 {
			s.t.Errorf("and %d more", len(diff)-n)
			break
		}
		s.t.Error(d)
	}
}

func changedObjects(want, got map[string]string) (out []string) {
	for key, w := range want {
		if g, ok := got[key]; !ok {
			out = append(out, "missing: "+key)
		} else if g != w {
			out = append(out, fmt.Sprintf("%s\nwas %s\nis  %s", key, w, g))
		}
	}
	for key := range got {
		if _, ok := want[key]; !ok {
			out = append(out, "more: "+key+" "+got[key])
		}
	}
	slices.Sort(out)
	return out
}

// TestTakeoverSecrets has each server write secrets with each provider; then both read all of them with one configuration.
func TestTakeoverSecrets(t *testing.T) {
	t.Parallel()
	etcd, kms, dir := peer.Etcd(t), standin.StartKMS(t, "key-1"), t.TempDir()
	providers := map[string]string{
		"aescbc": fmt.Sprintf("{aescbc: {keys: [%s]}}", encryptionKey("cbc")), "aesgcm": fmt.Sprintf("{aesgcm: {keys: [%s]}}", encryptionKey("gcm")),
		"secretbox": fmt.Sprintf("{secretbox: {keys: [%s]}}", encryptionKey("box")), "identity": "{identity: {}}",
		"kms": fmt.Sprintf("{kms: {apiVersion: v2, name: plugin, endpoint: '%s'}}", kms.Endpoint),
	}
	names := []string{"aescbc", "aesgcm", "secretbox", "kms", "identity"}
	config := func(first string) string {
		list := []string{providers[first]}
		for _, name := range names {
			if name != first {
				list = append(list, providers[name])
			}
		}
		file := filepath.Join(dir, first+".yaml")
		must(t, os.WriteFile(file, []byte("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: ["+strings.Join(list, ", ")+"]}]\n"), 0o600))
		return "--encryption-provider-config=" + file
	}
	servers := map[string]func(t *testing.T, arg string) *takeoverServer{
		"peer": func(t *testing.T, arg string) *takeoverServer {
			return &takeoverServer{t, peer.StartOn(t, etcd, arg, "--disable-admission-plugins=ServiceAccount")}
		},
		"kanzen": func(t *testing.T, arg string) *takeoverServer {
			k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+etcd, arg, "--controllers=", "--disable-admission-plugins=ServiceAccount")
			return &takeoverServer{t, k.config()}
		},
	}
	const secrets = "/api/v1/namespaces/default/secrets"
	value := func(name string) string { return name + strings.Repeat(" is a value", 100) }
	seen := newSealingServer(t, &rest.Config{Host: "http://127.0.0.1"}, etcd)
	for who, begin := range servers {
		for _, name := range names {
			t.Run(who+" writes "+name, func(t *testing.T) {
				s := begin(t, config(name))
				o := map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": who + "-" + name}, "stringData": map[string]any{"a": value(who + name)}}
				if code, body := s.send("POST", secrets, o); code != http.StatusCreated {
					t.Fatalf("%d %s", code, body)
				}
				stored, want := seen.stored("secrets/default/"+who+"-"+name), "k8s:enc:"+name
				if name == "identity" {
					want = "k8s\x00"
				}
				if !bytes.HasPrefix(stored, []byte(want)) {
					t.Errorf("stored as %.40q", stored)
				}
			})
		}
	}
	read := map[string]map[string]string{}
	for who, begin := range servers {
		t.Run(who+" reads", func(t *testing.T) {
			s := begin(t, config("kms"))
			read[who] = map[string]string{}
			for key, o := range s.objects() {
				if strings.HasPrefix(key, "v1/secrets default/") {
					read[who][key] = o
				}
			}
		})
	}
	if n := len(read["peer"]); n != 2*len(names) {
		t.Errorf("%d secrets", n)
	}
	for _, d := range changedObjects(read["peer"], read["kanzen"]) {
		t.Error(d)
	}
}
