package planes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store"
)

// client is one of the root, as the server itself.
func (g *ground) client() *Client { return &Client{g.root} }

// saved exports a plane to a file.
func (g *ground) saved(t testing.TB, name string) string {
	t.Helper()
	from, err := g.client().Export(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	file := filepath.Join(t.TempDir(), name+".db")
	if err := transfer.Save(t.Context(), from, file, time.Now()); err != nil {
		t.Fatal(err)
	}
	return file
}

// kinds are those of a file whose values transformer decrypts; nil: they are as they are.
func kinds(transformer func(schema.GroupResource) store.Transformer) *snapshot.Kinds {
	if transformer == nil {
		transformer = func(schema.GroupResource) store.Transformer { return encryption.None{} }
	}
	return snapshot.NewKinds(transfer.Registry, builtin.Resources(builtin.Deps{}), transformer)
}

// sent is the stream that a file becomes.
func sent(t testing.TB, file string, k *snapshot.Kinds, signing map[string][]byte) func(io.Writer) error {
	return func(to io.Writer) error {
		f, err := snapshot.Open(t.Context(), file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = transfer.Send(t.Context(), f, k, transfer.Registry, signing, to)
		return err
	}
}

// everything returns all objects of a plane by path, as every list of its API has them, without resourceVersions.
func (g *ground) everything(t testing.TB, name string) map[string]string {
	t.Helper()
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	g.must(t, name, "GET", "/apis", "", &groups)
	paths := []string{"/api/v1"}
	for _, group := range groups.Groups {
		for _, v := range group.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	out := map[string]string{}
	for _, path := range paths {
		var list struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		g.must(t, name, "GET", path, "", &list)
		for _, r := range list.Resources {
			if slices.Contains(r.Verbs, "list") && r.Name != "componentstatuses" {
				g.listing(t, name, path+"/"+r.Name, out)
			}
		}
	}
	return out
}

func (g *ground) listing(t testing.TB, name, path string, out map[string]string) {
	t.Helper()
	var list struct{ Items []map[string]any }
	g.must(t, name, "GET", path, "", &list)
	for _, o := range list.Items {
		m := o["metadata"].(map[string]any)
		at := fmt.Sprint(path, " ", m["namespace"], "/", m["name"])
		if serverIn(at) {
			continue
		}
		delete(m, "resourceVersion")
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out[at] = string(text)
	}
}

// serverIn says that an object has something of the server: its authorities, or who it is.
func serverIn(at string) bool {
	return slices.ContainsFunc([]string{"/leases kube-system/apiserver-", "/configmaps kube-system/extension-apiserver-authentication", "/kube-root-ca.crt",
		"/clustertrustbundles <nil>/kubernetes.io:kube-apiserver-serving:"}, func(part string) bool { return strings.Contains(at, part) })
}

// sameObjects compares all objects of two planes.
func sameObjects(t testing.TB, got, want map[string]string) {
	t.Helper()
	for _, at := range slices.Sorted(maps.Keys(want)) {
		if got[at] != want[at] {
			t.Errorf("%s\ngot:  %.3000s\nwant: %.3000s", at, got[at], want[at])
		}
	}
	for _, at := range slices.Sorted(maps.Keys(got)) {
		if want[at] == "" {
			t.Errorf("%s has come from nowhere: %s", at, got[at])
		}
	}
}

// fixed saves a plane and returns what it has at that moment: nobody changes it, and its controllers come to an end.
func (g *ground) fixed(t testing.TB, name string) (file string, has map[string]string) {
	t.Helper()
	for range 100 {
		before := g.everything(t, name)
		file = g.saved(t, name)
		if has = g.everything(t, name); maps.Equal(before, has) {
			return file, has
		}
	}
	t.Fatal("the plane does not come to rest")
	return "", nil
}

const transferredKind = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// template is one whose objects planes begin with, and the plane deletes some.
var template1 = map[string]any{"apiVersion": Group + "/" + Version, "kind": "PlaneTemplate", "metadata": map[string]any{"name": "t"}, "spec": map[string]any{
	"parameters": []any{map[string]any{"name": "OWNER"}},
	"objects": []any{
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "apps"}},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "kept", "namespace": "apps"}, "data": map[string]any{"a": "b"}},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "gone", "namespace": "apps"}},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "own", "namespace": "apps"}, "data": map[string]any{"owner": "$(OWNER)"}},
	}}}

// filled makes a plane of a template and has random things happen to it.
func (g *ground) filled(t testing.TB, name string, r *rand.Rand) {
	t.Helper()
	if err := g.root.create(t.Context(), strings.TrimSuffix(templatesPath, "/"), template1); err != nil {
		t.Fatal(err)
	}
	g.create(t, name, PlaneSpec{Template: "t", Parameters: map[string]string{"OWNER": "ann"}})
	g.must(t, name, "DELETE", "/api/v1/namespaces/apps/configmaps/gone", "", nil)
	g.must(t, name, "PATCH", "/api/v1/namespaces/apps/configmaps/kept?fieldManager=t&force=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"},"data":{"a":"c"}}`, nil)
	g.must(t, name, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", transferredKind, nil)
	const widgetsPath = "/apis/example.com/v1/namespaces/apps/widgets"
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if code, answer := g.ask(t, name, name, "GET", widgetsPath, ""); code == http.StatusOK {
			break
		} else if time.Now().After(end) {
			t.Fatal(answer)
		}
	}
	kinds := []struct{ path, kind, rest string }{
		{"/api/v1/namespaces/apps/configmaps", "v1 ConfigMap", `"data":{"x":%q}`},
		{"/api/v1/namespaces/apps/secrets", "v1 Secret", `"stringData":{"x":%q}`},
		{"/api/v1/namespaces/apps/services", "v1 Service", `"spec":{"selector":{"x":%q},"ports":[{"port":80}]}`},
		{"/apis/apps/v1/namespaces/apps/deployments", "apps/v1 Deployment",
			`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b","x":%q}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`},
		{widgetsPath, "example.com/v1 Widget", `"spec":{"x":%q,"n":7,"f":1.5,"none":null}`},
	}
	for range 120 {
		k := kinds[r.IntN(len(kinds))]
		at := fmt.Sprint("o", r.IntN(12))
		if r.IntN(4) == 0 {
			g.ask(t, name, name, "DELETE", k.path+"/"+at, "") // it need not exist
			continue
		}
		version, kind, _ := strings.Cut(k.kind, " ")
		value := "secret-"
		if kind == "Service" || kind == "Deployment" { // which are not encrypted
			value = "known-"
		}
		g.must(t, name, "PATCH", fmt.Sprintf("%s/%s?fieldManager=m%d&force=true", k.path, at, r.IntN(2)),
			fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"annotations":{"n":"%d"}},`+k.rest+`}`, version, kind, at, r.IntN(9), value+strconv.Itoa(r.IntN(9))), nil)
	}
	g.must(t, name, "POST", "/api/v1/namespaces/apps/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"apps"},"reason":"R","type":"Normal"}`, nil)
}

// A plane that is exported and imported has the same objects, on the same engine and on another, also if they are encrypted in both.
func TestExportImport(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		sealed         bool
	}{
		{name: "etcd to pebble", from: config.EngineEtcd, to: config.EnginePebble},
		{name: "pebble to etcd, encrypted", from: config.EnginePebble, to: config.EngineEtcd, sealed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			from, to := settings(t.TempDir()), settings(t.TempDir())
			from.Engine, to.Engine = c.from, c.to
			if c.sealed {
				from.EncryptionConfigFile, to.EncryptionConfigFile = sealing(t, "first"), sealing(t, "second")
			}
			source, target := start(t, from), start(t, to)
			source.filled(t, "one", r)
			source.create(t, "neighbour", PlaneSpec{})
			source.must(t, "neighbour", "POST", configMaps, `{"metadata":{"name":"of-the-neighbour"}}`, nil)
			file, want := source.fixed(t, "one")
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte("of-the-neighbour")) || bytes.Contains(content, []byte(Prefix)) {
				t.Error("the file has something of another plane")
			}
			if plain := bytes.Contains(content, []byte("secret-")); plain == c.sealed {
				t.Errorf("encrypted: %v, and values can be read: %v", c.sealed, plain)
			}
			of := kinds(source.transformer)
			if c.sealed {
				err := sent(t, file, kinds(nil), nil)(io.Discard)
				if err == nil || !strings.Contains(err.Error(), "decrypt") {
					t.Errorf("without the configuration of the encryption: %v", err)
				}
			}
			made, err := target.client().Import(t.Context(), "copy", sent(t, file, of, nil))
			if err != nil {
				t.Fatal(err)
			}
			target.await(t, "copy", func(p *Plane) bool { return p.Status.URL != "" })
			sameObjects(t, target.everything(t, "copy"), want)
			target.afterRevision(t, "copy", file, made)
			// What it has become can be exported again.
			if err := target.find("copy").sleep(); err != nil {
				t.Fatal(err)
			}
			again := target.saved(t, "copy")
			if _, err := source.client().Import(t.Context(), "back", sent(t, again, kinds(target.transformer), nil)); err != nil {
				t.Fatal(err)
			}
			sameObjects(t, source.everything(t, "back"), want)
			// It is the same after a restart.
			target.stop()
			target = start(t, to)
			sameObjects(t, target.everything(t, "copy"), want)
			target.afterRevision(t, "copy", file, made)
		})
	}
}

// sealing is the file of a configuration of encryption, with a key of its own.
func sealing(t testing.TB, key string) string {
	t.Helper()
	secret := []byte(fmt.Sprintf("%-32s", key))
	text, err := json.Marshal(map[string]any{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": []any{map[string]any{
		"resources": []string{"secrets", "configmaps", "widgets.example.com"},
		"providers": []any{map[string]any{"aesgcm": map[string]any{"keys": []any{map[string]any{"name": key, "secret": secret}}}}, map[string]any{"identity": map[string]any{}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "encryption.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// afterRevision checks that a client that names a revision of before is told that it is gone, and that all there is comes after it.
func (g *ground) afterRevision(t testing.TB, name, file string, made *Imported) {
	t.Helper()
	f, err := snapshot.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if made.Revision <= f.Revision {
		t.Errorf("imported at %d, the file has %d", made.Revision, f.Revision)
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct {
			Metadata struct{ ResourceVersion string }
		}
	}
	g.must(t, name, "GET", "/api/v1/namespaces/apps/configmaps", "", &list)
	for _, o := range list.Items {
		if rev, _ := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64); rev <= f.Revision {
			t.Errorf("an object has the revision %d, the file %d", rev, f.Revision)
		}
	}
	now, _ := strconv.ParseInt(list.Metadata.ResourceVersion, 10, 64)
	if now < made.Revision {
		t.Errorf("the list is of %d, before the import at %d", now, made.Revision)
	}
	for _, rev := range []int64{2, f.Revision / 2, f.Revision, made.Revision - 1} {
		for _, query := range []string{"resourceVersionMatch=Exact&resourceVersion=", "watch=true&timeoutSeconds=1&resourceVersion="} {
			code, answer := g.ask(t, name, name, "GET", fmt.Sprint("/api/v1/namespaces/apps/configmaps?", query, rev), "")
			if code != http.StatusGone && !strings.Contains(answer, `"code":410`) {
				t.Errorf("%s%d: %d %.300s", query, rev, code, answer)
			}
		}
	}
	if code, answer := g.ask(t, name, name, "GET", fmt.Sprint("/api/v1/namespaces/apps/configmaps?resourceVersionMatch=Exact&resourceVersion=", now), ""); code != http.StatusOK {
		t.Errorf("at the revision of the list: %d %.300s", code, answer)
	}
}

// Who has a token or a certificate of a plane can use it with the plane that was made of it together with its keys, and not without them.
func TestKeysMove(t *testing.T) {
	t.Parallel()
	source, target := start(t, settings(t.TempDir())), start(t, settings(t.TempDir()))
	source.create(t, "one", PlaneSpec{})
	var token struct{ Status struct{ Token string } }
	source.must(t, "one", "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, &token)
	file := source.saved(t, "one")
	signing, err := source.client().Keys(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]map[string][]byte{"with": signing, "without": nil} {
		if _, err := target.client().Import(t.Context(), name, sent(t, file, kinds(nil), set)); err != nil {
			t.Fatal(err)
		}
		want := http.StatusUnauthorized
		if set != nil {
			want = http.StatusOK
		}
		if code := target.withToken(t, token.Status.Token, pathPrefix+name+"/api"); code != want {
			t.Errorf("%s keys, with a token of before: %d, not %d", name, code, want)
		}
		target.certs["before"] = source.administrator(t, "one")
		if code, _ := target.ask(t, "before", name, "GET", "/api", ""); code != want {
			t.Errorf("%s keys, with a certificate of before: %d, not %d", name, code, want)
		}
		if code, _ := target.ask(t, name, name, "GET", configMaps, ""); code != http.StatusOK {
			t.Errorf("%s keys, as its new administrator: %d", name, code)
		}
	}
}

// Exports and imports take the verb create on subresources of their own, of the plane that is named.
func TestTransferRights(t *testing.T) {
	t.Parallel()
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	g.create(t, "other", PlaneSpec{})
	file := g.saved(t, "one")
	for _, sub := range []string{exportOf, importOf} {
		role := map[string]any{"metadata": map[string]any{"name": sub}, "rules": []any{
			map[string]any{"apiGroups": []string{Group}, "resources": []string{"planes/" + sub}, "resourceNames": []string{"one", "new"}, "verbs": []string{"create"}},
			map[string]any{"apiGroups": []string{Group}, "resources": []string{"planes"}, "verbs": []string{"*"}}}}
		binding := map[string]any{"metadata": map[string]any{"name": sub}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": sub},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": sub}}}
		for path, o := range map[string]any{"clusterroles": role, "clusterrolebindings": binding} {
			if err := g.root.create(t.Context(), "/apis/rbac.authorization.k8s.io/v1/"+path, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	as := func(name string) *Client {
		return NewClient(g.plane.Transport(&user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}), "")
	}
	export := func(c *Client, name string) error {
		from, err := c.Export(t.Context(), name)
		if err == nil {
			_ = from.Close()
		}
		return err
	}
	take := func(c *Client, name string) error {
		_, err := c.Import(t.Context(), name, sent(t, file, kinds(nil), nil))
		return err
	}
	for end := time.Now().Add(time.Minute); export(as(exportOf), "one") != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the right does not come into force")
		}
	}
	for what, err := range map[string]error{
		"export of another": export(as(exportOf), "other"), "export by who may import": export(as(importOf), "one"),
		"export by who may do everything with Planes but that": export(as("nobody"), "one"), "import by who may export": take(as(exportOf), "new"),
		"import to another name": take(as(importOf), "else"),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := take(as(importOf), "new"); err != nil {
		t.Error(err)
	}
	if err := take(as(importOf), "one"); !apierrors.IsConflict(err) {
		t.Errorf("import to a plane with objects: %v", err)
	}
	if err := take(as(importOf), "new"); !apierrors.IsConflict(err) {
		t.Errorf("a second import: %v", err)
	}
	if err := export(g.client(), "none"); !apierrors.IsNotFound(err) {
		t.Errorf("export of none: %v", err)
	}
}

// An import that breaks off leaves a plane that serves nothing, and that the next one completes.
func TestImportIsWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := start(t, settings(dir))
	g.create(t, "one", PlaneSpec{})
	for n := range 300 {
		g.must(t, "one", "POST", configMaps, fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n), nil)
	}
	file, want := g.fixed(t, "one")
	var whole bytes.Buffer
	if err := sent(t, file, kinds(nil), nil)(&whole); err != nil {
		t.Fatal(err)
	}
	cut := func(at int) error {
		_, err := g.client().Import(t.Context(), "copy", func(to io.Writer) error { _, err := to.Write(whole.Bytes()[:at]); return err })
		return err
	}
	asleep := func() {
		t.Helper()
		p := g.await(t, "copy", func(p *Plane) bool { return len(p.Status.Conditions) > 0 })
		if c := p.Status.Conditions[0]; c.Status != "False" || c.Reason != "AwaitsImport" {
			t.Errorf("%+v", c)
		}
		if code := g.withToken(t, "some", pathPrefix+"copy/api"); code != http.StatusServiceUnavailable {
			t.Errorf("it is served: %d", code)
		}
		if _, err := g.client().Export(t.Context(), "copy"); !apierrors.IsConflict(err) {
			t.Errorf("it can be exported: %v", err)
		}
	}
	for _, at := range []int{0, 10, whole.Len() / 2, whole.Len() - 1} {
		if err := cut(at); !apierrors.IsBadRequest(err) {
			t.Errorf("cut off at %d: %v", at, err)
		}
		asleep()
		if n, _, err := g.usage(t.Context(), g.find("copy").prefix()+"/"); err != nil || n > 0 {
			t.Errorf("cut off at %d, %d keys are left: %v", at, n, err)
		}
	}
	// A server that is killed leaves what is there.
	h := g.find("copy")
	i := imports{Fleet: g.Fleet, h: h}
	if err := i.begin(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	stream, err := transfer.NewReader(&whole)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		k, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if err := i.object(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := g.usage(t.Context(), h.prefix()+"/"); err != nil || n == 0 {
		t.Fatalf("%d keys were written: %v", n, err)
	}
	g.stop()
	g = start(t, settings(dir))
	asleep()
	if _, err := g.client().Import(t.Context(), "copy", sent(t, file, kinds(nil), nil)); err != nil {
		t.Fatal(err)
	}
	got := g.everything(t, "copy")
	sameObjects(t, got, want)
	// The one before cannot write any more, as it could on another server.
	i.Fleet = g.Fleet
	if err := i.flush(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("an import that was overtaken writes: %v", err)
	}
	if err := i.clear(t.Context()); !apierrors.IsConflict(err) {
		t.Errorf("an import that was overtaken removes: %v", err)
	}
	if err := i.finish(t.Context(), nil); !apierrors.IsConflict(err) {
		t.Errorf("an import that was overtaken ends: %v", err)
	}
	sameObjects(t, g.everything(t, "copy"), got)
	// Nothing is left of a plane that is deleted.
	uid := g.find("copy").uid
	if err := g.Delete(t.Context(), "copy"); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{Prefix + string(uid), importsPrefix} {
		if n, _, err := g.usage(t.Context(), prefix); err != nil || n > 0 {
			t.Errorf("%d keys are left below %s: %v", n, prefix, err)
		}
	}
}

// The limits of a plane hold for what it is made of.
func TestImportWithinLimits(t *testing.T) {
	t.Parallel()
	g := start(t, settings(t.TempDir()))
	g.create(t, "one", PlaneSpec{})
	file := g.saved(t, "one")
	for name, limits := range map[string]Limits{"objects": {Objects: 50}, "bytes": {Bytes: 5000}} {
		if err := g.tryCreate(t, name, PlaneSpec{Imported: true, Limits: limits}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.client().Import(t.Context(), name, sent(t, file, kinds(nil), nil)); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n, _, err := g.usage(context.Background(), g.find(name).prefix()+"/"); err != nil || n > 0 {
			t.Errorf("%s: %d keys are left: %v", name, n, err)
		}
	}
	if err := g.tryCreate(t, "both", PlaneSpec{Imported: true, Template: "t"}); !apierrors.IsInvalid(err) {
		t.Errorf("of a template and a file: %v", err)
	}
}
