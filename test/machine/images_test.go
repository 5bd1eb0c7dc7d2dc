//go:build linux

package machine

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	shared := []File{{Name: "/bin", Dir: true, Mode: 0o755}, {Name: "/bin/sh", Link: "busybox"}, {Name: "/etc/passwd", Text: "root\n", Mode: 0o644}}
	images := []Image{
		{Names: []string{"a/one:1", "a/one:2"}, Layers: [][]File{shared}, Command: []string{"sh"}},
		{Names: []string{"a/two:1"}, Layers: [][]File{shared, {{Name: "/two", Text: "2", Mode: 0o6755}}}, Entrypoint: []string{"/two"}, User: "1234"},
	}
	var b, again bytes.Buffer
	if err := errors.Join(WriteImages(&b, images), WriteImages(&again, images)); err != nil {
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
	err := WriteImages(io.Discard, []Image{{Names: []string{"a"}, Layers: [][]File{{{Name: "/gone", From: "testdata/gone"}}}}})
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("image a: /gone")) {
		t.Errorf("the error is %v", err)
	}
}
