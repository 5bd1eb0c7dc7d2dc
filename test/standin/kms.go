package standin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"
)

// KMS is a KMS v2 plugin on a Unix socket. It has a key for each ID.
type KMS struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	// Endpoint is as configurations name it.
	Endpoint string

	mu      sync.Mutex
	id      string // of the key in use
	broken  bool
	refused int
	delay   time.Duration // of each call
	garbage bool          // what is encrypted is not what was asked for
}

// StartKMS starts a plugin whose key has an ID, until the test ends.
func StartKMS(t testing.TB, id string) *KMS {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	k := &KMS{Endpoint: "unix://" + path, id: id}
	s := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(s, k)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return k
}

// Rotate takes another key into use.
func (k *KMS) Rotate(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id = id
}

// Break makes all calls fail, or work again.
func (k *KMS) Break(broken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = broken
}

// Slow makes all calls take some time.
func (k *KMS) Slow(delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delay = delay
}

// Garble has it encrypt something else than it is given, or again what it is given.
func (k *KMS) Garble(garbage bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.garbage = garbage
}

// Refused is how many calls failed because the plugin was broken.
func (k *KMS) Refused() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused
}

func (k *KMS) state() (string, error) {
	k.mu.Lock()
	delay := k.delay
	k.mu.Unlock()
	time.Sleep(delay)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken {
		k.refused++
		return "", errors.New("the plugin is broken")
	}
	return k.id, nil
}

func aead(id string) cipher.AEAD {
	key := sha256.Sum256([]byte(id))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the size is right
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

// Status is part of the plugin's API.
func (k *KMS) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	id, err := k.state()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: id}, err
}

// Encrypt is part of the plugin's API.
func (k *KMS) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	id, err := k.state()
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, 12)
	_, _ = rand.Read(nonce)
	k.mu.Lock()
	garbage := k.garbage
	k.mu.Unlock()
	plain := r.Plaintext
	if garbage {
		plain = make([]byte, len(plain))
	}
	return &kmsapi.EncryptResponse{KeyId: id, Ciphertext: aead(id).Seal(nonce, nonce, plain, nil),
		Annotations: map[string][]byte{"b.kanzen.test": []byte("b"), "a.kanzen.test": []byte("a")}}, nil
}

// Decrypt is part of the plugin's API.
func (k *KMS) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if _, err := k.state(); err != nil {
		return nil, err
	}
	if string(r.Annotations["a.kanzen.test"]) != "a" || len(r.Ciphertext) < 12 {
		return nil, errors.New("this was not encrypted here")
	}
	plain, err := aead(r.KeyId).Open(nil, r.Ciphertext[:12], r.Ciphertext[12:], nil)
	return &kmsapi.DecryptResponse{Plaintext: plain}, err
}
