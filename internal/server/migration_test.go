package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

const migrationsPath = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"

// migrating starts a server that migrates stored objects. It returns its database too.
func migrating(t *testing.T, change func(*config.Config)) (*server, store.DB) {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener, cfg.Controllers = t.TempDir(), true, true, []string{"storage-version-migrator-controller"}
	change(&cfg)
	var db store.DB
	on, plane := planeOf(t, &cfg, process.Given{Around: func(opened store.DB) store.DB { db = opened; return opened }})
	return running(t, plane, on.Close), db
}

// stored are the values of the keys with a prefix.
func stored(t *testing.T, db store.DB, prefix string) (values [][]byte) {
	t.Helper()
	if _, err := db.Range(t.Context(), kv.Range{Key: prefix, End: kv.PrefixEnd(prefix)}, func(k kv.KeyValue) bool {
		values = append(values, bytes.Clone(k.Value))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return values
}

// migrate migrates the objects of a resource, and returns the migration once it has ended.
func migrate(t *testing.T, s *server, group, resource string) *migrationv1.StorageVersionMigration {
	t.Helper()
	m := &migrationv1.StorageVersionMigration{}
	body := fmt.Appendf(nil, `{"metadata":{"generateName":"m-"},"spec":{"resource":{"group":%q,"resource":%q}}}`, group, resource)
	if err := json.Unmarshal(do(t, s, "POST", migrationsPath, "application/json", "", body, 201), m); err != nil {
		t.Fatal(err)
	}
	path := migrationsPath + "/" + m.Name
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		m = &migrationv1.StorageVersionMigration{}
		if err := json.Unmarshal(do(t, s, "GET", path, "", "", nil, 200), m); err != nil {
			t.Fatal(err)
		}
		if meta.IsStatusConditionFalse(m.Status.Conditions, string(migrationv1.MigrationRunning)) {
			return m
		}
		if time.Now().After(end) {
			t.Fatalf("the migration does not end: %+v", m.Status)
		}
	}
}

// Objects of a former encryption key are encrypted with the current one after a migration.
func TestMigratesToNewKey(t *testing.T) {
	alone(t, testing.Short())
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	configure := func(providers string) {
		text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [" + providers + "]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const old, current = `{aescbc: {keys: [{name: old, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}}`, `{aescbc: {keys: [{name: new, secret: ZmVkY2JhOTg3NjU0MzIxMA==}]}}`
	configure(old)
	s, db := migrating(t, func(c *config.Config) { c.EncryptionConfigFile, c.EncryptionConfigReload = file, true })
	const secrets = 20
	for n := range secrets {
		do(t, s, "POST", secretsPath, "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"s-%d"},"stringData":{"a":"b"}}`, n), 201)
	}
	encrypted := func(key string) (n int) {
		for _, v := range stored(t, db, "/registry/secrets/default/s-") {
			if bytes.HasPrefix(v, []byte("k8s:enc:aescbc:v1:"+key+":")) {
				n++
			}
		}
		return n
	}
	if n := encrypted("old"); n != secrets {
		t.Fatalf("%d secrets have the first key, not %d", n, secrets)
	}
	configure(current + ", " + old)
	do(t, s, "POST", secretsPath, "application/json", "", []byte(`{"metadata":{"name":"probe-0"}}`), 201)
	for n := 1; !bytes.HasPrefix(stored(t, db, fmt.Sprintf("/registry/secrets/default/probe-%d", n-1))[0], []byte("k8s:enc:aescbc:v1:new:")); n++ {
		time.Sleep(50 * time.Millisecond)
		do(t, s, "POST", secretsPath, "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"probe-%d"}}`, n), 201)
	}
	m := migrate(t, s, "", "secrets")
	if !meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationSucceeded)) || m.Status.ResourceVersion == "" {
		t.Errorf("the migration has not succeeded: %+v", m.Status)
	}
	if n := encrypted("new"); n != secrets {
		t.Errorf("%d secrets have the new key, not %d", n, secrets)
	}
}

// Custom resources are stored in the storage version after a migration, and their definition says so.
func TestMigratesToStorageVersion(t *testing.T) {
	alone(t, testing.Short())
	s, db := migrating(t, func(*config.Config) {})
	const definitions, name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "things.example.com"
	define := func(storage string) []byte {
		version := func(name string) string {
			return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, name, name == storage)
		}
		return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},"spec":{"group":"example.com","scope":"Namespaced",
			"names":{"plural":"things","singular":"thing","kind":"Thing"},"versions":[%s,%s]}}`, name, version("v1"), version("v2"))
	}
	crd := func() *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(do(t, s, "GET", definitions+"/"+name, "", "", nil, 200), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	do(t, s, "POST", definitions, "application/json", "", define("v1"), 201)
	for len(crd().Status.StoredVersions) == 0 || len(crd().Status.Conditions) < 2 {
		time.Sleep(10 * time.Millisecond)
	}
	do(t, s, "POST", "/apis/example.com/v1/namespaces/default/things", "application/json", "", []byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"n":1}}`), 201)
	do(t, s, "PATCH", definitions+"/"+name, "application/merge-patch+json", "", define("v2"), 200)
	migrate(t, s, "example.com", "things")
	if values := stored(t, db, "/registry/example.com/things/"); len(values) != 1 || !bytes.Contains(values[0], []byte(`"example.com/v2"`)) {
		t.Errorf("stored are %q", values)
	}
	if got := crd().Status; len(got.StoredVersions) != 1 || got.StoredVersions[0] != "v2" {
		t.Errorf("the definition has the stored versions %v: %+v", got.StoredVersions, got.Conditions)
	}
}

// What cannot be migrated is not migrated in another way.
func TestMigratesOnlyWhatIsWritten(t *testing.T) {
	alone(t, testing.Short())
	s, _ := migrating(t, func(*config.Config) {})
	m := migrate(t, s, "authorization.k8s.io", "subjectaccessreviews")
	if !meta.IsStatusConditionTrue(m.Status.Conditions, string(migrationv1.MigrationFailed)) {
		t.Errorf("the migration has not failed: %+v", m.Status)
	}
}
