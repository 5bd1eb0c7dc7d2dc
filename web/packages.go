package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pinned is a package of npm of which this repository has some files.
type pinned struct {
	Version   string            `json:"version"`
	Integrity string            `json:"integrity"` // of what the registry has, as npm writes it
	Files     map[string]string `json:"files"`     // the SHA-256 of each
}

const pins = "packages/packages.json"

// readPins reads which packages there are.
func readPins(root string) (map[string]pinned, error) {
	text, err := os.ReadFile(filepath.Join(root, pins))
	if err != nil {
		return nil, err
	}
	var all map[string]pinned
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", pins, err)
	}
	return all, nil
}

// check says which files of packages are not those that were pinned, so that nothing gets into the bundle unseen.
func check(root string, all map[string]pinned) error {
	var wrong []error
	for name, p := range all {
		for file, want := range p.Files {
			text, err := os.ReadFile(filepath.Join(root, "packages", name, file))
			if err != nil {
				wrong = append(wrong, err)
			} else if sum(text) != want {
				wrong = append(wrong, fmt.Errorf("packages/%s/%s is not the file of %s %s", name, file, name, p.Version))
			}
		}
	}
	return errors.Join(wrong...)
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// fetch gets the packages anew by npm, from the registry for which the machine is set up, and pins their files.
func fetch(root string) error {
	all, err := readPins(root)
	if err != nil {
		return err
	}
	for name, p := range all {
		if err := fetchOne(root, name, p); err != nil {
			return fmt.Errorf("%s %s: %w", name, p.Version, err)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, pins), append(text, '\n'), 0o644) //nolint:gosec // it is no secret
}

func fetchOne(root, name string, p pinned) error {
	dir, err := os.MkdirTemp("", "kanzen-web-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	npm := exec.Command("npm", "pack", "--silent", name+"@"+p.Version)
	npm.Dir, npm.Stderr = dir, os.Stderr
	said, err := npm.Output()
	if err != nil {
		return fmt.Errorf("npm pack: %w", err)
	}
	packed, err := os.ReadFile(filepath.Join(dir, filepath.Base(strings.TrimSpace(string(said)))))
	if err != nil {
		return err
	}
	if s := sha512.Sum512(packed); "sha512-"+base64.StdEncoding.EncodeToString(s[:]) != p.Integrity {
		return errors.New("what the registry has is not what was pinned")
	}
	found, err := unpack(string(packed), p.Files)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "packages", name)); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		text, ok := found[file]
		if !ok {
			return fmt.Errorf("it has no %s", file)
		}
		p.Files[file] = sum(text)
		to := filepath.Join(root, "packages", name, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // they are no secrets
			return err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil { //nolint:gosec // it is no secret
			return err
		}
	}
	return nil
}

// unpack returns the wanted files of a package as npm packs it: compressed, each below "package/".
func unpack(packed string, wanted map[string]string) (map[string][]byte, error) {
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		file := strings.TrimPrefix(h.Name, "package/")
		if _, ok := wanted[file]; !ok {
			continue
		}
		if found[file], err = io.ReadAll(r); err != nil {
			return nil, err
		}
	}
}
