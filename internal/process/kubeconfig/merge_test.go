package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

var entry = Entry{Context: "kanzen", Cluster: "kanzen", User: "kanzen", Server: "https://127.0.0.1:1", CA: "Y2E=", ClientCert: "Y2VydA==", ClientKey: "a2V5"}

const mine = `# my clusters
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- name: work # the one that pays
  cluster: {server: "https://work:6443", future-field: kept}
contexts:
- {name: work, context: {cluster: work, user: me, namespace: team}}
users:
- name: me
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: Never}
`

func TestMergeKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dotfiles", "config")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config")
	if err := os.Symlink(file, path); err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{"https://127.0.0.1:1", "https://127.0.0.1:2"} { // the second replaces the first
		e := entry
		e.Server = server
		if current, err := Merge(path, e); err != nil || current {
			t.Fatalf("current: %t, %v", current, err)
		}
	}
	if l, err := os.Readlink(path); err != nil || l != file {
		t.Errorf("the link is gone: %q, %v", l, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "dotfiles", "*")); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# my clusters", "# the one that pays", "future-field: kept", "colors: true", "command: login", "namespace: team"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is lost in\n%s", want, b)
		}
	}
	c, err := clientcmd.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	if c.CurrentContext != "work" || len(c.Clusters) != 2 || len(c.Contexts) != 2 || len(c.AuthInfos) != 2 {
		t.Errorf("%+v", c)
	}
	if got := c.Clusters["kanzen"]; got.Server != "https://127.0.0.1:2" || string(got.CertificateAuthorityData) != "ca" {
		t.Errorf("%+v", got)
	}
	if got := c.AuthInfos[c.Contexts["kanzen"].AuthInfo]; string(got.ClientKeyData) != "key" {
		t.Errorf("%+v", got)
	}
}

func TestMergeIntoNothing(t *testing.T) {
	for name, content := range map[string]string{"an empty file": "", "null lists": "apiVersion: v1\nclusters: null\ncontexts: []\ncurrent-context: \"\"\nkind: Config\nusers: null\n"} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		current, err := Merge(path, entry)
		if err != nil || !current {
			t.Errorf("%s: current: %t, %v", name, current, err)
		}
		c, err := clientcmd.LoadFromFile(path)
		if err != nil || c.CurrentContext != "kanzen" || c.Contexts["kanzen"] == nil {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	path := filepath.Join(t.TempDir(), "none", "config")
	if current, err := Merge(path, entry); err != nil || !current {
		t.Errorf("no file: current: %t, %v", current, err)
	}
}

func TestMergeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ content, says string }{
		"no YAML":            {"a: [", "is not YAML"},
		"a list":             {"- a\n", "is not a kubeconfig"},
		"another kind":       {"kind: Pod\n", `is not a kubeconfig but a "Pod"`},
		"another's context":  {"contexts:\n- name: kanzen\n  context: {cluster: other, user: other}\n", `has a context "kanzen" that kanzen did not make; choose another name with --context`},
		"clusters of a kind": {"clusters: 7\n", "clusters is not a list"},
	} {
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(path, entry)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if b, _ := os.ReadFile(path); string(b) != c.content {
			t.Errorf("%s: the file was changed:\n%s", name, b)
		}
		if _, err := os.Stat(path + ".lock"); !os.IsNotExist(err) {
			t.Errorf("%s: the lock is there: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path+".lock", nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(path, entry); err == nil || !strings.Contains(err.Error(), "another program writes") {
		t.Errorf("while it is locked: %v", err)
	}
}

func TestPath(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	for env, want := range map[string]string{
		"":                       filepath.Join(dir, ".kube", "config"),
		"/none/a:" + there:       there,
		"/none/a:/none/b":        "/none/b",
		":" + there + ":/none/b": there,
	} {
		t.Setenv("KUBECONFIG", env)
		if got, err := Path(); err != nil || got != want {
			t.Errorf("%q: %q, %v", env, got, err)
		}
	}
}
