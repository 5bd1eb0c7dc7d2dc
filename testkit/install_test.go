package testkit_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/kanzen-io/kanzen/testkit"
)

// things is a CRD.
const things = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
  creationTimestamp: null
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
  - name: v2
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// TestInstall has objects of each source, in any order: definitions come before what is of their kinds.
func TestInstall(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"thing.yaml": "# first the comment\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: team}\nspec: {size: 1}\n--- # again\n",
		"other.json": `{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"b"}}`,
		"notes.txt":  "nothing",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := testkit.Start(t, testkit.Install(
		testkit.Path(dir),
		testkit.Path(filepath.Join(dir, "other.json")),
		testkit.YAML("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: made-}"),
		testkit.FS(fstest.MapFS{"crds/things.yaml": {Data: []byte(things)}}, "crds"),
		testkit.Objects(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}},
		}}),
	))
	for _, path := range []string{
		"/apis/example.com/v1/namespaces/team/things/a", "/apis/example.com/v2/namespaces/default/things/b", "/api/v1/namespaces/default/secrets/s",
	} {
		if code, answer := ask(t, s.Access, http.MethodGet, path, ""); code != http.StatusOK {
			t.Errorf("%s: %v", path, answer)
		}
	}
	// Objects that exist are changed.
	if err := s.Install(context.Background(), testkit.YAML("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: team}\nspec: {size: 2}")); err != nil {
		t.Fatal(err)
	}
	_, a := ask(t, s.Access, http.MethodGet, "/apis/example.com/v1/namespaces/team/things/a", "")
	if spec, _ := a["spec"].(map[string]any); spec["size"] != 2.0 {
		t.Errorf("%v", a)
	}
}
