package pki

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An encrypted key is told as one, in each place that reads keys.
func TestEncryptedKeys(t *testing.T) {
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := selfSign("a", key, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certPath, keyPath := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	if err := os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), fileMode); err != nil {
		t.Fatal(err)
	}
	sealed := []byte("sealed")
	for name, block := range map[string]*pem.Block{
		"PKCS #8": {Type: "ENCRYPTED PRIVATE KEY", Bytes: sealed},
		"PEM":     {Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: sealed},
	} {
		data := pem.EncodeToMemory(block)
		if err := os.WriteFile(keyPath, data, fileMode); err != nil {
			t.Fatal(err)
		}
		_, pairErr := LoadPair(certPath, keyPath)
		_, privateErr := ParsePrivateKey(data)
		_, publicErr := ParsePublicKeys(data)
		for of, err := range map[string]error{"pair": pairErr, "private": privateErr, "public": publicErr} {
			if err == nil || !strings.Contains(err.Error(), "encrypted with a passphrase") {
				t.Errorf("%s, %s: %v", name, of, err)
			}
		}
		if !strings.HasPrefix(pairErr.Error(), keyPath+": ") {
			t.Errorf("%v does not name the file", pairErr)
		}
	}
}
