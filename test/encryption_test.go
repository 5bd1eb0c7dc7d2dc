package test

import (
	"bytes"
	"context"
	"encoding/base64"
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

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/churn"
	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/standin"
)

// encryptionKey is a key of 32 bytes as configurations have it.
func encryptionKey(name string) string {
	return fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32])))
}

// encryptionConfig encrypts secrets with AES-CBC keys, configmaps with a box, what is in groups "apps" and "example.org"
// with a plugin, and everything else with AES-GCM.
func encryptionConfig(kms *standin.KMS, cbc ...string) string {
	var keys []string
	for _, name := range cbc {
		keys = append(keys, encryptionKey(name))
	}
	return fmt.Sprintf(`kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources:
- {resources: [secrets], providers: [{aescbc: {keys: [%s]}}, {identity: {}}]}
- {resources: [configmaps], providers: [{secretbox: {keys: [%s]}}, {identity: {}}]}
- {resources: ['*.apps', '*.example.org'], providers: [{kms: {apiVersion: v2, name: plugin, endpoint: '%s'}}, {identity: {}}]}
- {resources: ['*.*'], providers: [{aesgcm: {keys: [%s]}}]}
`, strings.Join(keys, ", "), encryptionKey("box"), kms.Endpoint, encryptionKey("gcm"))
}

// sealedKinds are objects that are encrypted in different ways, and with which prefix.
var sealedKinds = []struct {
	gvr         schema.GroupVersionResource
	kind        string
	key, prefix string
	content     map[string]any
}{
	{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", "secrets/default/", "k8s:enc:aescbc:v1:k1:", map[string]any{"stringData": map[string]any{"a": "b"}}},
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", "configmaps/default/", "k8s:enc:secretbox:v1:box:", map[string]any{"data": map[string]any{"a": "b"}}},
	{schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}, "Endpoints", "services/endpoints/default/", "k8s:enc:aesgcm:v1:gcm:", nil},
	{schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, "Event", "events/default/", "k8s:enc:aesgcm:v1:gcm:", map[string]any{
		"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.b", "reportingInstance": "c", "action": "d", "reason": "e", "type": "Normal"}},
	{schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "controllerrevisions"}, "ControllerRevision", "controllerrevisions/default/", "k8s:enc:kms:v2:plugin:", map[string]any{"revision": int64(1), "data": map[string]any{"a": "b"}}},
	{schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}, "Gadget", "example.org/gadgets/default/", "k8s:enc:kms:v2:plugin:", map[string]any{"size": int64(1)}},
}

// gadgetDefinition is the definition of the last of them.
func gadgetDefinition() *unstructured.Unstructured {
	return churn.Definition("example.org")
}

// sealingServer is a server with encryption, and what is in its etcd.
type sealingServer struct {
	t      *testing.T
	config *rest.Config
	client dynamic.Interface
	etcd   *clientv3.Client
}

func newSealingServer(t *testing.T, c *rest.Config, etcd string) *sealingServer {
	t.Helper()
	d, err := dynamic.NewForConfig(c)
	must(t, err)
	e, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: 5 * time.Second})
	must(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return &sealingServer{t, c, d, e}
}

func (s *sealingServer) stored(key string) []byte {
	s.t.Helper()
	r, err := s.etcd.Get(s.t.Context(), "/registry/"+key)
	must(s.t, err)
	if len(r.Kvs) == 0 {
		s.t.Fatalf("nothing at %s", key)
	}
	return r.Kvs[0].Value
}

// write makes an object of each kind, and checks how it is stored.
func (s *sealingServer) write(name string) {
	s.t.Helper()
	for _, k := range sealedKinds {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		for f, v := range k.content {
			o.Object[f] = v
		}
		o.SetGroupVersionKind(k.gvr.GroupVersion().WithKind(k.kind))
		o.SetName(name)
		within(s.t, 20*time.Second, k.kind+" is made", func(ctx context.Context) bool {
			_, err := s.client.Resource(k.gvr).Namespace("default").Create(ctx, o, metav1.CreateOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				s.t.Fatal(err)
			}
			return err == nil
		})
		if stored := s.stored(k.key + name); !bytes.HasPrefix(stored, []byte(k.prefix)) {
			s.t.Errorf("%s is stored as %.60q", k.kind, stored)
		}
	}
}

// objects are all objects of the kinds.
func (s *sealingServer) objects() map[string]any {
	s.t.Helper()
	out := map[string]any{}
	for _, k := range sealedKinds {
		l, err := s.client.Resource(k.gvr).Namespace("default").List(s.t.Context(), metav1.ListOptions{})
		must(s.t, err)
		for _, o := range l.Items {
			if o.GetName() != "kubernetes" { // each server's own address
				out[k.kind+" "+o.GetName()] = o.Object
			}
		}
	}
	return out
}

// TestEncryptionBesidePeer has kanzen and kube-apiserver share an etcd with one configuration: what one encrypts the
// other reads, at once, and both refuse what cannot be decrypted in the same words.
func TestEncryptionBesidePeer(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(file, []byte(encryptionConfig(kms, "k1")), 0o600))
	etcd := peer.Etcd(t)
	theirs := newSealingServer(t, peer.StartOn(t, etcd, "--encryption-provider-config", file, "--disable-admission-plugins=ServiceAccount"), etcd)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+etcd, "--encryption-provider-config="+file, "--encryption-provider-config-automatic-reload", "--controllers=", "--disable-admission-plugins=ServiceAccount")
	own := newSealingServer(t, k.config(), etcd)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := own.client.Resource(crds).Create(t.Context(), gadgetDefinition(), metav1.CreateOptions{})
	must(t, err)
	own.write("by-kanzen")
	theirs.write("by-peer")
	mine, other := own.objects(), theirs.objects()
	if len(mine) < 2*len(sealedKinds) || !equal(mine, other) {
		t.Errorf("kanzen reads\n%v\nkube-apiserver\n%v", mine, other)
	}
	for _, s := range []*sealingServer{own, theirs} {
		if code, body := s.get("/readyz/kms-providers"); code != http.StatusOK {
			t.Errorf("/readyz/kms-providers: %d %s", code, body)
		}
		if code, _ := s.get("/livez/kms-providers"); code != http.StatusNotFound {
			t.Errorf("/livez/kms-providers: %d", code)
		}
	}

	// A value that was copied to another key, and one of a key that is not configured.
	_, err = own.etcd.Put(t.Context(), "/registry/controllerrevisions/default/moved", string(own.stored("controllerrevisions/default/by-peer")))
	must(t, err)
	_, err = own.etcd.Put(t.Context(), "/registry/secrets/default/unknown", "k8s:enc:aescbc:v1:k9:0123456789abcdef0123456789abcdef")
	must(t, err)
	for _, path := range []string{"/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/unknown", "/apis/apps/v1/namespaces/default/controllerrevisions", "/apis/apps/v1/namespaces/default/controllerrevisions/moved"} {
		var code int
		var body string
		within(t, 10*time.Second, path+" fails", func(context.Context) bool { code, body = own.get(path); return code == http.StatusInternalServerError })
		want, wanted := theirs.get(path + "?resourceVersion=")
		t.Logf("%s: kanzen %d %s\npeer %d %s", path, code, body, want, wanted)
		if code != want || body != wanted {
			t.Errorf("%s: %d %s\nwant %d %s", path, code, body, want, wanted)
		}
	}
	if code, _ := own.get("/api/v1/namespaces/default/secrets/by-peer"); code != http.StatusOK {
		t.Errorf("a secret beside one that cannot be decrypted: %d", code)
	}
}

func (s *sealingServer) get(path string) (int, string) {
	s.t.Helper()
	c, err := rest.HTTPClientFor(s.config)
	must(s.t, err)
	r, err := c.Get(s.config.Host + path)
	must(s.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	must(s.t, err)
	return r.StatusCode, string(b)
}

// TestEncryptionRotates has a server take up new keys while it serves: a write that changes nothing stores the object
// with the new one, and what the new ones cannot decrypt is served no longer, until they are back.
func TestEncryptionRotates(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(file, []byte(encryptionConfig(kms, "k1")), 0o600))
	dir := t.TempDir()
	etcd, member := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+member, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	k := serve(t, filepath.Join(dir, "kanzen"), "--etcd-servers="+etcd, "--encryption-provider-config="+file, "--encryption-provider-config-automatic-reload", "--controllers=", "--disable-admission-plugins=ServiceAccount")
	s := newSealingServer(t, k.config(), etcd)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := s.client.Resource(crds).Create(t.Context(), gadgetDefinition(), metav1.CreateOptions{})
	must(t, err)
	s.write("a")

	kms.Rotate("key-2")
	must(t, os.WriteFile(file, []byte(encryptionConfig(kms, "k2", "k1")), 0o600))
	for _, k := range sealedKinds {
		r, key := s.client.Resource(k.gvr).Namespace("default"), k.key+"a"
		before := s.stored(key)
		o, err := r.Get(t.Context(), "a", metav1.GetOptions{})
		must(t, err)
		rotates := strings.Contains(k.prefix, "aescbc") || strings.Contains(k.prefix, "kms")
		if !rotates {
			_, err := r.Update(t.Context(), o, metav1.UpdateOptions{})
			must(t, err)
			if !bytes.Equal(before, s.stored(key)) {
				t.Errorf("%s was stored anew for nothing", k.kind)
			}
			continue
		}
		within(t, 20*time.Second, k.kind+" is stored anew", func(ctx context.Context) bool {
			_, err := r.Update(ctx, o, metav1.UpdateOptions{})
			if err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			return !bytes.Equal(before, s.stored(key))
		})
		after, prefix := s.stored(key), strings.ReplaceAll(k.prefix, "k1", "k2")
		if !bytes.HasPrefix(after, []byte(prefix)) || strings.Contains(prefix, "kms") && !bytes.Contains(after, []byte("key-2")) {
			t.Errorf("%s is stored as %.60q", k.kind, after)
		}
	}

	for _, with := range []struct {
		keys []string
		code int
	}{{[]string{"k3"}, http.StatusInternalServerError}, {[]string{"k3", "k2", "k1"}, http.StatusOK}} {
		must(t, os.WriteFile(file, []byte(encryptionConfig(kms, with.keys...)), 0o600))
		within(t, 20*time.Second, fmt.Sprintf("with keys %v the answer is %d", with.keys, with.code), func(context.Context) bool {
			code, _ := s.get("/api/v1/namespaces/default/secrets/a")
			return code == with.code
		})
	}
}

// TestSameIsEncrypted compares which keys in etcd are encrypted if everything is to be.
func TestSameIsEncrypted(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	must(t, os.WriteFile(file, []byte(encryptionConfig(kms, "k1")), 0o600))
	theirEtcd, ownEtcd := peer.Etcd(t), peer.Etcd(t)
	theirs := newSealingServer(t, peer.StartOn(t, theirEtcd, "--encryption-provider-config", file), theirEtcd)
	k := serve(t, filepath.Join(t.TempDir(), "kanzen"), "--etcd-servers="+ownEtcd, "--encryption-provider-config="+file, "--controllers=", "--service-cluster-ip-range=10.0.0.0/24")
	own := newSealingServer(t, k.config(), ownEtcd)
	for _, s := range []*sealingServer{theirs, own} { // a port and an address are allocated
		c, err := kubernetes.NewForConfig(s.config)
		must(t, err)
		_, err = c.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/services").Body([]byte(
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)).DoRaw(t.Context())
		must(t, err)
	}
	want, got := theirs.plain(), own.plain()
	if !slices.Contains(got, "ranges") {
		t.Errorf("not encrypted: %v", got)
	}
	for _, prefix := range got { // kube-apiserver has leases too that this server does not make here
		if !slices.Contains(want, prefix) {
			t.Errorf("%s is not encrypted; upstream leaves only %v", prefix, want)
		}
	}
}

// plain are the prefixes of keys that are not encrypted.
func (s *sealingServer) plain() (out []string) {
	s.t.Helper()
	r, err := s.etcd.Get(s.t.Context(), "", clientv3.WithPrefix())
	must(s.t, err)
	for _, kv := range r.Kvs {
		if !bytes.HasPrefix(kv.Value, []byte("k8s:enc:")) {
			prefix, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), "/registry/"), "/")
			out = append(out, prefix)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestEncryptionWithoutPlugin starts a server before its plugin: it serves what is encrypted once the plugin has come. What
// has an owner is not taken for garbage meanwhile.
func TestEncryptionWithoutPlugin(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	dir := t.TempDir()
	file, data := filepath.Join(dir, "encryption.yaml"), filepath.Join(dir, "kanzen")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`kind: EncryptionConfiguration
apiVersion: apiserver.config.k8s.io/v1
resources: [{resources: [secrets, configmaps], providers: [{kms: {apiVersion: v2, name: plugin, endpoint: '%s', timeout: 500ms}}]}]
`, kms.Endpoint)), 0o600))
	k := serve(t, data, "--encryption-provider-config="+file)
	ctx := t.Context()
	owner, err := k.client().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = k.client().CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	must(t, err)
	k.end(syscall.SIGTERM)

	kms.Break(true)
	go func() {
		for kms.Refused() < 3 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		kms.Break(false)
	}()
	k = serve(t, data, "--encryption-provider-config="+file)
	within(t, 30*time.Second, "what was encrypted is read", func(ctx context.Context) bool {
		l, err := k.client().CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(l.Items) > 0
	})
	if kms.Refused() < 3 {
		t.Error("the plugin was there from the beginning")
	}
	kms.Break(true)
	if _, err := k.client().CoreV1().ConfigMaps("default").Get(ctx, "owner", metav1.GetOptions{}); err != nil {
		t.Errorf("a read while the plugin is down: %v", err)
	}
	_, err = k.client().CoreV1().Services("default").Get(ctx, "owned", metav1.GetOptions{})
	must(t, err)
}

// TestEncryptionRewrite has the command rewrite everything while the server serves: built-in and custom resources, events
// with their leases, and what a plugin has encrypted. What it cannot read it names.
func TestEncryptionRewrite(t *testing.T) {
	t.Parallel()
	kms := standin.StartKMS(t, "key-1")
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	must(t, os.WriteFile(file, []byte(encryptionConfig(kms, "k1")), 0o600))
	etcd, member := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+member, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	data := filepath.Join(dir, "kanzen")
	args := []string{"--etcd-servers=" + etcd, "--encryption-provider-config=" + file, "--controllers=", "--disable-admission-plugins=ServiceAccount"}
	k := serve(t, data, args...)
	s := newSealingServer(t, k.config(), etcd)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := s.client.Resource(crds).Create(t.Context(), gadgetDefinition(), metav1.CreateOptions{})
	must(t, err)
	s.write("a")
	before := s.objects()
	for _, key := range []string{"secrets/default/unreadable", "nobody.example.com/default/x"} {
		_, err = s.etcd.Put(t.Context(), "/registry/"+key, "k8s:enc:aescbc:v1:k9:0123456789abcdef0123456789abcdef")
		must(t, err)
	}
	k.end(syscall.SIGTERM)

	// The server begins anew with other keys, so that it has no view of custom resources yet.
	kms.Rotate("key-2")
	must(t, os.WriteFile(file, []byte(strings.Replace(encryptionConfig(kms, "k2", "k1"), "{secretbox: {keys: [", "{secretbox: {keys: ["+encryptionKey("new")+", ", 1)), 0o600))
	k = serve(t, data, args...)
	stdout, stderr, code := output(t, binaries.kanzen, "encryption", "rewrite", "--data-dir", data)
	t.Log(stdout)
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"/registry/secrets/default/unreadable: no matching key was found", "/registry/nobody.example.com/default/x: ",
		" 0 of them would now be encrypted differently", "needed until etcd's history is compacted"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, kind := range sealedKinds {
		prefix := strings.NewReplacer("k1:", "k2:", ":box:", ":new:").Replace(kind.prefix)
		stored := s.stored(kind.key + "a")
		if !bytes.HasPrefix(stored, []byte(prefix)) || strings.Contains(prefix, "kms") && !bytes.Contains(stored, []byte("key-2")) {
			t.Errorf("%s is stored as %.60q", kind.kind, stored)
		}
	}
	r, err := s.etcd.Get(t.Context(), "/registry/events/default/a")
	must(t, err)
	if r.Kvs[0].Lease == 0 {
		t.Error("the event has lost its lease")
	}
	_, err = s.etcd.Delete(t.Context(), "/registry/secrets/default/unreadable")
	must(t, err)
	after := newSealingServer(t, k.config(), etcd).objects()
	for _, objects := range []map[string]any{before, after} {
		for _, o := range objects { // the revision tells of the writing, and of nothing else
			unstructured.RemoveNestedField(o.(map[string]any), "metadata", "resourceVersion")
		}
	}
	if !equal(before, after) {
		t.Errorf("was\n%v\nis\n%v", before, after)
	}
}
