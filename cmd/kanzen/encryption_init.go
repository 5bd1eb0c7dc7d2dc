package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"
)

// keyBytes is the length of new keys: what secretbox needs, and the longest that AES takes.
const keyBytes = 32

func encryptionInitCommand() *cobra.Command {
	provider, resources := "secretbox", []string{"secrets"}
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Create a configuration of encryption with a new key",
		Long: `Creates an EncryptionConfiguration for --encryption-provider-config, with a new
random key. kube-apiserver takes it too. What was stored unencrypted stays
readable; 'kanzen encryption rewrite' encrypts it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "key-" + time.Now().UTC().Format(time.DateOnly)
			config, err := newEncryption(provider, name, resources)
			if err != nil {
				return err
			}
			if err := writeNewFile(args[0], config); err != nil {
				return err
			}
			tell(cmd.OutOrStdout(), `%s: encrypts %s with %s, by the new key %s.
Start every server with --encryption-provider-config %s. Keep a copy of the file
apart from backups: without it, nobody can read what it has encrypted. Then run
'kanzen encryption rewrite', which encrypts what is stored already.
`, args[0], strings.Join(resources, ", "), provider, name, shellWord(args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&provider, "provider", provider, "What encrypts: secretbox, aesgcm or aescbc (docs/encryption.md compares them).")
	cmd.Flags().StringSliceVar(&resources, "resource", resources, "Resources to encrypt: secrets, configmaps, widgets.example.com.")
	cmd.SetUsageFunc(usage)
	return cmd
}

// newEncryption returns a configuration as YAML.
func newEncryption(provider, keyName string, resources []string) ([]byte, error) {
	if len(resources) == 0 || slices.Contains(resources, "") {
		return nil, errors.New("--resource: name resources, as secrets or widgets.example.com")
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	keys := []apiserverv1.Key{{Name: keyName, Secret: base64.StdEncoding.EncodeToString(key)}}
	var p apiserverv1.ProviderConfiguration
	switch provider {
	case "secretbox":
		p.Secretbox = &apiserverv1.SecretboxConfiguration{Keys: keys}
	case "aesgcm":
		p.AESGCM = &apiserverv1.AESConfiguration{Keys: keys}
	case "aescbc":
		p.AESCBC = &apiserverv1.AESConfiguration{Keys: keys}
	default:
		return nil, fmt.Errorf("--provider: there is no %q, only secretbox, aesgcm and aescbc", provider)
	}
	return yaml.Marshal(&apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
		Resources: []apiserverv1.ResourceConfiguration{{Resources: resources,
			Providers: []apiserverv1.ProviderConfiguration{p, {Identity: &apiserverv1.IdentityConfiguration{}}}}},
	})
}

// writeNewFile writes a file that only its owner may read. There must be none yet: it may hold the only copy of a key.
func writeNewFile(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; name a new file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
