package lint

import (
	"os/exec"
	"strings"
	"testing"
)

// heavy are packages that must not come into the binary, not even through others.
var heavy = map[string]string{
	"k8s.io/client-go/kubernetes/scheme": "brings every version of every API, 7 MB",
	"k8s.io/client-go/informers":         "keeps copies of objects; store.View has them",
	"testing":                            "belongs into tests",
}

func TestBinaryIsLight(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/kanzen")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if reason, ok := heavy[pkg]; ok {
			t.Errorf("the binary has %s, which %s", pkg, reason)
		}
	}
}
