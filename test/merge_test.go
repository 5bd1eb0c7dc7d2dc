package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestForkMerge changes objects on a server and on a fork of it with kubectl, and merges the fork by `kanzen fork merge`: what only one side has
// changed is there afterwards, and what both have is a conflict. `kanzen diff` compares server, forks, moments and other servers.
func TestForkMerge(t *testing.T) {
	t.Parallel()
	k, other := serve(t, t.TempDir()), serve(t, t.TempDir())
	run := func(want int, says string, args ...string) string {
		t.Helper()
		out, said, code := output(t, binaries.kanzen, append(args, "--kubeconfig", k.kubeconfig())...)
		if code != want || !strings.Contains(out+said, says) {
			t.Fatalf("kanzen %s: %d\n%s%s\nwant %d and %q", strings.Join(args, " "), code, out, said, want, says)
		}
		return out
	}
	kubectl := func(config string, args ...string) string {
		t.Helper()
		return planesOf{k, t}.kubectl(config, "", args...)
	}
	forked := func(name string) string {
		t.Helper()
		run(0, "fork "+name+" was made", "fork", "create", name)
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, []byte(run(0, "", "fork", "kubeconfig", name)), 0o600))
		return path
	}
	here := k.kubeconfig()
	kubectl(here, "create", "configmap", "settings", "--from-literal", "colour=red", "--from-literal", "size=1")
	kubectl(here, "create", "secret", "generic", "key", "--from-literal", "value=one")
	before := kubectl(here, "get", "secret", "key", "-o", "jsonpath={.metadata.resourceVersion}")
	try, second := forked("try"), forked("second")
	kubectl(try, "patch", "configmap", "settings", "--type", "merge", "-p", `{"data":{"colour":"blue"}}`)
	kubectl(try, "patch", "secret", "key", "--type", "merge", "-p", `{"stringData":{"value":"two"}}`)
	kubectl(try, "create", "namespace", "shop")
	kubectl(try, "create", "configmap", "prices", "-n", "shop", "--from-literal", "apple=1")
	kubectl(second, "patch", "configmap", "settings", "--type", "merge", "-p", `{"data":{"colour":"green"}}`)
	kubectl(here, "patch", "configmap", "settings", "--type", "merge", "-p", `{"data":{"size":"2"}}`)

	run(0, `data.size: "2" → "1"`, "diff", "--fork", "try")
	if out := run(0, `data.colour: "blue" → "green"`, "diff", "--fork", "try", "--fork", "second"); !strings.Contains(out, "- configmap/prices in shop") || !strings.Contains(out, `data.value: (hidden) → (hidden)`) {
		t.Errorf("%s", out)
	}
	if out := run(0, "~ configmap/settings", "diff", "configmaps", "--fork", "try", "-A"); strings.Contains(out, "namespace/shop") {
		t.Errorf("%s", out)
	}
	if out := run(0, `data.colour: "red" → "blue"`, "fork", "merge", "try", "--dry-run"); strings.Contains(out, "size") || !strings.Contains(out, "+ namespace/shop") {
		t.Errorf("%s", out)
	}
	run(1, "not found", "diff", "--fork", "none")
	run(0, "2 created, 2 changed, 0 deleted", "fork", "merge", "try")
	if got := kubectl(here, "get", "configmap", "settings", "-o", "jsonpath={.data}"); got != `{"colour":"blue","size":"2"}` {
		t.Errorf("merged: %s", got)
	}
	if got := kubectl(here, "get", "configmap", "prices", "-n", "shop", "-o", "jsonpath={.data.apple}"); got != "1" {
		t.Errorf("created: %s", got)
	}

	// Both have changed the colour.
	out := run(1, `data.colour: the fork has "green" (kubectl-patch), the server has "blue" (kubectl-patch)`, "fork", "merge", "second")
	if !strings.Contains(out, "1 refused; nothing was written.") {
		t.Errorf("%s", out)
	}
	var refused struct {
		Refused []struct{ Item, Reason string }
	}
	must(t, json.Unmarshal([]byte(run(1, "", "fork", "merge", "second", "-o", "json")), &refused))
	if len(refused.Refused) != 1 || refused.Refused[0].Item != "data.colour" || refused.Refused[0].Reason != "FieldManagerConflict" {
		t.Errorf("%v", refused)
	}
	run(0, "The fork was right", "fork", "merge", "second", "--force")
	if got := kubectl(here, "get", "configmap", "settings", "-o", "jsonpath={.data}"); got != `{"colour":"green","size":"2"}` {
		t.Errorf("forced: %s", got)
	}

	// What has changed since a moment.
	if out := run(0, "+ namespace/shop", "diff", "--at", before); !strings.Contains(out, "data.value: (hidden) → (hidden)") || strings.Contains(out, "dHdv") {
		t.Errorf("%s", out)
	}
	run(1, "none of the others can be", "diff", "--at", "1h", "--fork", "try")
	run(1, "--at, --fork or --with-context", "diff", "configmap/settings")
	run(0, `data.size: "1" → "2"`, "diff", "configmaps", "--at", before, "-n", "default")
	run(0, `data.size: "1" → "2"`, "diff", "configmap/settings@"+before, "-n", "default")
	run(0, "0 created, 0 changed", "diff", "--at", before, "--at", before)

	// Another server.
	both := filepath.Join(t.TempDir(), "both")
	must(t, os.WriteFile(both, []byte(contextsOf(t, here, other.kubeconfig())), 0o600))
	out, said, code := output(t, binaries.kanzen, "diff", "--kubeconfig", both, "--context", "a", "--with-context", "b")
	if code != 0 || !strings.Contains(out, "- configmap/settings in default") || strings.Contains(out, "namespace/default") || strings.Contains(out, "clusterrole/") {
		t.Errorf("%d %s %s", code, out, said)
	}
}

// contextsOf is a kubeconfig with the servers of two others, as the contexts a and b; a is the current one.
func contextsOf(t *testing.T, a, b string) string {
	t.Helper()
	out := clientcmdapi.NewConfig()
	for name, path := range map[string]string{"a": a, "b": b} {
		c, err := clientcmd.LoadFromFile(path)
		must(t, err)
		must(t, clientcmdapi.MinifyConfig(c))
		must(t, clientcmdapi.FlattenConfig(c))
		for _, of := range c.Contexts {
			out.Clusters[name], out.AuthInfos[name] = c.Clusters[of.Cluster], c.AuthInfos[of.AuthInfo]
			out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		}
	}
	out.CurrentContext = "a"
	text, err := clientcmd.Write(*out)
	must(t, err)
	return string(text)
}
