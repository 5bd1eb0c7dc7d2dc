// Package keyfile saves what a server needs beside its database: keys, certificates and the configuration of encryption, sealed with a
// passphrase. It stands apart from package snapshot so that only commands need age: programs that link the server do not.
package keyfile

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// Keys are the files beside a database without which a server cannot use all that the database holds: its keys and certificates, and
// the configuration of its encryption. They are sealed with a passphrase as a tar archive in the format of age, so that age and tar
// can open them too.
type Keys struct {
	files map[string][]byte // by slash-separated paths below the data directory
}

const (
	// keysDir is the directory of a server's keys and certificates, below its data directory.
	keysDir = "pki"
	// EncryptionFile is the configuration of encryption, below the data directory.
	EncryptionFile = "encryption.yaml"
	// maxKeys bounds the size of all files, and maxKeyFiles their number: archives may come from anywhere.
	maxKeys, maxKeyFiles = 16 << 20, 10000
)

// ErrPassphrase says that keys were sealed with another passphrase.
var ErrPassphrase = errors.New("the passphrase is not the one that the keys were sealed with")

// Read reads the keys of the server of a data directory, and the file that configures its encryption; "": there is none.
func Read(dataDir, encryption string) (*Keys, error) {
	k := &Keys{files: map[string][]byte{}}
	below := os.DirFS(dataDir)
	err := fs.WalkDir(below, keysDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// A key may be a link to where it is kept. Sockets of plugins and the like are left out.
		if info, err := fs.Stat(below, path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(below, path)
		if err != nil {
			return err
		}
		return k.add(path, content)
	})
	if err != nil {
		return nil, err
	}
	if encryption == "" {
		return k, nil
	}
	content, err := os.ReadFile(encryption)
	if err != nil {
		return nil, err
	}
	return k, k.add(EncryptionFile, content)
}

// Of returns the keys of a server by their names in its directory of keys.
func Of(byName map[string][]byte) (*Keys, error) {
	k := &Keys{files: map[string][]byte{}}
	for name, content := range byName {
		if err := k.add(keysDir+"/"+name, content); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Named returns the keys of a server that have one of some names in its directory of keys.
func (k *Keys) Named(names []string) map[string][]byte {
	out := map[string][]byte{}
	for _, name := range names {
		if content := k.files[keysDir+"/"+name]; content != nil {
			out[name] = content
		}
	}
	return out
}

func (k *Keys) add(path string, content []byte) error {
	if k.files[path] != nil {
		return fmt.Errorf("%s is there twice", path)
	}
	k.files[path] = append([]byte{}, content...)
	if n := k.size(); n > maxKeys || len(k.files) > maxKeyFiles {
		return fmt.Errorf("there are more than %d MiB of keys, or more than %d files", maxKeys>>20, maxKeyFiles)
	}
	return nil
}

func (k *Keys) size() (n int) {
	for _, content := range k.files {
		n += len(content)
	}
	return n
}

// Len is the number of files.
func (k *Keys) Len() int { return len(k.files) }

// Encrypted says whether the configuration of encryption is among them.
func (k *Keys) Encrypted() bool { return k.files[EncryptionFile] != nil }

// Seal writes the keys to a file, sealed with a passphrase. The file appears under its name only when it is complete and on disk.
func (k *Keys) Seal(path, passphrase string) error {
	return snapshot.Create(path, func(f *os.File) error { return k.seal(f, passphrase, commandWork) })
}

// commandWork and serverWork are how hard passphrases are to guess, as logarithms of scrypt's N: a try takes 1 KiB times N of memory. A
// server seals beside the requests that it serves, and may have little memory.
const commandWork, serverWork = 18, 16

func (k *Keys) seal(to io.Writer, passphrase string, work int) error {
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return err
	}
	recipient.SetWorkFactor(work)
	sealed, err := age.Encrypt(to, recipient)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(sealed)
	for _, path := range slices.Sorted(maps.Keys(k.files)) {
		content := k.files[path]
		if err := archive.WriteHeader(&tar.Header{Name: path, Mode: snapshot.FileMode, Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), sealed.Close())
}

// Open reads what Seal has written. Errors: ErrPassphrase.
func Open(path, passphrase string) (k *Keys, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if k, err = open(f, passphrase); err != nil && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, err
}

func open(from io.Reader, passphrase string) (*Keys, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	opened, err := age.Decrypt(from, identity)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, fmt.Errorf("it holds no sealed keys: %w", err)
	}
	// The headers of an archive take space beside what it holds.
	archive := tar.NewReader(io.LimitReader(opened, maxKeys+maxKeyFiles*1024))
	k := &Keys{files: map[string][]byte{}}
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return k, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is damaged: %w", err)
		}
		if h.Typeflag != tar.TypeReg || !belongs(h.Name) {
			return nil, fmt.Errorf("it holds %q, which is no key of a server", h.Name)
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, archive); err != nil {
			return nil, fmt.Errorf("it is damaged: %w", err)
		}
		if err := k.add(h.Name, content.Bytes()); err != nil {
			return nil, err
		}
	}
}

// belongs says whether keys have such a path.
func belongs(path string) bool {
	return path == EncryptionFile || fs.ValidPath(path) && strings.HasPrefix(path, keysDir+"/") && !strings.ContainsAny(path, "\\:\x00")
}

// CanWrite says which file of a data directory keeps the keys from being written there.
func (k *Keys) CanWrite(dataDir string) error {
	for _, path := range slices.Sorted(maps.Keys(k.files)) {
		path = filepath.Join(dataDir, filepath.FromSlash(path))
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already", path)
		}
	}
	return nil
}

// Write writes the keys to a data directory, which has none yet.
func (k *Keys) Write(dataDir string) (err error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, path := range slices.Sorted(maps.Keys(k.files)) {
		if err := writeNew(root, path, k.files[path]); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file that must not be there yet, durably.
func writeNew(root *os.Root, path string, content []byte) error {
	dir := filepath.Dir(filepath.FromSlash(path))
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, snapshot.FileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
