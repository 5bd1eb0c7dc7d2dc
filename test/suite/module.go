// Package suite runs test suites of other projects as they are in their modules: it fetches a module, copies it, and runs the
// tests of a package as a process whose output says how each test ended.
package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Download returns the version of a module and the folder of the module cache that holds it. The module is PATH@VERSION, or PATH if the
// go.mod in dir requires it.
func Download(dir, module string) (version, folder string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("go mod download %s: %w: %s", module, err, out)
	}
	var got struct{ Version, Dir string }
	err = json.Unmarshal(out, &got)
	return got.Version, got.Dir, err
}

// CopyModule copies a module out of the module cache, whose files may be neither written nor overlaid. It copies to a folder of another
// name first, so that a copy that was cut off is no copy. The change, if there is one, returns what a file holds in the copy, and its mode.
func CopyModule(from, to string, change func(path string, b []byte) ([]byte, os.FileMode, error)) error {
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := copyFiles(from, part, change); err != nil {
		return err
	}
	return os.Rename(part, to)
}

func copyFiles(from, to string, change func(path string, b []byte) ([]byte, os.FileMode, error)) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, mode, err := change(filepath.ToSlash(rel), b)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, mode)
	})
}

// Mode is that of a file in a copy: the module cache does not keep that a script may be executed.
func Mode(b []byte) os.FileMode {
	if bytes.HasPrefix(b, []byte("#!")) {
		return 0o755
	}
	return 0o644
}
