// Command repository writes what apt and dnf read: a directory for each, with packages and the metadata about them.
//
//	repository -out DIR -created SECONDS [-url URL] [-key FILE] PACKAGE.deb PACKAGE.rpm ...
//
// DIR/apt is a repository of the suite stable, and DIR/rpm one of dnf, yum and zypper. The packages in them are hard links where that is
// possible. With a key both are signed: the metadata has the checksums of the packages. The passphrase of the key, if it has one, is
// in $SIGNING_PASSPHRASE. If -url says where DIR is published, each repository has the file that tells a machine of it. The same
// packages, key and flags give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "", "directory in which apt and rpm are made; what is in these is replaced")
	created := flag.Int64("created", 0, "seconds since 1970 that the metadata has as its time")
	url := flag.String("url", "", "URL at which the directory is published; none: there are no files for the machines of users")
	key := flag.String("key", "", "file with the OpenPGP private key that signs, in ASCII armour; none: nothing is signed")
	flag.Parse()
	r := repository{created: time.Unix(*created, 0).UTC(), url: strings.TrimSuffix(*url, "/")}
	if err := r.make(*out, *key, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// repository is what all metadata shares.
type repository struct {
	created time.Time
	url     string
	signer  *signer // nil: nothing is signed
}

func (r *repository) make(out, key string, packages []string) (err error) {
	if out == "" {
		return errors.New("-out names the directory to write to")
	}
	if key != "" {
		if r.signer, err = readSigner(key, os.Getenv("SIGNING_PASSPHRASE"), r.created); err != nil {
			return err
		}
	}
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	var debs, rpms []string
	for _, path := range packages {
		switch filepath.Ext(path) {
		case ".deb":
			debs = append(debs, path)
		case ".rpm":
			rpms = append(rpms, path)
		default:
			return fmt.Errorf("%s is neither a .deb nor an .rpm", path)
		}
	}
	if len(debs) > 0 {
		if err := r.apt(filepath.Join(out, "apt"), debs); err != nil {
			return err
		}
	}
	if len(rpms) > 0 {
		return r.rpm(filepath.Join(out, "rpm"), rpms)
	}
	return nil
}

// files are what is written into a repository, by their slash-separated paths.
type files map[string][]byte

// write replaces a directory by files, and by packages, whose places are given.
func (f files) write(dir string, packages map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, content := range f {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	for place, from := range packages {
		if err := link(from, filepath.Join(dir, filepath.FromSlash(place))); err != nil {
			return err
		}
	}
	return nil
}

// link makes a file that has what another one has.
func link(from, to string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	source, err := os.Open(from) // on another file system
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	copied, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	return errors.Join(err, copied.Close())
}
