//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
)

// read returns the files of a tar by their name.
func read(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name] != nil {
			t.Errorf("%s is there twice", h.Name)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

// TestImages reads an archive as an importer does: from the index to the layers, by digests that are true.
func TestImages(t *testing.T) {
	shared := []file{{name: "/bin", dir: true, mode: 0o755}, {name: "/bin/sh", link: "busybox"}, {name: "/etc/passwd", text: "root\n", mode: 0o644}}
	images := []image{
		{names: []string{"a/one:1", "a/one:2"}, layers: [][]file{shared}, command: []string{"sh"}},
		{names: []string{"a/two:1"}, layers: [][]file{shared, {{name: "/two", text: "2", mode: 0o6755}}}, entrypoint: []string{"/two"}, user: "1234"},
	}
	var b, again bytes.Buffer
	if err := errors.Join(writeImages(&b, images), writeImages(&again, images)); err != nil {
		t.Fatal(err)
	}
	files := read(t, b.Bytes())
	var all index
	decode(t, files["index.json"], &all)
	var names []string
	for _, m := range all.Manifests {
		names = append(names, m.Annotations["io.containerd.image.name"])
	}
	if want := []string{"a/one:1", "a/one:2", "a/two:1"}; !slices.Equal(names, want) {
		t.Errorf("the images are %v, want %v", names, want)
	}
	blob := func(d descriptor) []byte {
		t.Helper()
		content, found := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); !found || sum != d.Digest || int64(len(content)) != d.Size {
			t.Fatalf("%v is not there as it says", d)
		}
		return content
	}
	var m manifest
	decode(t, blob(all.Manifests[2]), &m)
	var c imageConfig
	decode(t, blob(m.Config), &c)
	if len(m.Layers) != 2 || c.Config.User != "1234" || !slices.Equal(c.Config.Entrypoint, []string{"/two"}) || !slices.Equal(c.RootFS.DiffIDs, []string{m.Layers[0].Digest, m.Layers[1].Digest}) {
		t.Errorf("%+v, %+v", m, c)
	}
	r := tar.NewReader(bytes.NewReader(blob(m.Layers[1])))
	if h, err := r.Next(); err != nil || h.Name != "two" || h.Mode != 0o6755 {
		t.Errorf("%+v, %v", h, err)
	}
	if layer := read(t, blob(m.Layers[0])); string(layer["etc/passwd"]) != "root\n" || layer["bin/"] == nil {
		t.Errorf("the first layer is %v", layer)
	}
}

func TestLayerNamesWhatIsMissing(t *testing.T) {
	err := writeImages(io.Discard, []image{{names: []string{"a"}, layers: [][]file{{{name: "/gone", from: "testdata/gone"}}}}})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("image a: /gone")) {
		t.Errorf("the error is %v", err)
	}
}

func TestChoose(t *testing.T) {
	made := map[string]image{"busybox": {user: "1"}, "pause": {}, "nginx": {layers: [][]file{{{from: "testdata/gone"}}}}}
	images, missing := choose(made, []string{"registry.k8s.io/pause:3", "registry.k8s.io/e2e-test-images/busybox:2", "registry.k8s.io/e2e-test-images/busybox:1", "gcr.io/secret/busybox:1", "registry.k8s.io/perl:5", "registry.k8s.io/pause:3", "registry.k8s.io/nginx:1"})
	if want := []string{"gcr.io/secret/busybox:1", "registry.k8s.io/nginx:1", "registry.k8s.io/perl:5"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %v, want %v", missing, want)
	}
	if len(images) != 2 || !slices.Equal(images[0].names, []string{"registry.k8s.io/e2e-test-images/busybox:1", "registry.k8s.io/e2e-test-images/busybox:2"}) || images[0].user != "1" || !slices.Equal(images[1].names, []string{"registry.k8s.io/pause:3"}) {
		t.Errorf("images are %+v", images)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
