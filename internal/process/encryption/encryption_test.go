package encryption

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
	kmsapi "k8s.io/kms/apis/v2"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/store"
)

const testKey = "/registry/secrets/default/a"

// fakePlugin is a plugin in memory. Its ciphertext is the plaintext with the ID of the key in front.
type fakePlugin struct {
	mu       sync.Mutex
	id       string
	err      error
	decrypts int
	garbage  func([]byte) []byte // changes what is decrypted; nil: nothing
	hang     chan struct{}       // what is decrypted waits until it is closed; nil: it does not
}

func (f *fakePlugin) set(id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id, f.err = id, err
}

func (f *fakePlugin) Status(context.Context, *kmsapi.StatusRequest, ...grpc.CallOption) (*kmsapi.StatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: f.id}, f.err
}

func (f *fakePlugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest, _ ...grpc.CallOption) (*kmsapi.EncryptResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &kmsapi.EncryptResponse{KeyId: f.id, Ciphertext: append([]byte(f.id), r.Plaintext...), Annotations: map[string][]byte{"a.b": []byte("c")}}, f.err
}

func (f *fakePlugin) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest, _ ...grpc.CallOption) (*kmsapi.DecryptResponse, error) {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	f.decrypts++
	plain, ok := bytes.CutPrefix(r.Ciphertext, []byte(r.KeyId))
	if !ok {
		return nil, errors.New("another key")
	}
	if f.garbage != nil {
		plain = f.garbage(plain)
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}

func aescbcConfig(key []byte) apiserver.ProviderConfiguration {
	return apiserver.ProviderConfiguration{AESCBC: &apiserver.AESConfiguration{Keys: []apiserver.Key{{Name: "a", Secret: base64.StdEncoding.EncodeToString(key)}}}}
}

func testMetrics() *metrics {
	return newMetrics(prometheus.NewRegistry(), "server", testclock.NewFakeClock(time.Now()))
}

func newTestKMS(t testing.TB, f *fakePlugin) (*kms, *testclock.FakeClock) {
	t.Helper()
	clk := testclock.NewFakeClock(time.Now())
	k := newKMS("plugin", &plugin{client: f, timeout: time.Second}, clk, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry(), "server", clk))
	return k, clk
}

// testProviders are all providers, and which of them detect changes of a value, and moves to another key.
func testProviders(t testing.TB) map[string]struct {
	provider
	changes, moves bool
} {
	t.Helper()
	key := bytes.Repeat([]byte{1}, 32)
	gcm, err := newGCM(key)
	if err != nil {
		t.Fatal(err)
	}
	cbc, err := newOption("", aescbcConfig(key), testMetrics(), nil)
	if err != nil {
		t.Fatal(err)
	}
	k, _ := newTestKMS(t, &fakePlugin{id: "k"})
	if err := k.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		provider
		changes, moves bool
	}{
		"aescbc": {cbc, false, false}, "aesgcm": {gcm, true, true}, "secretbox": {&secretBox{[32]byte(key)}, true, false},
		"seed": {seed(key), true, true}, "kms": {k, true, true}, "kms v1": {newTestKMSV1(&fakePluginV1{}, 10), false, false}, "identity": {identity{}, false, false},
	}
}

// FuzzOpen has every provider read anything, and what it wrote with one byte changed.
func FuzzOpen(f *testing.F) {
	providers := testProviders(f)
	for _, p := range providers {
		sealed, err := p.seal(f.Context(), place{key: testKey, resource: "secrets"}, nil, []byte("value"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed, 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, change int) {
		at, other := place{key: testKey, resource: "secrets"}, place{key: testKey + "b", resource: "secrets"}
		for name, p := range providers {
			before := bytes.Clone(data)
			if value, _, err := p.open(t.Context(), at, data); err != nil && value != nil {
				t.Errorf("%s: a value beside an error", name)
			}
			if !bytes.Equal(before, data) {
				t.Fatalf("%s changed its input", name)
			}
			sealed, err := p.seal(t.Context(), at, []byte("prefix"), data)
			if err != nil {
				t.Fatal(err)
			}
			sealed = bytes.TrimPrefix(sealed, []byte("prefix"))
			if value, stale, err := p.open(t.Context(), at, sealed); (err != nil || stale || !bytes.Equal(value, data)) && name != "identity" {
				t.Fatalf("%s: %q, stale %v, %v", name, value, stale, err)
			}
			if _, _, err := p.open(t.Context(), other, sealed); p.moves && err == nil {
				t.Errorf("%s reads a value that was moved", name)
			}
			if len(sealed) == 0 {
				continue
			}
			sealed = bytes.Clone(sealed)
			sealed[uint(change)%uint(len(sealed))] ^= 1 + byte(uint(change)>>8)&0x7f
			if value, _, err := p.open(t.Context(), at, sealed); p.changes && err == nil && !bytes.Equal(value, data) {
				t.Errorf("%s reads %q of a value that was changed", name, value)
			}
		}
	})
}

// TestPluginRotates follows a plugin whose key changes, and that fails.
func TestPluginRotates(t *testing.T) {
	f := &fakePlugin{id: "k1", err: errors.New("not yet")}
	k, clk := newTestKMS(t, f)
	at := place{key: testKey, resource: "secrets"}
	// As in kube-apiserver, only the first to ask learns which part of the check has failed.
	for _, want := range []string{"failed to perform status section of the healthz check for KMS Provider plugin, error: not yet", "not yet"} {
		if err := k.check(t.Context()); err == nil || err.Error() != want {
			t.Fatalf("a plugin that is not there: %v, want %s", err, want)
		}
	}
	if _, err := k.seal(t.Context(), at, nil, []byte("v")); !errors.Is(err, errNoSeed) {
		t.Errorf("a write without a seed: %v", err)
	}
	f.set("k1", nil)
	if err := k.check(t.Context()); err == nil {
		t.Error("the result of a check does not hold")
	}
	clk.Step(resultIll)
	if err := k.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, err := k.seal(t.Context(), at, nil, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}

	f.set("k2", nil)
	clk.Step(resultWell)
	if err := k.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if value, stale, err := k.open(t.Context(), at, old); string(value) != "v" || !stale || err != nil {
		t.Errorf("a value of the former key: %q, stale %v, %v", value, stale, err)
	}
	if f.decrypts != 2 { // each new seed is tried once
		t.Error("the plugin was asked for a seed that was made here")
	}

	f.set("k2", errors.New("down"))
	clk.Step(resultWell)
	if err := k.check(t.Context()); err == nil {
		t.Error("a plugin that is down is well")
	}
	if _, err := k.seal(t.Context(), at, nil, []byte("v")); err != nil {
		t.Errorf("a write soon after the plugin went down: %v", err)
	}
	clk.Step(writeTTL)
	if _, err := k.seal(t.Context(), at, nil, []byte("v")); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("a write long after the plugin went down: %v", err)
	}
	if _, _, err := k.open(t.Context(), at, old); err != nil {
		t.Errorf("a read while the plugin is down: %v", err)
	}
}

// readerAfterFailure stores the value v and returns it with a server that does not know its seed: it read the value once, while
// the plugin was down.
func readerAfterFailure(t *testing.T) (*fakePlugin, place, []byte, *kms, *testclock.FakeClock) {
	t.Helper()
	f := &fakePlugin{id: "k1"}
	writer, _ := newTestKMS(t, f)
	at := place{key: testKey, resource: "secrets"}
	if err := writer.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := writer.seal(t.Context(), at, nil, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	f.decrypts = 0
	reader, clk := newTestKMS(t, f)
	f.set("k1", errors.New("down"))
	if _, _, err := reader.open(t.Context(), at, stored); err == nil || err.Error() != "failed to decrypt DEK, error: down" {
		t.Fatalf("got %v", err)
	}
	f.set("k1", nil)
	return f, at, stored, reader, clk
}

// TestSeedsAreAskedForOnce has a server that does not know a seed read many values of it.
func TestSeedsAreAskedForOnce(t *testing.T) {
	f, at, stored, reader, clk := readerAfterFailure(t)
	if _, _, err := reader.open(t.Context(), at, stored); err == nil {
		t.Error("a failure does not hold")
	}
	clk.Step(failedHolds)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if value, _, err := reader.open(t.Context(), at, stored); string(value) != "v" || err != nil {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
	wait.Wait()
	if f.decrypts != 1 {
		t.Errorf("the plugin was asked %d times", f.decrypts)
	}
	if n := testutil.ToFloat64(reader.metrics.seedsKept.WithLabelValues("plugin")); n != 1 {
		t.Errorf("%v seeds are kept", n)
	}
}

// atNow is a clock that does something the first time it is read.
type atNow struct {
	clock.PassiveClock
	do func()
}

func (c *atNow) Now() time.Time {
	if do := c.do; do != nil {
		c.do = nil
		do()
	}
	return c.PassiveClock.Now()
}

// TestSeedComesMeanwhile has a read look for a seed, not find it, and then be overtaken by another read of it.
func TestSeedComesMeanwhile(t *testing.T) {
	f, at, stored, reader, clk := readerAfterFailure(t) // the failure is what makes the next read ask for the time
	clk.Step(failedHolds)
	read := func() {
		if value, _, err := reader.open(t.Context(), at, stored); string(value) != "v" || err != nil {
			t.Errorf("%q, %v", value, err)
		}
	}
	reader.seeds.clock = &atNow{clk, read}
	read()
	if f.decrypts != 1 {
		t.Errorf("the plugin was asked %d times", f.decrypts)
	}
}

// TestGarbage has a plugin decrypt to something else: nothing is written with a seed that would be lost, and what is read
// is read again once the plugin is right.
func TestGarbage(t *testing.T) {
	f := &fakePlugin{id: "k1"}
	writer, _ := newTestKMS(t, f)
	at := place{key: testKey, resource: "secrets"}
	if err := writer.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored, err := writer.seal(t.Context(), at, nil, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	for name, garbage := range map[string]func([]byte) []byte{
		"other": func([]byte) []byte { return bytes.Repeat([]byte{7}, 32) },
		"short": func(b []byte) []byte { return b[:5] },
		"none":  func([]byte) []byte { return nil },
	} {
		f.garbage = garbage
		k, clk := newTestKMS(t, f)
		if err := k.check(t.Context()); !errors.Is(err, errGarbage) {
			t.Errorf("%s: health says %v", name, err)
		}
		if _, err := k.seal(t.Context(), at, nil, []byte("v")); !errors.Is(err, errNoSeed) {
			t.Errorf("%s: a write: %v", name, err)
		}
		if _, _, err := k.open(t.Context(), at, stored); err == nil {
			t.Errorf("%s: it was read", name)
		}
		f.garbage = nil
		clk.Step(failedHolds)
		if value, _, err := k.open(t.Context(), at, stored); string(value) != "v" || err != nil {
			t.Errorf("%s: after the plugin has recovered: %q, %v", name, value, err)
		}
		// Now the seed is known to be right, so damage of a value is no reason to ask for it again.
		f.decrypts = 0
		if _, _, err := k.open(t.Context(), place{key: "another", resource: "secrets"}, stored); err == nil {
			t.Errorf("%s: a moved value was read", name)
		}
		if _, _, err := k.open(t.Context(), at, stored); err != nil || f.decrypts != 0 {
			t.Errorf("%s: asked %d times, %v", name, f.decrypts, err)
		}
	}
}

// TestPluginHangs has a plugin not answer: only the first who needs an unknown seed waits, as long as it wants to, and
// cached seeds are read on.
func TestPluginHangs(t *testing.T) {
	f := &fakePlugin{id: "k1"}
	at := place{key: testKey, resource: "secrets"}
	var stored [][]byte
	for range 3 { // three seeds
		writer, _ := newTestKMS(t, f)
		if err := writer.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		b, err := writer.seal(t.Context(), at, nil, []byte("v"))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, b)
	}
	k, clk := newTestKMS(t, f)
	k.plugin.timeout = time.Hour // it hangs for as long as the test
	if _, _, err := k.open(t.Context(), at, stored[0]); err != nil {
		t.Fatal(err)
	}
	f.hang = make(chan struct{})
	patience, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := k.open(patience, at, stored[1]); !errors.Is(err, errHangs) {
		t.Errorf("the first: %v", err)
	}
	for n, b := range stored[1:] { // with all the patience there is
		if _, _, err := k.open(t.Context(), at, b); !errors.Is(err, errHangs) {
			t.Errorf("value %d: %v", n+1, err)
		}
	}
	if value, _, err := k.open(t.Context(), at, stored[0]); string(value) != "v" || err != nil {
		t.Errorf("a cached seed: %q, %v", value, err)
	}
	close(f.hang)
	for n, b := range stored {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			clk.Step(failedHolds)
			if value, _, err := k.open(t.Context(), at, b); err == nil && string(value) == "v" {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("value %d after the plugin has recovered: %v", n, err)
			}
		}
	}
}

// TestNonces seals the same value twice.
func TestNonces(t *testing.T) {
	for name, p := range testProviders(t) {
		one, _ := p.seal(t.Context(), place{key: testKey, resource: "secrets"}, nil, []byte("value"))
		other, _ := p.seal(t.Context(), place{key: testKey, resource: "secrets"}, nil, []byte("value"))
		if bytes.Equal(one, other) && name != "identity" {
			t.Errorf("%s gives the same bytes twice", name)
		}
	}
}

// openConfig takes a configuration of one entry into use.
func openConfig(t testing.TB, providers string) (*Encryption, store.Transformer) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	writeConfig(t, file, providers)
	clk, log := testclock.NewFakeClock(time.Now()), slog.New(slog.DiscardHandler)
	e, err := New(t.Context(), Config{File: file, Reload: true, Server: "server", Registry: prometheus.NewRegistry(), Clock: clk, Guard: guard.New(log, clk, nil), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, e.Transformer(schema.GroupResource{Resource: "secrets"})
}

func configOf(providers string) string {
	return "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [" + providers + "]}]\n"
}

func writeConfig(t testing.TB, file, providers string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(configOf(providers)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func testKeys(names ...string) string {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))))
	}
	return "{keys: [" + strings.Join(out, ", ") + "]}"
}

// TestReload changes the configuration under a transformer that is in use.
func TestReload(t *testing.T) {
	e, tr := openConfig(t, "{aesgcm: "+testKeys("a")+"}")
	stored, err := tr.ToStorage(t.Context(), testKey, []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer e.running.Wait()
	defer cancel()
	for _, c := range []struct {
		providers string
		taken     bool
		stale     bool
		wrong     string
	}{
		{"{aesgcm: " + testKeys("b", "a") + "}", true, true, ""},
		{"{aesgcm: {}}", false, true, ""},
		{"{kms: {name: a, endpoint: 'unix:///none'}}", false, true, ""},
		{"{aesgcm: " + testKeys("a", "b") + "}", true, false, ""},
		{"{identity: {}}", true, false, noPrefix},
		{"{identity: {}}, {aesgcm: " + testKeys("a") + "}", true, true, ""},
	} {
		if err := e.take(ctx, []byte(configOf(c.providers))); (err == nil) != c.taken {
			t.Errorf("%s: %v", c.providers, err)
		}
		value, stale, err := tr.FromStorage(t.Context(), testKey, stored)
		if c.wrong != "" {
			if err == nil || err.Error() != c.wrong {
				t.Errorf("%s: %v", c.providers, err)
			}
			continue
		}
		if string(value) != "v" || stale != c.stale || err != nil {
			t.Errorf("%s: %q, stale %v, %v", c.providers, value, stale, err)
		}
	}
}

const noPrefix = "no matching prefix found"

func BenchmarkTransform(b *testing.B) {
	value := bytes.Repeat([]byte("x"), 6<<10)
	run := func(b *testing.B, t store.Transformer) {
		stored, err := t.ToStorage(b.Context(), testKey, value)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("ToStorage", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.ToStorage(b.Context(), testKey, value); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("FromStorage", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := t.FromStorage(b.Context(), testKey, stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, name := range []string{"aescbc", "aesgcm", "secretbox"} {
		b.Run(name, func(b *testing.B) {
			_, t := openConfig(b, "{"+name+": "+testKeys("a")+"}")
			run(b, t)
		})
	}
	b.Run("kms", func(b *testing.B) {
		e, t := openConfig(b, "{identity: {}}")
		k, _ := newTestKMS(b, &fakePlugin{id: "k"})
		if err := k.check(b.Context()); err != nil {
			b.Fatal(err)
		}
		e.current.Load().resources[schema.GroupResource{Resource: "secrets"}].list = []option{{prefix: "k8s:enc:kms:v2:plugin:", provider: k}}
		run(b, t)
	})
}
