package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/keyfile"
)

// sealing are the settings by which keys are saved with a snapshot.
type sealing struct {
	with                       bool
	passphraseFile, encryption string
	passphrase                 string // that read has found
}

func addPassphrase(fs *pflag.FlagSet, path *string) {
	fs.StringVar(path, "passphrase-file", "", "File with the passphrase of the keys.")
}

func (s *sealing) add(fs *pflag.FlagSet) {
	fs.BoolVar(&s.with, "with-keys", false, "Also save the keys and certificates in --data-dir, sealed with a passphrase, as FILE"+snapshot.KeysSuffix+".")
	addPassphrase(fs, &s.passphraseFile)
	fs.StringVar(&s.encryption, "encryption-provider-config", "", "EncryptionConfiguration file of the server, to save with the keys.")
}

// read reads the keys of a data directory and the passphrase; nil: none are to be saved.
func (s *sealing) read(dataDir string) (k *keyfile.Keys, err error) {
	if !s.with {
		if s.passphraseFile != "" || s.encryption != "" {
			return nil, errors.New("--passphrase-file and --encryption-provider-config are for --with-keys")
		}
		return nil, nil
	}
	if s.passphrase, err = passphraseIn(s.passphraseFile); err != nil {
		return nil, err
	}
	if s.encryption != "" {
		if _, err := os.ReadFile(s.encryption); err != nil {
			return nil, fmt.Errorf("--encryption-provider-config: %w", err)
		}
	}
	if k, err = keyfile.Read(dataDir, s.encryption); err != nil {
		return nil, fmt.Errorf("--with-keys: the keys in %s: %w", dataDir, err)
	}
	return k, nil
}

func passphraseIn(path string) (string, error) {
	if path == "" {
		return "", errors.New("--passphrase-file names the file with the passphrase of the keys")
	}
	text, err := keyfile.Passphrase(path)
	if err != nil {
		return "", fmt.Errorf("--passphrase-file: %w", err)
	}
	return text, nil
}

// lost says what does not work with a restored snapshot for want of keys; nil: there are none.
func lost(ctx context.Context, k *snapshot.Kinds, file, dir string, keys *keyfile.Keys) (lines []string, err error) {
	is, err := k.Inspect(ctx, file)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		lines = append(lines,
			"Certificates, kubeconfigs and service account tokens of the old server are not valid on the new one,",
			"unless you copy its pki/ to "+dir+" before the first start, or restore with --keys.")
	}
	values, providers := []string{}, map[string]bool{}
	for _, r := range is.Resources {
		n := int64(0)
		for provider, values := range r.Encryption {
			n += values
			providers[provider] = true
		}
		if n > 0 {
			values = append(values, fmt.Sprintf("%d %s", n, r.Name))
		}
	}
	if len(values) > 0 && (keys == nil || !keys.Encrypted()) {
		lines = append(lines, fmt.Sprintf("Encrypted by %s: %s.", strings.Join(slices.Sorted(maps.Keys(providers)), ", "), strings.Join(values, ", ")),
			"The server reads them only with the --encryption-provider-config of the old one.")
	}
	return lines, nil
}
