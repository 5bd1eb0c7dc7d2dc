// Command image writes a container image with two static binaries, kanzen and kubectl, and the public certificate authorities
// as an OCI layout, without a daemon.
//
//	image -o DIR -created SECONDS -version V -revision COMMIT linux/amd64=KANZEN,KUBECTL linux/arm64=KANZEN,KUBECTL
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	out := flag.String("o", "image", "directory of the layout")
	created := flag.Int64("created", 0, "seconds since 1970 that files and image have as their time")
	version := flag.String("version", "", "version for the image's name and label")
	revision := flag.String("revision", "", "commit for the image's label")
	flag.Parse()
	if err := write(*out, labels(*version, *revision), time.Unix(*created, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

const versionLabel = "org.opencontainers.image.version"

func labels(version, revision string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "kanzen",
		"org.opencontainers.image.source":   "https://github.com/kanzen-io/kanzen",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": revision,
		versionLabel:                        version,
	}
}

func write(out string, labels map[string]string, created time.Time, platforms []string) error {
	version := labels[versionLabel]
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		platform, programs, _ := strings.Cut(p, "=")
		system, arch, isPlatform := strings.Cut(platform, "/")
		kanzen, kubectl, isPair := strings.Cut(programs, ",")
		if !isPlatform || !isPair {
			return fmt.Errorf("%q is not OS/ARCH=KANZEN,KUBECTL", p)
		}
		files, err := root(kanzen, kubectl, created)
		if err != nil {
			return err
		}
		img, err := image(files, labels, system, arch, created)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: system, Architecture: arch}}})
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	// One entry, which names the version: tools that load an image take the index below it and choose the platform.
	if _, err := layout.Write(out, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": version, "io.containerd.image.name": "docker.io/library/kanzen:" + version}}})); err != nil {
		return err
	}
	written, err := layout.ImageIndexFromPath(out)
	if err != nil {
		return err
	}
	return validate.Index(written)
}

// user is nobody: the server needs no rights.
const user = "65532"

func image(files []byte, labels map[string]string, system, arch string, created time.Time) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.AppendLayers(img, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, &v1.ConfigFile{
		OS: system, Architecture: arch, Created: v1.Time{Time: created},
		RootFS:  rootFS(img),
		History: []v1.History{{Created: v1.Time{Time: created}, CreatedBy: "kanzen release"}},
		Config: v1.Config{
			User: user, Entrypoint: []string{"/kanzen"}, WorkingDir: "/data",
			Env:          []string{"KANZEN_DATA_DIR=/data"}, // of all commands: docker exec kanzen /kanzen kubectl get namespaces
			Cmd:          []string{"serve", "--bind-address=0.0.0.0"},
			ExposedPorts: map[string]struct{}{"6443/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
			Labels: labels, Healthcheck: health,
		},
	})
}

// health has Docker ask the server whether it is ready, as the administrator; podman does so where systemd runs.
var health = &v1.HealthConfig{
	Test:     []string{"CMD", "/kanzen", "kubectl", "get", "--raw=/readyz"}, // there is no shell
	Interval: 30 * time.Second, Timeout: 15 * time.Second, StartPeriod: 2 * time.Minute, Retries: 3,
}

func rootFS(img v1.Image) v1.RootFS {
	c, err := img.ConfigFile()
	if err != nil {
		return v1.RootFS{}
	}
	return c.RootFS
}

// root is the file system of the image: the server, also by the names of what it stands in for, kubectl, room for data, and
// the authorities that sign for issuers of tokens, webhooks and object stores on the internet.
func root(kanzen, kubectl string, created time.Time) ([]byte, error) {
	server, err := os.ReadFile(kanzen)
	if err != nil {
		return nil, err
	}
	client, err := os.ReadFile(kubectl)
	if err != nil {
		return nil, err
	}
	roots := authorities()
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	headers := []*tar.Header{
		{Typeflag: tar.TypeReg, Name: "kanzen", Mode: 0o755, Size: int64(len(server))},
		{Typeflag: tar.TypeReg, Name: "kanzen-kubectl", Mode: 0o755, Size: int64(len(client))},
		{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/certs/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Size: int64(len(roots))},
		{Typeflag: tar.TypeSymlink, Name: "kube-apiserver", Linkname: "kanzen", Mode: 0o777},
		{Typeflag: tar.TypeSymlink, Name: "etcd", Linkname: "kanzen", Mode: 0o777},
		// Static pods of kubeadm name the program alone, and containers look for it here.
		{Typeflag: tar.TypeDir, Name: "usr/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "usr/local/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "usr/local/bin/", Mode: 0o755},
		{Typeflag: tar.TypeSymlink, Name: "usr/local/bin/kube-apiserver", Linkname: "/kanzen", Mode: 0o777},
		{Typeflag: tar.TypeSymlink, Name: "usr/local/bin/etcd", Linkname: "/kanzen", Mode: 0o777},
		{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o700, Uid: 65532, Gid: 65532},
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
	}
	content := map[string][]byte{"kanzen": server, "kanzen-kubectl": client, "etc/ssl/certs/ca-certificates.crt": roots}
	for _, h := range headers {
		h.ModTime, h.Format = created, tar.FormatPAX
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(content[h.Name]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), t.Close()
}

// authorities are Mozilla's, of the version that go.mod names, so that the image does not depend on the machine that builds
// it. Those that are trusted in part are left out: a file of certificates cannot say which part.
func authorities() []byte {
	var out []byte
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate})...)
		}
	}
	return out
}
