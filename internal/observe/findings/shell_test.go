package findings

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// TestCommandsRunNoNames has a shell read commands about things with names that users may choose.
func TestCommandsRunNoNames(t *testing.T) {
	for _, name := range []string{"web", "system:node:a", "", "a b", "$(touch x)", "`touch x`", "a;touch x", "a'b", `a"b\`, "a\nb", "#a", "~", "*", "a&b|c<d>e", "ä"} {
		o := v1alpha1.ObjectReference{Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: "n", Name: name}
		for text, want := range map[string][]string{
			command("printf '%%s\\0' kanzen why %s", argumentOf(o)):         {"kanzen", "why", "roles.rbac.authorization.k8s.io/" + name, "-n", "n"},
			command("printf '%%s\\0' kubectl get -l name=%s -o yaml", name): {"kubectl", "get", "-l", "name=" + name, "-o", "yaml"},
		} {
			cmd := exec.Command("sh", "-c", text)
			cmd.Dir = t.TempDir()
			out, err := cmd.Output()
			if got := strings.TrimSuffix(string(out), "\x00"); err != nil || got != strings.Join(want, "\x00") {
				t.Errorf("%s: %v %q", text, err, got)
			}
		}
	}
	if got := command("%s  # at once", withoutFinalizers(v1alpha1.ObjectReference{Resource: "pods", Namespace: "n", Name: "a"})); got != `kubectl patch pods/a -n n --type=merge -p '{"metadata":{"finalizers":null}}'  # at once` {
		t.Error(got)
	}
}
