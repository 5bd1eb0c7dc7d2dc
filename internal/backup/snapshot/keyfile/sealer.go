package keyfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
)

// Passphrase reads a passphrase from a file: its text without the ends of lines behind it.
func Passphrase(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// sealer seals the keys of a running server for each of its scheduled snapshots.
type sealer struct {
	dataDir, encryption, passphraseFile string
	work                                int
	// sealed is what was sealed last; of tells from which keys and passphrase.
	sealed []byte
	of     [sha256.Size]byte
}

// NewSealer returns what writes the keys that Read reads to a file, as they are at that moment, for one caller at a time. Keys and
// passphrase are there already.
func NewSealer(dataDir, encryption, passphraseFile string) (seal func(path string) error, err error) {
	s := &sealer{dataDir: dataDir, encryption: encryption, passphraseFile: passphraseFile, work: serverWork}
	if _, _, err := s.read(); err != nil {
		return nil, err
	}
	return s.seal, nil
}

func (s *sealer) read() (*Keys, string, error) {
	passphrase, err := Passphrase(s.passphraseFile)
	if err != nil {
		return nil, "", err
	}
	k, err := Read(s.dataDir, s.encryption)
	if err != nil {
		return nil, "", fmt.Errorf("the keys in %s: %w", s.dataDir, err)
	}
	if k.Len() == 0 {
		return nil, "", fmt.Errorf("%s has no keys", s.dataDir)
	}
	return k, passphrase, nil
}

// seal writes the keys as they are now to a file. What it writes was opened again and compared. While neither keys nor passphrase
// change, all files have the same bytes, because sealing takes 64 MiB of memory.
func (s *sealer) seal(path string) error {
	k, passphrase, err := s.read()
	if err != nil {
		return err
	}
	if of := k.digest(passphrase); s.sealed == nil || of != s.of {
		var sealed bytes.Buffer
		if err := k.seal(&sealed, passphrase, s.work); err != nil {
			return err
		}
		again, err := open(bytes.NewReader(sealed.Bytes()), passphrase)
		if err != nil || !maps.EqualFunc(again.files, k.files, bytes.Equal) {
			return errors.Join(errors.New("what was sealed cannot be opened again"), err)
		}
		s.sealed, s.of = sealed.Bytes(), of
	}
	return snapshot.Create(path, func(f *os.File) error {
		_, err := f.Write(s.sealed)
		return err
	})
}

// digest is of the keys and a passphrase.
func (k *Keys) digest(passphrase string) [sha256.Size]byte {
	all := fmt.Appendf(nil, "%q", passphrase)
	for _, path := range slices.Sorted(maps.Keys(k.files)) {
		all = fmt.Appendf(all, "%q%q", path, k.files[path])
	}
	return sha256.Sum256(all)
}
