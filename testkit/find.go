package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
)

// The environment variables that lead to a binary.
const (
	binaryVariable = "KANZEN"
	assetsVariable = "KUBEBUILDER_ASSETS"
)

const program = "kanzen"

// find returns the path of kanzen.
func find() (string, error) {
	if path := os.Getenv(binaryVariable); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("%s=%s: %w", binaryVariable, path, err)
		}
		return filepath.Abs(found)
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	if path, err := tool(); path != "" || err != nil {
		return path, err
	}
	if path := ofAssets(os.Getenv(assetsVariable)); path != "" {
		return path, nil
	}
	return "", errors.New(`there is no kanzen: neither by $KANZEN nor in the PATH, as a tool of this module or by $KUBEBUILDER_ASSETS. One of these brings it:
  go install github.com/kanzen-io/kanzen/cmd/kanzen@latest    (and have $(go env GOPATH)/bin in the PATH)
  export KANZEN=/path/to/kanzen                                (a downloaded binary)
  a module of your tools, so that go.mod stays as it is:
    mkdir -p tools && cd tools && go mod init tools && go get -tool github.com/kanzen-io/kanzen/cmd/kanzen@latest`)
}

// toolFiles are where modules name their tools, beside their go.mod.
var toolFiles = []string{"go.mod", "tools/go.mod", "hack/tools/go.mod", "internal/tools/go.mod", "tools.mod", "go.tool.mod"}

// toolLine is the line of a go.mod that names the tool.
var toolLine = regexp.MustCompile(`(?m)^(tool)?\s*github\.com/kanzen-io/kanzen/cmd/kanzen\s*(//.*)?$`)

// tool returns the path of kanzen as a tool of the module that the working directory is in, which the go command builds if it
// has not before. Without such a tool it returns "".
func tool() (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !exists(filepath.Join(root, "go.mod")) {
		up := filepath.Dir(root)
		if up == root {
			return "", nil
		}
		root = up
	}
	for _, name := range toolFiles {
		file := filepath.Join(root, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if toolLine.Match(text) {
			return buildTool(root, file)
		}
	}
	return "", nil
}

// tools are the paths of tools that were built, by the files that name them: each Start would wait for the go command.
var tools sync.Map

// buildTool returns the path of the tool that a file names.
func buildTool(root, file string) (string, error) {
	if path, ok := tools.Load(file); ok {
		return path.(string), nil
	}
	cmd := exec.Command("go", "tool", "-n", program)
	cmd.Dir = filepath.Dir(file)
	switch {
	case filepath.Base(file) != "go.mod": // a second file of this module
		cmd.Args = []string{"go", "tool", "-modfile=" + file, "-n", program}
	case cmd.Dir != root: // a module that a workspace need not have
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	path := strings.TrimSpace(string(out))
	if err != nil || !exists(path) {
		return "", fmt.Errorf("%s has the tool kanzen, but \"%s\" in %s fails (%v; go 1.24 or later knows tools): %s%s",
			file, strings.Join(cmd.Args, " "), cmd.Dir, err, out, said.Bytes())
	}
	tools.Store(file, path)
	return path, nil
}

// ofAssets returns the kanzen to which the files of a directory link that `kanzen assets` made, or "".
func ofAssets(dir string) string {
	if dir == "" {
		return ""
	}
	suffix := ""
	if runtime.GOOS == "windows" {
		suffix = ".exe"
	}
	if path := filepath.Join(dir, program+suffix); exists(path) {
		return path
	}
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "etcd"+suffix))
	if err != nil || !strings.HasPrefix(filepath.Base(path), program) {
		return "" // kube-apiserver's own
	}
	return path
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
