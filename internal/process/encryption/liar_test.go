package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// liar is a plugin that answers as it should, or does not, call by call. Its ciphertext names its key, and the seed is reversed.
type liar struct {
	r    *rand.Rand
	id   string
	lies []string // some of which it chooses from; empty: it is honest
}

var errLiar = errors.New("an error of the plugin")

func (l *liar) lie() string {
	if len(l.lies) == 0 || l.r.IntN(3) == 0 {
		return ""
	}
	return l.lies[l.r.IntN(len(l.lies))]
}

// keyID is the ID of the key that a call tells.
func (l *liar) keyID(lie string) string {
	switch lie {
	case "rotates":
		l.id = fmt.Sprint("k", l.r.IntN(1000))
	case "no ID":
		return ""
	case "long ID":
		return strings.Repeat("k", maxKeyID+1+l.r.IntN(1<<20))
	case "another ID":
		return fmt.Sprint("other", l.r.IntN(1000))
	}
	return l.id
}

func (l *liar) Status(ctx context.Context, _ *kmsapi.StatusRequest, _ ...grpc.CallOption) (*kmsapi.StatusResponse, error) {
	lie := l.lie()
	answer := &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: l.keyID(lie)}
	switch lie {
	case "error":
		return nil, errLiar
	case "hangs":
		return nil, context.DeadlineExceeded
	case "empty":
		return &kmsapi.StatusResponse{}, nil
	case "huge":
		answer.Healthz = strings.Repeat("x", 1<<20)
	}
	return answer, nil
}

func (l *liar) Encrypt(ctx context.Context, r *kmsapi.EncryptRequest, _ ...grpc.CallOption) (*kmsapi.EncryptResponse, error) {
	lie := l.lie()
	id := l.keyID(lie)
	answer := &kmsapi.EncryptResponse{KeyId: id, Ciphertext: append([]byte(id+":"), reversed(r.Plaintext)...)}
	switch lie {
	case "error":
		return nil, errLiar
	case "hangs":
		return nil, context.DeadlineExceeded
	case "empty":
		return &kmsapi.EncryptResponse{}, nil
	case "no ciphertext":
		answer.Ciphertext = nil
	case "garbage":
		answer.Ciphertext = answer.Ciphertext[:len(answer.Ciphertext)-l.r.IntN(33)]
	case "huge":
		answer.Ciphertext = bytes.Repeat([]byte("x"), 1<<20)
	case "annotations":
		answer.Annotations = map[string][]byte{"not a name": nil, "a.b": make([]byte, maxAnnotations+1)}
	}
	return answer, nil
}

func (l *liar) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest, _ ...grpc.CallOption) (*kmsapi.DecryptResponse, error) {
	lie := l.lie()
	sealed, ok := bytes.CutPrefix(r.Ciphertext, []byte(r.KeyId+":"))
	switch {
	case lie == "error", !ok:
		return nil, errLiar
	case lie == "hangs":
		return nil, context.DeadlineExceeded
	case lie == "empty":
		return &kmsapi.DecryptResponse{}, nil
	case lie == "garbage":
		return &kmsapi.DecryptResponse{Plaintext: bytes.Repeat([]byte{byte(l.r.IntN(256))}, l.r.IntN(40))}, nil
	case lie == "huge":
		return &kmsapi.DecryptResponse{Plaintext: make([]byte, 1<<20)}, nil
	}
	return &kmsapi.DecryptResponse{Plaintext: reversed(sealed)}, nil
}

// TestPluginLies has a plugin lie in all ways while values are written and read. Whatever was written is read again by a server that
// begins when the plugin is honest, nothing is written in plain, what is read is what was written, and what is kept is bounded.
func TestPluginLies(t *testing.T) {
	all := []string{"error", "hangs", "empty", "rotates", "no ID", "long ID", "another ID", "no ciphertext", "garbage", "huge", "annotations"}
	at := place{key: testKey, resource: "secrets"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := &liar{r: r, id: "k0"}
		k, clk := newTestKMS(t, &fakePlugin{})
		k.plugin.client, k.seeds.plugin = l, k.plugin
		type written struct {
			value  string
			stored []byte
		}
		var values []written
		for step := range 300 {
			if step%50 == 0 {
				l.lies = nil
				for range r.IntN(4) {
					l.lies = append(l.lies, all[r.IntN(len(all))])
				}
			}
			switch r.IntN(3) {
			case 0:
				clk.Step(time.Duration(r.IntN(60)) * time.Second)
				_ = k.check(t.Context()) // it says so if the plugin lies
			case 1:
				value := fmt.Sprintf("the secret value %d", step)
				stored, err := k.seal(t.Context(), at, nil, []byte(value))
				if err != nil {
					continue
				}
				if bytes.Contains(stored, []byte(value)) {
					t.Fatalf("seed %d, step %d: it is stored in plain", seed, step)
				}
				values = append(values, written{value, stored})
			case 2:
				if len(values) == 0 {
					continue
				}
				w := values[r.IntN(len(values))]
				if got, _, err := k.open(t.Context(), at, w.stored); err == nil && string(got) != w.value || err != nil && got != nil {
					t.Fatalf("seed %d, step %d: %q, %v was read of %q", seed, step, got, err, w.value)
				}
			}
		}
		l.lies = nil
		fresh, _ := newTestKMS(t, &fakePlugin{})
		fresh.plugin.client, fresh.seeds.plugin = l, fresh.plugin
		for _, w := range values {
			if got, _, err := fresh.open(t.Context(), at, w.stored); err != nil || string(got) != w.value {
				t.Fatalf("seed %d: %q is lost: %q, %v", seed, w.value, got, err)
			}
		}
		if len(values) == 0 && seed == 0 {
			t.Error("nothing was written")
		}
	}
}

// TestPluginRotatesForEver has a plugin name another key in every answer. What is kept about keys is bounded.
func TestPluginRotatesForEver(t *testing.T) {
	l := &liar{r: rand.New(rand.NewPCG(1, 1)), id: "k"}
	k, clk := newTestKMS(t, &fakePlugin{})
	k.plugin.client, k.seeds.plugin = l, k.plugin
	for n := range 1000 {
		l.id = fmt.Sprint("key", n)
		clk.Step(resultWell)
		if err := k.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := k.seal(t.Context(), place{key: testKey, resource: "secrets"}, nil, []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	for name, n := range map[string]int{"told": testutil.CollectAndCount(k.metrics.keyIDStatus), "used": testutil.CollectAndCount(k.metrics.keyIDTotal)} {
		if n > 200 {
			t.Errorf("%s: %d series", name, n)
		}
	}
}
