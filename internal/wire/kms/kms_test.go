package kms

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kmsapi "k8s.io/kms/apis/v2"
)

// rotating are keys that change.
type rotating interface {
	Keys
	Rotate() (string, error)
	Remove(id string) error
	IDs() ([]string, error)
}

// testKeys holds for keys wherever they are.
func testKeys(t *testing.T, k rotating) {
	t.Helper()
	if _, err := k.Current(); err == nil {
		t.Error("there is a key before one was made")
	}
	first, err := k.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := k.Seal(first, []byte("seed"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Seal(first, []byte("seed"))
	if err != nil || string(again) == string(sealed) {
		t.Errorf("the same bytes twice, %v", err)
	}
	second, err := k.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := k.Current(); id != second || err != nil {
		t.Errorf("current is %q (%v), want the newest", id, err)
	}
	if plain, err := k.Open(first, sealed); string(plain) != "seed" || err != nil {
		t.Errorf("%q, %v", plain, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"with another key": func() ([]byte, error) { return k.Open(second, sealed) },
		"with no key":      func() ([]byte, error) { return k.Open("none", sealed) },
		"changed":          func() ([]byte, error) { return k.Open(first, append([]byte{sealed[0] ^ 1}, sealed[1:]...)) },
		"changed at the end": func() ([]byte, error) {
			return k.Open(first, append(sealed[:len(sealed)-1:len(sealed)-1], sealed[len(sealed)-1]^1))
		},
		"cut off": func() ([]byte, error) { return k.Open(first, sealed[:len(sealed)-1]) },
		"empty":   func() ([]byte, error) { return k.Open(first, nil) },
	} {
		if plain, err := open(); err == nil {
			t.Errorf("%s: decrypted as %q", name, plain)
		}
	}
	if plain, err := k.Open(first, sealed); string(plain) != "seed" || err != nil {
		t.Errorf("after failures: %q, %v", plain, err)
	}
	if err := k.Remove(second); err == nil {
		t.Error("the key that encrypts was removed")
	}
	if err := k.Remove(first); err != nil {
		t.Error(err)
	}
	if _, err := k.Open(first, sealed); !errors.Is(err, errNoKey) {
		t.Errorf("a removed key decrypts: %v", err)
	}
	if ids, err := k.IDs(); len(ids) != 1 || ids[0] != second || err != nil {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestFile(t *testing.T) { testKeys(t, &File{Path: filepath.Join(t.TempDir(), "keys")}) }

// TestFileIsChecked refuses files that are open to others or broken, and names no key.
func TestFileIsChecked(t *testing.T) {
	const secret = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
	for name, c := range map[string]struct {
		text, want string
		mode       os.FileMode
	}{
		"good":      {"# a comment\n\nk1 " + secret + "\n", "", 0o600},
		"open":      {"k1 " + secret, "open to others", 0o640},
		"empty":     {"# none\n", "no keys", 0o600},
		"short":     {"k1 YWFh\n", "line 1 is not", 0o600},
		"no base64": {"k1 " + secret + "!\n", "line 1 is not", 0o600},
		"twice":     {"k1 " + secret + "\nk1 " + secret + "\n", "line 2 has the ID", 0o600},
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := errors.Join(os.WriteFile(path, []byte(c.text), c.mode), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := (&File{Path: path}).Current()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestServe asks a plugin over its socket, rotates and breaks its keys, and takes the socket of one that has died.
func TestServe(t *testing.T) {
	dir, err := os.MkdirTemp("", "kms") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := &File{Path: filepath.Join(dir, "keys")}
	first, err := k.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	serve := func() (kmsapi.KeyManagementServiceClient, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- (&Plugin{Keys: k, Log: slog.New(slog.DiscardHandler)}).Serve(ctx, socket) }()
		c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		return kmsapi.NewKeyManagementServiceClient(c), func() {
			_ = c.Close()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	c, stop := serve()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status := func() *kmsapi.StatusResponse {
		t.Helper()
		s, err := c.Status(ctx, &kmsapi.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := status(); s.Healthz != "ok" || s.Version != "v2" || s.KeyId != first {
		t.Errorf("%v", s)
	}
	if i, err := os.Stat(socket); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	e, err := c.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: []byte("seed")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Rotate(); err != nil {
		t.Fatal(err)
	}
	if s := status(); s.KeyId == first {
		t.Error("the new key is not in use")
	}
	decrypt := &kmsapi.DecryptRequest{Ciphertext: e.Ciphertext, KeyId: e.KeyId, Annotations: e.Annotations}
	if d, err := c.Decrypt(ctx, decrypt); err != nil || string(d.Plaintext) != "seed" {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := c.Decrypt(ctx, &kmsapi.DecryptRequest{Ciphertext: e.Ciphertext, KeyId: e.KeyId}); err == nil {
		t.Error("what has no annotation was decrypted")
	}
	if _, err := c.Encrypt(ctx, &kmsapi.EncryptRequest{Plaintext: make([]byte, maxPlain+1)}); err == nil {
		t.Error("no bound of what is encrypted")
	}
	if err := (&Plugin{Keys: k}).Serve(ctx, socket); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second plugin on the socket: %v", err)
	}
	stop()
	c, stop = serve() // the socket of the first one is there still
	defer stop()
	if d, err := c.Decrypt(ctx, decrypt); err != nil || string(d.Plaintext) != "seed" {
		t.Errorf("after a restart: %v, %v", d, err)
	}
	if err := os.Remove(k.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(ctx, &kmsapi.StatusRequest{}); err == nil {
		t.Error("a plugin without keys is well")
	}
}
