//lint:file-ignore SA1019 the deprecated version is still served behind its gate

package encryption

import (
	"context"
	"crypto/aes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/kms/apis/v1beta1"
	"k8s.io/utils/clock"
)

// This file is the deprecated first version of the plugins' API, which needs the feature gate KMSv1. Every value has a key of
// its own, which the plugin encrypts when the value is written: without the plugin nothing is written. A stored value is
//
//	k8s:enc:kms:v1:<name of the provider>:<2 bytes: n><n bytes: the key, encrypted by the plugin><nonce><AES-GCM ciphertext>

// v1beta1Version is the version of the API that is asked for.
const v1beta1Version = "v1beta1"

// pluginV1 is the connection to a plugin with the first version of the API.
type pluginV1 struct {
	connection *grpc.ClientConn
	client     v1beta1.KeyManagementServiceClient
	timeout    time.Duration // of a call
	known      atomic.Bool   // the plugin has said that it has this version
}

func (p *pluginV1) close() { _ = p.connection.Close() } // fails only if it is closed already

// version asks for the version once; every other call does so first.
func (p *pluginV1) version(ctx context.Context) error {
	if p.known.Load() {
		return nil
	}
	answer, err := p.client.Version(ctx, &v1beta1.VersionRequest{Version: v1beta1Version})
	if err != nil {
		return fmt.Errorf("failed get version from remote KMS provider: %w", err)
	}
	if answer.Version != v1beta1Version {
		return fmt.Errorf("KMS provider api version %s is not supported, only %s is supported", answer.Version, v1beta1Version)
	}
	p.known.Store(true)
	return nil
}

func (p *pluginV1) encrypt(ctx context.Context, plain []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if err := p.version(ctx); err != nil {
		return nil, err
	}
	answer, err := p.client.Encrypt(ctx, &v1beta1.EncryptRequest{Plain: plain, Version: v1beta1Version})
	if err != nil {
		return nil, err
	}
	return answer.Cipher, nil
}

// decrypt is what seeds ask for.
func (p *pluginV1) decrypt(ctx context.Context, _ string, e *envelope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if err := p.version(ctx); err != nil {
		return nil, err
	}
	answer, err := p.client.Decrypt(ctx, &v1beta1.DecryptRequest{Cipher: e.source, Version: v1beta1Version})
	if err != nil {
		return nil, err
	}
	return answer.Plain, nil
}

// kmsV1 encrypts each value with a key that a plugin encrypts.
type kmsV1 struct {
	name    string
	plugin  *pluginV1
	clock   clock.WithTicker
	log     *slog.Logger
	metrics *metrics
	keys    *seeds // what the plugin has decrypted, or has encrypted for this server

	mu     sync.Mutex // held by one check at a time
	result error      // of the last check; guarded by mu
	until  time.Time  // when result expires; guarded by mu
}

// newKMSV1 makes the provider of a plugin; keep is how many keys are kept, none if it is negative.
func newKMSV1(name string, p *pluginV1, keep int, clk clock.WithTicker, log *slog.Logger, m *metrics) *kmsV1 {
	k := &kmsV1{name: name, plugin: p, clock: clk, log: log, metrics: m, keys: newSeeds(name, p, keep, clk, m)}
	k.keys.slots = keep
	k.keys.cipher = func(_ sourceType, key []byte) (provider, error) { return newKeyV1(key) }
	return k
}

// keyV1 writes with AES-GCM. It reads AES-CBC too, with which servers wrote before 1.25.
type keyV1 struct {
	aesGCM
	former aesCBC
}

func newKeyV1(key []byte) (*keyV1, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := newGCM(key)
	return &keyV1{gcm, aesCBC{block}}, err
}

func (k *keyV1) open(ctx context.Context, at place, data []byte) ([]byte, bool, error) {
	value, _, err := k.aesGCM.open(ctx, at, data)
	if err == nil {
		return value, false, nil
	}
	if value, _, was := k.former.open(ctx, at, data); was == nil {
		return value, true, nil
	}
	return nil, false, err
}

const keySize = 32

func (k *kmsV1) seal(ctx context.Context, at place, dst, value []byte) ([]byte, error) {
	began := k.clock.Now()
	key := make([]byte, keySize)
	fill(key)
	k.metrics.seedSeconds.Observe(k.clock.Since(began).Seconds())
	sealed, err := k.plugin.encrypt(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(sealed) == 0 || len(sealed) > 1<<16-1 {
		return nil, fmt.Errorf("the KMS plugin made %d bytes of a key", len(sealed))
	}
	cipher, err := newKeyV1(key)
	if err != nil {
		return nil, err
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(sealed)))
	dst, err = cipher.seal(ctx, at, append(dst, sealed...), value)
	if err == nil {
		k.keys.put(&envelope{source: sealed}, cipher)
	}
	return dst, err
}

var errTruncated = errors.New("invalid data encountered by envelope transformer: failed to read uint16 length prefixed data")

func (k *kmsV1) open(ctx context.Context, at place, data []byte) ([]byte, bool, error) {
	if len(data) < 2 {
		return nil, false, errTruncated
	}
	n := int(binary.BigEndian.Uint16(data))
	if len(data) < 2+n {
		return nil, false, errTruncated
	}
	source, err := k.keys.get(ctx, &envelope{source: data[2 : 2+n]})
	if err != nil {
		return nil, false, err
	}
	value, stale, err := source.open(ctx, at, data[2+n:])
	if err != nil {
		k.keys.wrong(source, err)
		return nil, false, err
	}
	source.proven.Store(true)
	return value, stale, nil
}

func (k *kmsV1) close() { k.plugin.close() }

func (k *kmsV1) run(ctx context.Context) { runChecks(ctx, k.clock, k.log, k.name, k.check) }

// check returns whether the plugin encrypts and decrypts, as of a short while ago at most.
func (k *kmsV1) check(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.clock.Now().Before(k.until) {
		return k.result
	}
	err := k.checkNow(ctx)
	k.result, k.until = kept(err), k.clock.Now().Add(holds(err))
	return err
}

func (k *kmsV1) checkNow(ctx context.Context) error {
	const ping = "ping"
	sealed, err := k.plugin.encrypt(ctx, []byte(ping))
	if err != nil {
		return &sectionError{"encrypt", k.name, err}
	}
	plain, err := k.plugin.decrypt(ctx, "", &envelope{source: sealed})
	if err == nil && string(plain) != ping {
		err = errGarbage
	}
	if err != nil {
		return &sectionError{"decrypt", k.name, err}
	}
	return nil
}
