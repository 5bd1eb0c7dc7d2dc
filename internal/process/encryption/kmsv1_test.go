//lint:file-ignore SA1019 the deprecated version is still served behind its gate

package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"k8s.io/kms/apis/v1beta1"
	testclock "k8s.io/utils/clock/testing"
)

// fakePluginV1 is a plugin in memory, with the first version of the API. It reverses what it encrypts.
type fakePluginV1 struct {
	version            string // "": the right one
	err                error
	encrypts, decrypts int
	garbage            bool
}

func reversed(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for n := range b {
		out = append(out, b[len(b)-1-n])
	}
	return out
}

func (f *fakePluginV1) Version(context.Context, *v1beta1.VersionRequest, ...grpc.CallOption) (*v1beta1.VersionResponse, error) {
	if f.version != "" {
		return &v1beta1.VersionResponse{Version: f.version}, f.err
	}
	return &v1beta1.VersionResponse{Version: v1beta1Version}, f.err
}

func (f *fakePluginV1) Encrypt(_ context.Context, r *v1beta1.EncryptRequest, _ ...grpc.CallOption) (*v1beta1.EncryptResponse, error) {
	f.encrypts++
	return &v1beta1.EncryptResponse{Cipher: reversed(r.Plain)}, f.err
}

func (f *fakePluginV1) Decrypt(_ context.Context, r *v1beta1.DecryptRequest, _ ...grpc.CallOption) (*v1beta1.DecryptResponse, error) {
	f.decrypts++
	if f.garbage {
		return &v1beta1.DecryptResponse{Plain: bytes.Repeat([]byte("x"), 32)}, f.err
	}
	return &v1beta1.DecryptResponse{Plain: reversed(r.Cipher)}, f.err
}

func newTestKMSV1(f *fakePluginV1, keep int) *kmsV1 {
	clk := testclock.NewFakeClock(time.Now())
	return newKMSV1("plugin", &pluginV1{client: f, timeout: time.Second}, keep, clk, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry(), "server", clk))
}

// TestKMSv1Gate refuses the first version of the plugins' API without its feature gate, as upstream does.
func TestKMSv1Gate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	writeConfig(t, file, "{kms: {name: a, endpoint: 'unix:///none', timeout: 10ms}}")
	for _, gate := range []bool{false, true} {
		e, err := New(t.Context(), Config{File: file, KMSv1: gate, Registry: prometheus.NewRegistry(), Clock: testclock.NewFakeClock(time.Now()), Log: slog.New(slog.DiscardHandler)})
		if !gate {
			if !errors.Is(err, errKMSv1) || !strings.Contains(err.Error(), "--feature-gates=KMSv1=true") {
				t.Errorf("without the gate: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		checks := e.Checks()
		if len(checks) != 1 || checks[0].Name != "kms-provider-0" || checks[0].Test(t.Context()) == nil {
			t.Errorf("checks: %v", checks)
		}
		_ = e.Close()
	}
}

// TestKMSv1 asks the plugin for a key at each write, and when a value is read whose key is not kept.
func TestKMSv1(t *testing.T) {
	at, f := place{key: testKey, resource: "secrets"}, &fakePluginV1{}
	k := newTestKMSV1(f, 10)
	var sealed [][]byte
	for range 3 {
		b, err := k.seal(t.Context(), at, nil, []byte("value"))
		if err != nil {
			t.Fatal(err)
		}
		sealed = append(sealed, b)
	}
	if f.encrypts != 3 || bytes.Equal(sealed[0][:34], sealed[1][:34]) {
		t.Errorf("%d keys for 3 values", f.encrypts)
	}
	reader := newTestKMSV1(f, 10)
	for range 2 {
		for _, b := range sealed {
			if value, stale, err := reader.open(t.Context(), at, b); string(value) != "value" || stale || err != nil {
				t.Fatalf("%q, stale %v, %v", value, stale, err)
			}
		}
	}
	if f.decrypts != 3 {
		t.Errorf("the plugin was asked %d times for 3 keys", f.decrypts)
	}
	if filled := testutil.ToFloat64(reader.metrics.keysFilled); filled != 0.3 {
		t.Errorf("3 keys in 10 places: %v", filled)
	}
	nothingKept := newTestKMSV1(f, -1)
	for range 2 {
		if _, _, err := nothingKept.open(t.Context(), at, sealed[0]); err != nil {
			t.Fatal(err)
		}
	}
	if f.decrypts != 5 {
		t.Errorf("asked %d times, though no key is to be kept", f.decrypts)
	}

	// Servers before 1.25 wrote with AES-CBC.
	key := bytes.Repeat([]byte{7}, 32)
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	former, err := aesCBC{block}.seal(t.Context(), at, append([]byte{0, 32}, key...), []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	if value, stale, err := k.open(t.Context(), at, former); string(value) != "value" || !stale || err != nil {
		t.Errorf("a value of AES-CBC: %q, stale %v, %v", value, stale, err)
	}
	for _, short := range []string{"", "a", "\x00\x20key"} {
		if _, _, err := k.open(t.Context(), at, []byte(short)); !errors.Is(err, errTruncated) {
			t.Errorf("%q: %v", short, err)
		}
	}
}

// TestKMSv1IsNotWell has a plugin fail in several ways: nothing is written, and the check says so.
func TestKMSv1IsNotWell(t *testing.T) {
	for want, f := range map[string]*fakePluginV1{
		"away": {err: errors.New("away")}, "version v9 is not supported": {version: "v9"}, errGarbage.Error(): {garbage: true},
	} {
		k := newTestKMSV1(f, 10)
		if err := k.check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if _, err := k.seal(t.Context(), place{key: testKey}, nil, []byte("value")); err == nil && !f.garbage {
			t.Errorf("%s: a value was written", want)
		}
	}
}
