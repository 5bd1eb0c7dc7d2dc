package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kanzen-io/kanzen/test/suite"
)

// module is a copy of k8s.io/kubernetes in which tests start a program: files of the module cache may not be overlaid.
type module struct{ name, dir, modfile, binaries string }

// pinned is the module whose go.mod says which k8s.io/kubernetes it is, and which libraries go with it.
const pinned = "../bench/peer"

// renamed are the functions that start a server within a test. The files of testdata/over hold others of their names.
var renamed = map[string]struct{ from, to string }{
	"cmd/kube-apiserver/app/testing/testserver.go": {"\nfunc StartTestServer(", "\nfunc startWithinTest("},
	"test/integration/framework/test_server.go":    {"\nfunc StartTestServer(", "\nfunc startWithinTest("},
	"test/integration/etcd/server.go":              {"\nfunc StartRealAPIServerOrDie(", "\nfunc startWithinTest("},
}

func prepare(cache string) (*module, error) {
	version, dir, err := suite.Download(pinned, "k8s.io/kubernetes")
	if err != nil {
		return nil, err
	}
	m := &module{name: "k8s.io/kubernetes " + version, dir: filepath.Join(cache, "kubernetes@"+version), modfile: filepath.Join(cache, "go.mod"), binaries: filepath.Join(cache, "bin")}
	if _, err := os.Stat(m.dir); os.IsNotExist(err) {
		fmt.Printf("copying k8s.io/kubernetes %s\n", version)
		if err := suite.CopyModule(dir, m.dir, change); err != nil {
			return nil, err
		}
	}
	if err := layOver("upstream/testdata/over", m.dir); err != nil {
		return nil, err
	}
	return m, m.writeModfile()
}

// change renames the functions that start a server. One script is for a test that wants it not to be executable.
func change(path string, b []byte) ([]byte, os.FileMode, error) {
	if change, ok := renamed[path]; ok {
		if bytes.Count(b, []byte(change.from)) != 1 {
			return nil, 0, fmt.Errorf("%s does not hold %q once", path, change.from)
		}
		b = bytes.Replace(b, []byte(change.from), []byte(change.to), 1)
	}
	if strings.HasSuffix(path, "-not-executable.sh") {
		return b, 0o644, nil
	}
	return b, suite.Mode(b), nil
}

func layOver(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
}

// writeModfile writes the pinned go.mod with the copy in the place of k8s.io/kubernetes.
func (m *module) writeModfile() error {
	b, err := os.ReadFile(filepath.Join(pinned, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(pinned, "go.sum"))
	if err != nil {
		return err
	}
	b = append(b, "\nreplace k8s.io/kubernetes => "+m.dir+"\n"...)
	if err := os.WriteFile(m.modfile, b, 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(m.modfile, ".mod")+".sum", sum, 0o644)
}

// fixtures makes the folder in which tests that start a server of the extension API keep its certificates: it is beside the source of
// that server, with or without the path of the module cache, and taken to be below dir.
func (m *module) fixtures(dir string) error {
	const source = "k8s.io/apiextensions-apiserver"
	_, cached, err := suite.Download(pinned, source)
	if err != nil {
		return err
	}
	for _, path := range []string{source + "@v0.0.0", cached} {
		if err := os.MkdirAll(filepath.Join(dir, path, "pkg/cmd/server/testing/testdata"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// build compiles a package's tests.
func (m *module) build(pkg string) (string, error) {
	binary := filepath.Join(m.binaries, strings.ReplaceAll(pkg, "/", "-")+".test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-mod=mod", "-modfile="+m.modfile, "-o", binary, "k8s.io/kubernetes/test/integration/"+pkg)
	cmd.Dir, cmd.Env = pinned, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not build: %w\n%s", pkg, err, out)
	}
	return binary, nil
}
