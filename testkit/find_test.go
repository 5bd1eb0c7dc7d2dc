package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes files below a directory; those without a suffix are programs.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// in changes the working directory for a test.
func in(t *testing.T, dir string) {
	t.Helper()
	was, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chdir(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chdir(was) })
}

// TestFind takes each place away in its turn.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"own/kanzen-1.0": "#!", "path/kanzen": "#!", "assets/kanzen-2.0": "#!", "others/etcd": "#!", "others/kube-apiserver": "#!"})
	if err := os.Symlink(filepath.Join(dir, "assets", "kanzen-2.0"), filepath.Join(dir, "assets", "etcd")); err != nil {
		t.Skip(err)
	}
	in(t, dir)
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, c := range []struct{ kanzen, path, assets, want string }{
		{at("own/kanzen-1.0"), at("path"), at("assets"), at("own/kanzen-1.0")},
		{"own/kanzen-1.0", at("path"), at("assets"), at("own/kanzen-1.0")},
		{"", at("path"), at("assets"), at("path/kanzen")},
		{"", at("others"), at("assets"), at("assets/kanzen-2.0")},
	} {
		t.Setenv(binaryVariable, c.kanzen)
		t.Setenv("PATH", c.path)
		t.Setenv(assetsVariable, c.assets)
		if got, err := find(); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	t.Setenv(assetsVariable, at("others"))
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "go install github.com/kanzen-io/kanzen/cmd/kanzen@latest") || !strings.Contains(err.Error(), "export KANZEN=") {
		t.Errorf("nothing is found: %v", err)
	}
	t.Setenv(binaryVariable, at("nowhere"))
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "KANZEN=") {
		t.Errorf("KANZEN names nothing: %v", err)
	}
}

// TestFindTool has the tool in the go.mod of the module, of its tools, and in a second file. A module of the same path stands
// for kanzen, because the go command is to build it.
func TestFindTool(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"go.mod":       {"go.mod": "module example.com/operator\n\ngo 1.24.0\n\ntool github.com/kanzen-io/kanzen/cmd/kanzen\n\nrequire github.com/kanzen-io/kanzen v1.0.0\n\nreplace github.com/kanzen-io/kanzen => ./kanzen\n"},
		"tools/go.mod": {"go.mod": "module example.com/operator\n\ngo 1.22.0\n", "tools/go.mod": "module tools\n\ngo 1.24.0\n\ntool (\n\tgithub.com/kanzen-io/kanzen/cmd/kanzen // tests\n)\n\nrequire github.com/kanzen-io/kanzen v1.0.0\n\nreplace github.com/kanzen-io/kanzen => ../kanzen\n"},
		"tools.mod":    {"go.mod": "module example.com/operator\n\ngo 1.22.0\n", "tools.mod": "module example.com/operator\n\ngo 1.24.0\n\ntool github.com/kanzen-io/kanzen/cmd/kanzen\n\nrequire github.com/kanzen-io/kanzen v1.0.0\n\nreplace github.com/kanzen-io/kanzen => ./kanzen\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, files)
			write(t, dir, map[string]string{"kanzen/go.mod": "module github.com/kanzen-io/kanzen\n\ngo 1.24.0\n", "internal/a/a.go": "package a\n"})
			in(t, filepath.Join(dir, "internal", "a"))
			t.Setenv(binaryVariable, "")
			t.Setenv(assetsVariable, "")
			t.Setenv("PATH", onlyGo(t))
			// One that does not compile is told.
			program := "kanzen/cmd/kanzen/main.go"
			write(t, dir, map[string]string{program: "package main\n\nfunc main() { broken }\n"})
			if _, err := find(); err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "-n kanzen") {
				t.Errorf("a tool that does not compile: %v", err)
			}
			write(t, dir, map[string]string{program: "package main\n\nfunc main() {}\n"})
			got, err := find()
			if err != nil || !exists(got) || !strings.HasPrefix(filepath.Base(got), "kanzen") {
				t.Fatalf("%s, %v", got, err)
			}
		})
	}
}

// onlyGo is a PATH with the go command and nothing else.
func onlyGo(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if path := filepath.Join(dir, "go"); exists(path) && !exists(filepath.Join(dir, program)) {
			return dir + string(filepath.ListSeparator) + "/usr/bin" + string(filepath.ListSeparator) + "/bin" // of -toolexec
		}
	}
	t.Skip("there is no go command")
	return ""
}

func TestPlanePrefix(t *testing.T) {
	for test, want := range map[string]string{
		"TestA/b c": "testa-b-c-", "": "test-", "日本": "test-", "42/x": "x-",
		"TestAVeryLongNameOfATestThatDoesNotFitIntoALabel": "testaverylongnameofatestthatdoesnotfitin-",
	} {
		if got := planePrefix(test); got != want {
			t.Errorf("%q: %q, want %q", test, got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "---\n---\n# nothing\n": 0, "apiVersion: v1\nkind: A\n---\r\napiVersion: v1\nkind: B": 2,
		"--- {apiVersion: v1, kind: A}\n--- # the second\napiVersion: v1\nkind: B\n---": 2,
		`{"apiVersion":"v1","kind":"List","items":[{"kind":"A"},{"kind":"B"}]}`:         2,
		"apiVersion: v1\nkind: A\ndata:\n  text: |\n    ---\n    more\n":                1,
	} {
		got, err := decode([]byte(text))
		if err != nil || len(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, wrong := range []string{"a: b", "[1]", "a: [", "kind: A"} {
		if got, err := decode([]byte(wrong)); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
}
