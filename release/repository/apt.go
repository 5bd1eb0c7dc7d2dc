package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blakesmith/ar"
)

// suite and component are where apt looks for packages, below dists.
const suite, component = "stable", "main"

// apt writes a repository of Debian packages.
func (r *repository) apt(dir string, paths []string) error {
	out, places, byArch := files{}, map[string]string{}, map[string]*bytes.Buffer{}
	for _, p := range paths {
		control, err := readControl(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		size, sum, err := measure(p)
		if err != nil {
			return err
		}
		name := control.field("Package")
		place := path.Join("pool", component, name[:1], name, filepath.Base(p))
		if places[place] != "" {
			return fmt.Errorf("%s and %s have one name", places[place], p)
		}
		places[place] = p
		arch := control.field("Architecture")
		if byArch[arch] == nil {
			byArch[arch] = &bytes.Buffer{}
		}
		fmt.Fprintf(byArch[arch], "%s\nFilename: %s\nSize: %d\nSHA256: %s\n\n", control, place, size, sum)
	}
	var sums strings.Builder
	for _, arch := range slices.Sorted(maps.Keys(byArch)) {
		index := path.Join(component, "binary-"+arch, "Packages")
		for name, content := range map[string][]byte{index: byArch[arch].Bytes(), index + ".gz": zipped(byArch[arch].Bytes())} {
			out[path.Join("dists", suite, name)] = content
		}
		for _, name := range []string{index, index + ".gz"} {
			content := out[path.Join("dists", suite, name)]
			fmt.Fprintf(&sums, " %s %d %s\n", sumOf(content), len(content), name)
		}
	}
	release := fmt.Appendf(nil, "Origin: kanzen\nLabel: kanzen\nSuite: %s\nCodename: %s\nDate: %s\nArchitectures: %s\nComponents: %s\nDescription: kanzen, the Kubernetes API server\nSHA256:\n%s",
		suite, suite, r.created.Format("Mon, 02 Jan 2006 15:04:05 UTC"), strings.Join(slices.Sorted(maps.Keys(byArch)), " "), component, sums.String())
	out[path.Join("dists", suite, "Release")] = release
	if r.signer != nil {
		inline, detached, err := r.signer.sign(release)
		if err != nil {
			return err
		}
		out[path.Join("dists", suite, "InRelease")], out[path.Join("dists", suite, "Release.gpg")] = inline, detached
		out["kanzen.asc"] = r.signer.public
	}
	if r.url != "" {
		out["kanzen.sources"] = r.sources()
	}
	return out.write(dir, places)
}

// sources is the file for /etc/apt/sources.list.d.
func (r *repository) sources() []byte {
	trust := "Trusted: yes\n"
	if r.signer != nil {
		trust = "Signed-By:\n"
		for line := range strings.Lines(strings.TrimSpace(string(r.signer.public)) + "\n") {
			if strings.TrimSpace(line) == "" {
				line = ".\n"
			}
			trust += " " + line
		}
	}
	return fmt.Appendf(nil, "Types: deb\nURIs: %s/apt\nSuites: %s\nComponents: %s\n%s", r.url, suite, component, trust)
}

// control is what a package says about itself: lines of fields, without an end.
type control string

func (c control) field(name string) string {
	for line := range strings.Lines(string(c)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// readControl reads the control file of a package: a tar archive in an ar archive.
func readControl(p string) (c control, err error) {
	f, err := os.Open(p)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	archive := ar.NewReader(f)
	for {
		h, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("it has no control.tar.gz: %w", err)
		}
		if strings.TrimSuffix(strings.TrimSpace(h.Name), "/") == "control.tar.gz" {
			return controlIn(archive)
		}
	}
}

func controlIn(from io.Reader) (control, error) {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return "", err
	}
	archive := tar.NewReader(unzipped)
	for {
		h, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("it has no control file: %w", err)
		}
		if path.Clean(h.Name) != "control" {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(archive, 1<<20))
		if err != nil {
			return "", err
		}
		c := control(strings.TrimSpace(string(text)))
		for _, name := range []string{"Package", "Version", "Architecture"} {
			if c.field(name) == "" {
				return "", fmt.Errorf("its control file has no %s", name)
			}
		}
		return c, nil
	}
}

// measure returns the size of a file and its SHA-256.
func measure(p string) (size int64, sum string, err error) {
	f, err := os.Open(p)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// zipped has no time and no name in it.
func zipped(content []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(content) // to memory
	_ = w.Close()
	return out.Bytes()
}
