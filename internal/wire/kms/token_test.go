//go:build pkcs11

package kms

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestToken needs SoftHSM: KANZEN_SOFTHSM names its library, and softhsm2-util is in the path.
func TestToken(t *testing.T) {
	module := os.Getenv("KANZEN_SOFTHSM")
	if module == "" {
		t.Skip("KANZEN_SOFTHSM does not name SoftHSM's library")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "softhsm2.conf")
	if err := os.WriteFile(config, []byte("directories.tokendir = "+dir+"\nobjectstore.backend = file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", config)
	out, err := exec.Command("softhsm2-util", "--module", module, "--init-token", "--free", "--label", "test", "--pin", "1234", "--so-pin", "5678").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := OpenToken(TokenConfig{Module: module, Label: "other", PIN: "1234", Prefix: "k"}); err == nil {
		t.Error("a token that does not exist")
	}
	if _, err := OpenToken(TokenConfig{Module: module, Label: "test", PIN: "wrong", Prefix: "k"}); err == nil {
		t.Error("a wrong PIN")
	}
	token, err := OpenToken(TokenConfig{Module: module, Label: "test", PIN: "1234", Prefix: "k"})
	if err != nil {
		t.Fatal(err)
	}
	testKeys(t, token)
	if err := token.Close(); err != nil {
		t.Error(err)
	}
}
