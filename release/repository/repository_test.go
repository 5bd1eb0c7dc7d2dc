package main

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const released = 1000000000

// packages makes those of a release by release/nfpm.yaml, of programs of a few bytes, and returns their paths.
func packages(t *testing.T, version string) (paths []string) {
	t.Helper()
	if _, err := os.Stat("release/nfpm.yaml"); err != nil { // its paths are those from the root
		t.Chdir("../..")
	}
	t.Setenv("SOURCE_DATE_EPOCH", strconv.Itoa(released))
	dist, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"man/kanzen.1.gz", "completions/kanzen.bash", "completions/kanzen.zsh", "completions/kanzen.fish"} {
		write(t, filepath.Join(dist, name), name)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		write(t, filepath.Join(dist, "kanzen-linux-"+arch), "a program")
		write(t, filepath.Join(dist, "kanzen-kubectl-linux-"+arch), "another")
		config, err := nfpm.ParseFileWithEnvMapping("release/nfpm.yaml", func(name string) string {
			return map[string]string{"ARCH": arch, "VERSION": version, "DIST": dist}[name]
		})
		must(t, err)
		for _, kind := range []string{"deb", "rpm"} {
			packager, err := nfpm.Get(kind)
			must(t, err)
			info, err := config.Get(kind)
			must(t, err)
			info = nfpm.WithDefaults(info)
			must(t, nfpm.PrepareForPackager(info, kind))
			var content bytes.Buffer
			must(t, packager.Package(info, &content))
			paths = append(paths, filepath.Join(out, packager.ConventionalFileName(info)))
			must(t, os.WriteFile(paths[len(paths)-1], content.Bytes(), 0o600))
		}
	}
	return paths
}

// TestRepositories makes repositories of two releases, unsigned and signed, and compares what they say with the packages.
func TestRepositories(t *testing.T) {
	all := append(packages(t, "9.8.7"), packages(t, "9.9.0")...)
	key, ring := newKey(t, "a passphrase")
	t.Setenv("SIGNING_PASSPHRASE", "a passphrase")
	for _, c := range []struct{ name, key string }{{"unsigned", ""}, {"signed", key}} {
		t.Run(c.name, func(t *testing.T) {
			dir, again := t.TempDir(), t.TempDir()
			for _, out := range []string{dir, again} {
				r := repository{created: time.Unix(released, 0).UTC(), url: "https://downloads.example.com/kanzen"}
				must(t, r.make(out, c.key, all))
			}
			for _, err := range check(dir) {
				t.Error(err)
			}
			checkSame(t, dir, again)
			checkSignatures(t, dir, c.key != "", ring)
		})
	}
}

// TestChecks damages repositories: check finds each damage.
func TestChecks(t *testing.T) {
	all := packages(t, "9.8.7")
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"another deb":    {func(t *testing.T, dir string) { replace(t, dir, "apt/pool/*/*/*/*_amd64.deb", "!") }, "_amd64.deb"},
		"another rpm":    {func(t *testing.T, dir string) { replace(t, dir, "rpm/packages/*.x86_64.rpm", "!") }, "x86_64.rpm"},
		"another index":  {func(t *testing.T, dir string) { replace(t, dir, "apt/dists/*/*/binary-arm64/Packages", "\n") }, "binary-arm64/Packages"},
		"a stray deb":    {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "apt/pool/stray.deb"), "") }, "stray.deb"},
		"a stray rpm":    {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "rpm/packages/stray.rpm"), "") }, "stray.rpm"},
		"another list":   {func(t *testing.T, dir string) { replace(t, dir, "rpm/repodata/*-filelists.xml.gz", "\n") }, "filelists"},
		"no such deb":    {func(t *testing.T, dir string) { removeAll(t, dir, "apt/pool/*/*/*/*_arm64.deb") }, "no such file"},
		"no such rpm":    {func(t *testing.T, dir string) { removeAll(t, dir, "rpm/packages/*.aarch64.rpm") }, "no such file"},
		"no such index":  {func(t *testing.T, dir string) { removeAll(t, dir, "apt/dists/*/*/*/Packages.gz") }, "no such file"},
		"no repomd":      {func(t *testing.T, dir string) { removeAll(t, dir, "rpm/repodata/repomd.xml") }, "no such file"},
		"a list missing": {func(t *testing.T, dir string) { removeAll(t, dir, "rpm/repodata/*-other.xml.gz") }, "no such file"},
	} {
		dir := t.TempDir()
		r := repository{created: time.Unix(released, 0).UTC()}
		must(t, r.make(dir, "", all))
		c.damage(t, dir)
		if err := errors.Join(check(dir)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestRefusals gives the command what it cannot use.
func TestRefusals(t *testing.T) {
	all := packages(t, "9.8.7")
	key, _ := newKey(t, "a passphrase")
	t.Setenv("SIGNING_PASSPHRASE", "")
	text := filepath.Join(t.TempDir(), "text.deb")
	write(t, text, "no package")
	noRPM := filepath.Join(t.TempDir(), "text.rpm")
	write(t, noRPM, "no package")
	for name, c := range map[string]struct {
		out, key string
		packages []string
		want     string
	}{
		"nowhere":       {"", "", all, "-out names the directory"},
		"another file":  {t.TempDir(), "", []string{"README.md"}, "neither a .deb nor an .rpm"},
		"no deb":        {t.TempDir(), "", []string{text}, "control.tar.gz"},
		"no rpm":        {t.TempDir(), "", []string{noRPM}, "text.rpm"},
		"twice":         {t.TempDir(), "", []string{all[0], all[0]}, "have one name"},
		"no key":        {t.TempDir(), text, all, "the key " + text},
		"key is away":   {t.TempDir(), "nowhere", all, "no such file"},
		"no passphrase": {t.TempDir(), key, all, "SIGNING_PASSPHRASE"},
	} {
		r := repository{created: time.Unix(released, 0).UTC()}
		if err := r.make(c.out, c.key, c.packages); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// check compares what repositories say with what is in them.
func check(dir string) []error {
	return append(checkAPT(filepath.Join(dir, "apt")), checkRPM(filepath.Join(dir, "rpm"))...)
}

var indexLine = regexp.MustCompile(`(?m)^ ([0-9a-f]{64}) (\d+) (\S+)$`)

func checkAPT(dir string) (errs []error) {
	release, err := os.ReadFile(filepath.Join(dir, "dists/stable/Release"))
	if err != nil {
		return []error{err}
	}
	listed, plain := map[string]bool{}, map[string]string{}
	lines := indexLine.FindAllStringSubmatch(string(release), -1)
	if len(lines) != 4 {
		errs = append(errs, fmt.Errorf("Release names %d files, want 4: %s", len(lines), release))
	}
	for _, m := range lines {
		content, err := sized(filepath.Join(dir, "dists/stable", m[3]), m[1], m[2])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if name, isZipped := strings.CutSuffix(m[3], ".gz"); isZipped {
			content, err = unzipped(content)
			if other, ok := plain[name]; err != nil || ok && other != string(content) {
				errs = append(errs, fmt.Errorf("%s has not what %s has: %w", m[3], name, err))
			}
			continue
		}
		plain[m[3]] = string(content)
		for stanza := range strings.SplitSeq(strings.TrimSpace(string(content)), "\n\n") {
			c := control(stanza)
			place := c.field("Filename")
			listed[place] = true
			if _, err := sized(filepath.Join(dir, place), c.field("SHA256"), c.field("Size")); err != nil {
				errs = append(errs, err)
			} else if name := fmt.Sprintf("%s_%s_%s.deb", c.field("Package"), c.field("Version"), c.field("Architecture")); path.Base(place) != name || !strings.Contains(m[3], "binary-"+c.field("Architecture")+"/") {
				errs = append(errs, fmt.Errorf("%s is said to be %s, in %s", place, name, m[3]))
			}
		}
	}
	return append(errs, strays(dir, ".deb", listed)...)
}

func checkRPM(dir string) (errs []error) {
	var repomd struct {
		Data []struct {
			Type         string `xml:"type,attr"`
			Checksum     string `xml:"checksum"`
			OpenChecksum string `xml:"open-checksum"`
			Size         string `xml:"size"`
			OpenSize     string `xml:"open-size"`
			Location     struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"data"`
	}
	content, err := os.ReadFile(filepath.Join(dir, "repodata/repomd.xml"))
	if err == nil {
		err = xml.Unmarshal(content, &repomd)
	}
	if err != nil {
		return []error{err}
	}
	documents := map[string][]byte{}
	for _, d := range repomd.Data {
		content, err := sized(filepath.Join(dir, d.Location.Href), d.Checksum, d.Size)
		if err == nil {
			documents[d.Type], err = unzipped(content)
		}
		if err != nil {
			errs = append(errs, err)
		} else if sumOf(documents[d.Type]) != d.OpenChecksum || strconv.Itoa(len(documents[d.Type])) != d.OpenSize {
			errs = append(errs, fmt.Errorf("%s has other bytes when it is unzipped", d.Location.Href))
		}
	}
	if len(documents) != 3 {
		return append(errs, fmt.Errorf("there are %d documents", len(documents)))
	}
	ids, listed := map[string]bool{}, map[string]bool{}
	var primary struct {
		Count    int `xml:"packages,attr"`
		Packages []struct {
			Name     string  `xml:"name"`
			Arch     string  `xml:"arch"`
			Version  version `xml:"version"`
			Checksum string  `xml:"checksum"`
			Size     struct {
				Package string `xml:"package,attr"`
			} `xml:"size"`
			Location location `xml:"location"`
		} `xml:"package"`
	}
	if err := xml.Unmarshal(documents["primary"], &primary); err != nil || primary.Count != len(primary.Packages) {
		errs = append(errs, fmt.Errorf("primary.xml has %d packages, and says %d: %w", len(primary.Packages), primary.Count, err))
	}
	for _, p := range primary.Packages {
		ids[p.Checksum], listed[p.Location.Href] = true, true
		if _, err := sized(filepath.Join(dir, p.Location.Href), p.Checksum, p.Size.Package); err != nil {
			errs = append(errs, err)
		}
		if name := fmt.Sprintf("%s-%s-%s.%s.rpm", p.Name, p.Version.Ver, p.Version.Rel, p.Arch); path.Base(p.Location.Href) != name {
			errs = append(errs, fmt.Errorf("%s is said to be %s", p.Location.Href, name))
		}
	}
	for _, name := range []string{"filelists", "other"} {
		var list struct {
			Packages []struct {
				PkgID string   `xml:"pkgid,attr"`
				Files []string `xml:"file"`
			} `xml:"package"`
		}
		if err := xml.Unmarshal(documents[name], &list); err != nil || len(list.Packages) != len(ids) {
			errs = append(errs, fmt.Errorf("%s has %d packages, want %d: %w", name, len(list.Packages), len(ids), err))
		}
		for _, p := range list.Packages {
			if !ids[p.PkgID] || name == "filelists" && !strings.Contains(strings.Join(p.Files, "\n"), "/usr/bin/kanzen\n") {
				errs = append(errs, fmt.Errorf("%s has a package %s with %d files", name, p.PkgID, len(p.Files)))
			}
		}
	}
	return append(errs, strays(dir, ".rpm", listed)...)
}

// sized reads a file that should have a sum and a size.
func sized(path, sum, size string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err == nil && (sumOf(content) != sum || strconv.Itoa(len(content)) != size) {
		err = fmt.Errorf("%s has %d bytes with the sum %s, want %s and %s", path, len(content), sumOf(content), size, sum)
	}
	return content, err
}

func unzipped(content []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// strays are packages that no metadata names.
func strays(dir, ending string, listed map[string]bool) (errs []error) {
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ending) && !listed[path] {
			errs = append(errs, fmt.Errorf("no metadata names %s", path))
		}
		return err
	})
	if err != nil || len(listed) == 0 {
		errs = append(errs, fmt.Errorf("%d packages are named: %w", len(listed), err))
	}
	return errs
}

func checkSame(t *testing.T, dir, again string) {
	t.Helper()
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		one, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if other, err := os.ReadFile(filepath.Join(again, path)); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s has other bytes the second time: %v", path, err)
		}
		return nil
	}))
}

// checkSignatures asks whether signatures are those of a key, and whether the files for users say how to check them.
func checkSignatures(t *testing.T, dir string, signed bool, ring openpgp.EntityList) {
	t.Helper()
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && signed {
			t.Error(err)
		}
		return content
	}
	sources, repo := string(read("apt/kanzen.sources")), string(read("rpm/kanzen.repo"))
	if !strings.Contains(sources, "URIs: https://downloads.example.com/kanzen/apt\n") || !strings.Contains(repo, "baseurl=https://downloads.example.com/kanzen/rpm\n") {
		t.Errorf("%s\n%s", sources, repo)
	}
	if !signed {
		if !strings.Contains(sources, "Trusted: yes") || !strings.Contains(repo, "repo_gpgcheck=0") || read("apt/dists/stable/InRelease") != nil {
			t.Errorf("unsigned:\n%s\n%s", sources, repo)
		}
		return
	}
	if !strings.Contains(sources, "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n") || !strings.Contains(repo, "repo_gpgcheck=1\ngpgkey=https://") {
		t.Errorf("signed:\n%s\n%s", sources, repo)
	}
	at := &packet.Config{Time: func() time.Time { return time.Now().Add(time.Minute) }}
	for text, signature := range map[string]string{"apt/dists/stable/Release": "apt/dists/stable/Release.gpg", "rpm/repodata/repomd.xml": "rpm/repodata/repomd.xml.asc"} {
		if _, err := openpgp.CheckArmoredDetachedSignature(ring, bytes.NewReader(read(text)), bytes.NewReader(read(signature)), at); err != nil {
			t.Errorf("%s: %v", signature, err)
		}
	}
	inline, _ := clearsign.Decode(read("apt/dists/stable/InRelease"))
	if inline == nil {
		t.Fatal("InRelease is not signed")
	}
	if _, err := inline.VerifySignature(ring, at); err != nil || !bytes.Equal(inline.Plaintext, read("apt/dists/stable/Release")) {
		t.Errorf("InRelease: %v, or it is not Release", err)
	}
	for _, name := range []string{"apt/kanzen.asc", "rpm/repodata/repomd.xml.key"} {
		public, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(read(name)))
		if err != nil || public[0].PrivateKey != nil || public[0].PrimaryKey.KeyId != ring[0].PrimaryKey.KeyId {
			t.Errorf("%s is not the public key: %v", name, err)
		}
	}
}

// newKey makes a key with a passphrase, and returns its file.
func newKey(t *testing.T, passphrase string) (string, openpgp.EntityList) {
	t.Helper()
	entity, err := openpgp.NewEntity("kanzen", "test", "kanzen@example.com", nil)
	must(t, err)
	open, err := armoured(openpgp.PublicKeyType, func(out *bytes.Buffer) error { return entity.Serialize(out) })
	must(t, err)
	must(t, entity.EncryptPrivateKeys([]byte(passphrase), nil))
	private, err := armoured(openpgp.PrivateKeyType, func(out *bytes.Buffer) error { return entity.SerializePrivateWithoutSigning(out, nil) })
	must(t, err)
	file := filepath.Join(t.TempDir(), "key.asc")
	write(t, file, string(private))
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(open))
	must(t, err)
	return file, ring
}

// replace appends to the file that a pattern names. It breaks links first: packages are shared.
func replace(t *testing.T, dir, pattern, more string) {
	t.Helper()
	for _, path := range only(t, dir, pattern) {
		content, err := os.ReadFile(path)
		must(t, err)
		must(t, os.Remove(path))
		write(t, path, string(content)+more)
	}
}

func removeAll(t *testing.T, dir, pattern string) {
	t.Helper()
	for _, path := range only(t, dir, pattern) {
		must(t, os.Remove(path))
	}
}

func only(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
	}
	return paths
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
