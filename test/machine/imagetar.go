//go:build linux

package machine

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"
)

// File is a file, folder or link in an image.
type File struct {
	Name string
	From string // path on this machine, or
	Text string // what it holds, or
	Link string // where it leads
	Mode int64
	Dir  bool
}

// Image is what a container starts from.
type Image struct {
	Names      []string
	Layers     [][]File
	Entrypoint []string
	Command    []string
	User       string
}

// tarLayer writes a layer. Its bytes depend on nothing but the files.
func tarLayer(w io.Writer, files []File) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := f.write(t); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return t.Close()
}

func (f File) write(t *tar.Writer) error {
	h := &tar.Header{Name: strings.TrimPrefix(f.Name, "/"), Mode: f.Mode, Format: tar.FormatPAX}
	switch {
	case f.Dir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return t.WriteHeader(h)
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
		return t.WriteHeader(h)
	case f.From == "":
		h.Typeflag, h.Size = tar.TypeReg, int64(len(f.Text))
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.WriteString(t, f.Text)
		return err
	}
	from, err := os.Open(f.From)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(t, from)
	return err
}

// The documents of an image, as the OCI's image specification names them.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int64             `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}
	index struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}
	imageConfig struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Config       struct {
			User       string   `json:"User,omitempty"`
			Env        []string `json:"Env"`
			Entrypoint []string `json:"Entrypoint,omitempty"`
			Cmd        []string `json:"Cmd,omitempty"`
		} `json:"config"`
		RootFS struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
)

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// archive is a tar of several images in the OCI's layout. Layers that images share are in it once.
type archive struct {
	t       *tar.Writer
	written map[string]bool
}

// WriteImages writes an archive, which `ctr images import` reads.
func WriteImages(w io.Writer, images []Image) error {
	a := &archive{t: tar.NewWriter(w), written: map[string]bool{}}
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, i := range images {
		d, err := a.image(i)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.Names[0], err)
		}
		for _, name := range i.Names {
			d.Annotations = map[string]string{"io.containerd.image.name": name}
			all.Manifests = append(all.Manifests, d)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": b} {
		if err := a.file(name, content); err != nil {
			return err
		}
	}
	return a.t.Close()
}

// image writes the parts of an image, and returns the descriptor of its manifest.
func (a *archive) image(i Image) (descriptor, error) {
	c := imageConfig{Architecture: runtime.GOARCH, OS: "linux"}
	c.Config.User, c.Config.Entrypoint, c.Config.Cmd = i.User, i.Entrypoint, i.Command
	c.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	c.RootFS.Type = "layers"
	m := manifest{SchemaVersion: 2, MediaType: typeManifest}
	for _, files := range i.Layers {
		var b bytes.Buffer
		if err := tarLayer(&b, files); err != nil {
			return descriptor{}, err
		}
		d, err := a.blob(typeLayer, b.Bytes())
		if err != nil {
			return d, err
		}
		m.Layers = append(m.Layers, d)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, d.Digest)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return descriptor{}, err
	}
	if m.Config, err = a.blob(typeConfig, b); err != nil {
		return descriptor{}, err
	}
	if b, err = json.Marshal(m); err != nil {
		return descriptor{}, err
	}
	return a.blob(typeManifest, b)
}

func (a *archive) blob(mediaType string, b []byte) (descriptor, error) {
	sum := fmt.Sprintf("%x", sha256.Sum256(b))
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: int64(len(b))}
	if a.written[sum] {
		return d, nil
	}
	a.written[sum] = true
	return d, a.file(path.Join("blobs", "sha256", sum), b)
}

func (a *archive) file(name string, b []byte) error {
	if err := a.t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := a.t.Write(b)
	return err
}
