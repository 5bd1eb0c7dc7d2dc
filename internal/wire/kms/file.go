package kms

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// File are keys in a file of lines "ID KEY", the key in base64; the last one encrypts. It is read again when it changes.
// A change replaces the file whole, so that a reader never sees a part of one.
type File struct {
	Path string

	mu   sync.Mutex
	seen time.Time // of the file that was read; guarded by mu, as is the rest
	size int64
	keys []fileKey
}

type fileKey struct {
	id   string
	aead cipher.AEAD
	line string
}

const keySize = 32

// load returns the keys, the newest last.
func (f *File) load() ([]fileKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if f.keys != nil && i.ModTime().Equal(f.seen) && i.Size() == f.size {
		return f.keys, nil
	}
	if open := i.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf("%s is open to others (%v); its mode must be 0600", f.Path, i.Mode().Perm())
	}
	b, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	f.keys, f.seen, f.size = keys, i.ModTime(), i.Size()
	return keys, nil
}

// parseKeys reads the lines of a file. No error shows a key.
func parseKeys(b []byte) (keys []fileKey, err error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	seen := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		id, encoded, _ := strings.Cut(line, " ")
		secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil || len(secret) != keySize {
			return nil, fmt.Errorf("line %d is not an ID and %d bytes in base64", n, keySize)
		}
		if seen[id] {
			return nil, fmt.Errorf("line %d has the ID of another one", n)
		}
		seen[id] = true
		block, err := aes.NewCipher(secret)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		keys = append(keys, fileKey{id, aead, line})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("there are no keys in it")
	}
	return keys, nil
}

// IDs returns the IDs of the keys, the newest last.
func (f *File) IDs() ([]string, error) {
	keys, err := f.load()
	var out []string
	for _, k := range keys {
		out = append(out, k.id)
	}
	return out, err
}

// Current is part of Keys.
func (f *File) Current() (string, error) {
	keys, err := f.load()
	if err != nil {
		return "", err
	}
	return keys[len(keys)-1].id, nil
}

func (f *File) key(id string) (cipher.AEAD, error) {
	keys, err := f.load()
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.id == id {
			return k.aead, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", errNoKey, id)
}

// Seal is part of Keys: a random nonce, then the ciphertext. Few seeds are made, so that a nonce does not come twice.
func (f *File) Seal(id string, plain []byte) ([]byte, error) {
	aead, err := f.key(id)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return aead.Seal(nonce, nonce, plain, []byte(id)), nil
}

// Open is part of Keys.
func (f *File) Open(id string, sealed []byte) ([]byte, error) {
	aead, err := f.key(id)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("the ciphertext is too short")
	}
	return aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(id))
}

// Rotate adds a key, which encrypts from now on, and returns its ID. It makes the file if there is none.
func (f *File) Rotate() (string, error) {
	keys, err := f.load()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	id := uuid.NewString()
	return id, f.store(append(keys[:len(keys):len(keys)], fileKey{id: id, line: id + " " + base64.StdEncoding.EncodeToString(secret)}))
}

// Remove removes a former key: what was encrypted with it is lost.
func (f *File) Remove(id string) error {
	keys, err := f.load()
	if err != nil {
		return err
	}
	var kept []fileKey
	for n, k := range keys {
		if k.id != id {
			kept = append(kept, k)
		} else if n == len(keys)-1 {
			return fmt.Errorf("%s is the key that encrypts", id)
		}
	}
	if len(kept) == len(keys) {
		return fmt.Errorf("%w: %q", errNoKey, id)
	}
	return f.store(kept)
}

// store replaces the file.
func (f *File) store(keys []fileKey) error {
	var text strings.Builder
	text.WriteString("# Keys of kanzen-kms, the last one encrypts. Without them what they encrypted is lost.\n")
	for _, k := range keys {
		text.WriteString(k.line + "\n")
	}
	made, err := os.CreateTemp(filepath.Dir(f.Path), ".keys-*") // 0600
	if err != nil {
		return err
	}
	_, err = made.WriteString(text.String())
	if err = errors.Join(err, made.Sync(), made.Close()); err == nil {
		err = os.Rename(made.Name(), f.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(made.Name()))
	}
	return nil
}
