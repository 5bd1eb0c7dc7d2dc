package kanzentest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// TestFailures runs a failing test in another process and reads what it leaves.
func TestFailures(t *testing.T) {
	t.Parallel()
	if os.Getenv("KANZENTEST_TO_FAIL") != "" {
		s := kanzentest.Start(t)
		k := client(t, s.Config())
		mustCreate(t, k, "found")
		if _, err := k.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Fatal("as it should")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailures$")
	cmd.Env = append(os.Environ(), "KANZENTEST_TO_FAIL=1", "KANZENTEST_FAILURES="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "deprecated") || !strings.Contains(string(out), "the requests and objects of the server are in "+filepath.Join(dir, "TestFailures")) {
		t.Fatalf("%v\n%s", err, out)
	}
	// There is nothing of what every server begins with.
	for _, folder := range []string{"namespaces", "clusterroles.rbac.authorization.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io"} {
		if _, err := os.Stat(filepath.Join(dir, "TestFailures", "objects", folder)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	requests, err := os.ReadFile(filepath.Join(dir, "TestFailures", "requests.jsonl"))
	if err != nil || !strings.Contains(string(requests), `"Resource":"secrets"`) {
		t.Errorf("%s, %v", requests, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "TestFailures/objects/configmaps/default_found.yaml")); err != nil || !strings.Contains(string(text), "name: found") {
		t.Errorf("%s, %v", text, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "TestFailures/objects/secrets/default_s.yaml"))
	if err != nil || strings.Contains(string(text), "aHVudGVyMg") || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s, %v", text, err)
	}
}
