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
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/test/standin"
)

// key is a key of a size, different for each name.
func key(name string, size int) string {
	return fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, size)[:size])))
}

func config(entries ...string) string {
	return "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n" + strings.Join(entries, "\n") + "\n"
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func own(t *testing.T, file string, reload bool) (*encryption.Encryption, error) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	e, err := encryption.New(t.Context(), encryption.Config{File: file, Reload: reload, Server: "test", Registry: prometheus.NewRegistry(),
		Clock: clock.RealClock{}, Guard: guard.New(log, clock.RealClock{}, nil), Log: log})
	if err == nil {
		t.Cleanup(func() { _ = e.Close() })
	}
	return e, err
}

// pair is a configuration in force here and upstream.
type pair struct {
	own  *encryption.Encryption
	peer encryptionconfig.StaticTransformers
}

func load(t *testing.T, text string) pair {
	t.Helper()
	file := write(t, text)
	e, err := own(t, file, false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "test")
	if err != nil {
		t.Fatal(err)
	}
	return pair{e, encryptionconfig.StaticTransformers(c.Transformers)}
}

// judged is one side's transformer.
type judged interface {
	seal(t *testing.T, key string, value []byte) []byte
	open(key string, stored []byte) ([]byte, bool, error)
}

type ours struct{ store.Transformer }

func (o ours) seal(t *testing.T, key string, value []byte) []byte {
	t.Helper()
	out, err := o.ToStorage(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (o ours) open(key string, stored []byte) ([]byte, bool, error) {
	return o.FromStorage(context.Background(), key, stored)
}

type theirs struct{ value.Transformer }

func (o theirs) seal(t *testing.T, key string, v []byte) []byte {
	t.Helper()
	out, err := o.TransformToStorage(t.Context(), v, value.DefaultContext(key))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// open answers a panic with an error: kube-apiserver panics for an aescbc value that is no more than its first block.
func (o theirs) open(key string, stored []byte) (_ []byte, _ bool, err error) {
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	return o.TransformFromStorage(context.Background(), stored, value.DefaultContext(key))
}

func (p pair) of(resource string) map[string]judged {
	gr := schema.ParseGroupResource(resource)
	return map[string]judged{"kanzen": ours{p.own.Transformer(gr)}, "kube-apiserver": theirs{p.peer.TransformerForResource(gr)}}
}

var errPanic = errors.New("kube-apiserver panics")

const at = "/registry/secrets/default/a"

// TestEachReadsTheOther has each side read what both have written, with every provider.
func TestEachReadsTheOther(t *testing.T) {
	kms := standin.StartKMS(t, "key-1")
	p := load(t, config(
		"- {resources: [a], providers: [{aescbc: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [b], providers: [{aesgcm: {keys: ["+key("k1", 16)+"]}}]}",
		"- {resources: [c], providers: [{secretbox: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [d], providers: [{kms: {apiVersion: v2, name: plugin, endpoint: "+kms.Endpoint+"}}]}",
		"- {resources: [e], providers: [{identity: {}}]}",
		"- {resources: ['*.apps'], providers: [{aescbc: {keys: ["+key("k2", 24)+"]}}]}",
		"- {resources: ['*.*'], providers: [{aesgcm: {keys: ["+key("k3", 32)+"]}}]}",
	))
	for resource, prefix := range map[string]string{"a": "k8s:enc:aescbc:v1:k1:", "b": "k8s:enc:aesgcm:v1:k1:", "c": "k8s:enc:secretbox:v1:k1:",
		"d": "k8s:enc:kms:v2:plugin:", "e": "k8s\x00", "deployments.apps": "k8s:enc:aescbc:v1:k2:", "pods": "k8s:enc:aesgcm:v1:k3:", "boxes.example.com": "k8s:enc:aesgcm:v1:k3:"} {
		sides := p.of(resource)
		for writer, w := range sides {
			for _, size := range []int{0, 1, 15, 16, 17, 6000} {
				want := append([]byte("k8s\x00"), bytes.Repeat([]byte{7}, size)...)
				stored := w.seal(t, at, want)
				if !bytes.HasPrefix(stored, []byte(prefix)) {
					t.Fatalf("%s writes %s as %.40q", writer, resource, stored)
				}
				for reader, r := range sides {
					got, _, err := r.open(at, stored)
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s reads %d bytes of %s that %s wrote: %v", reader, size, resource, writer, err)
					}
				}
			}
		}
	}
}

// TestStale has both sides judge values of former keys and providers.
func TestStale(t *testing.T) {
	kms := standin.StartKMS(t, "key-1")
	plugin := "{kms: {apiVersion: v2, name: plugin, endpoint: " + kms.Endpoint + "}}"
	before := load(t, config(
		"- {resources: [a], providers: [{aescbc: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [b], providers: [{identity: {}}]}",
		"- {resources: [c], providers: ["+plugin+"]}",
		"- {resources: [d], providers: [{aesgcm: {keys: ["+key("k1", 32)+"]}}]}"))
	kms.Rotate("key-2")
	after := load(t, config(
		"- {resources: [a], providers: [{aescbc: {keys: ["+key("k2", 32)+", "+key("k1", 32)+"]}}]}",
		"- {resources: [b], providers: [{secretbox: {keys: ["+key("k1", 32)+"]}}, {identity: {}}]}",
		"- {resources: [c], providers: ["+plugin+"]}",
		// Two providers of one prefix, and the same key name with another secret.
		"- {resources: [d], providers: [{aesgcm: {keys: [{name: k1, secret: "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"}]}}, {aesgcm: {keys: ["+key("k1", 32)+"]}}]}"))
	for _, resource := range []string{"a", "b", "c", "d"} {
		stored := before.of(resource)["kanzen"].seal(t, at, []byte("value"))
		for name, side := range after.of(resource) {
			if got, stale, err := side.open(at, stored); err != nil || !stale || string(got) != "value" {
				t.Errorf("%s reads an old value of %s as %q, stale %v, %v", name, resource, got, stale, err)
			}
			if _, stale, err := side.open(at, side.seal(t, at, []byte("value"))); err != nil || stale {
				t.Errorf("%s reads a new value of %s as stale %v, %v", name, resource, stale, err)
			}
		}
	}
}

// TestErrors has both sides refuse the same stored values in the same words.
func TestErrors(t *testing.T) {
	kms := standin.StartKMS(t, "key-1")
	p := load(t, config(
		"- {resources: [a], providers: [{aescbc: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [b], providers: [{aesgcm: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [c], providers: [{secretbox: {keys: ["+key("k1", 32)+"]}}]}",
		"- {resources: [d], providers: [{kms: {apiVersion: v2, name: plugin, endpoint: "+kms.Endpoint+"}}]}"))
	for _, resource := range []string{"a", "b", "c", "d", "e"} {
		sides := p.of(resource)
		good := sides["kube-apiserver"].seal(t, at, []byte("value of some length"))
		values := [][]byte{nil, []byte("k8s\x00"), []byte("k8s:enc:"), []byte("k8s:enc:aescbc:v1:k9:xxxxx"), []byte("k8s:enc:aesgcm:v1:k1:x"), []byte("k8s:enc:kms:v2:plugin:x"), []byte("k8s:enc:aescbc:v1:k1:0123456789abcdef")}
		for n := range good {
			values = append(values, good[:n], flipped(good, n))
		}
		for _, stored := range values {
			got, _, err := sides["kanzen"].open(at, stored)
			want, _, werr := sides["kube-apiserver"].open(at, stored)
			if !bytes.Equal(got, want) || !same(err, werr) {
				t.Errorf("%s: %.60q\nis   %q, %v\nwant %q, %v", resource, stored, got, err, want, werr)
			}
		}
	}
}

// same says that errors are the same; the words of protobuf's parsers and of the plugin's calls are their own.
func same(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	if errors.Is(b, errPanic) {
		return true
	}
	one, other := a.Error(), b.Error()
	parser := func(s string) bool {
		return strings.Contains(s, "proto:") || strings.Contains(s, "EOF") || strings.Contains(s, "parse") || strings.Contains(s, "cannot") || strings.Contains(s, "DNS")
	}
	return one == other || parser(one) || parser(other)
}

func flipped(b []byte, n int) []byte {
	out := bytes.Clone(b)
	out[n] ^= 1
	return out
}

// TestConfigurations has both sides refuse the same configurations in the same words.
func TestConfigurations(t *testing.T) {
	good := "{identity: {}}"
	entry := func(resources, providers string) string {
		return "- {resources: [" + resources + "], providers: [" + providers + "]}"
	}
	kms := func(more string) string { return entry("secrets", "{kms: {"+more+"}}") }
	_, err := own(t, "no-such-file", false)
	if _, want := encryptionconfig.LoadEncryptionConfig(t.Context(), "no-such-file", false, "test"); fmt.Sprint(err) != fmt.Sprint(want) {
		t.Errorf("no file: %v, want %v", err, want)
	}
	for name, text := range map[string]string{
		"empty":          "",
		"no kind":        "a: b",
		"unknown field":  config(entry("secrets", good)) + "more: 1\n",
		"twice":          config(entry("secrets", good)) + "kind: EncryptionConfiguration\n",
		"nothing":        config(),
		"no resources":   config(entry("", good)),
		"no providers":   config(entry("secrets", "")),
		"empty provider": config(entry("secrets", "{}")),
		"capital":        config(entry("Secrets", good)),
		"star":           config(entry("'*'", good)),
		"allocations":    config(entry("serviceipallocations, servicenodeportallocations, apiserveripinfo", good)),
		"events":         config(entry("events.events.k8s.io, '*.events.k8s.io'", good)),
		"extensions":     config(entry("ingresses.extensions", good)),
		"across":         config(entry("'pods.*'", good)),
		"overlap":        config(entry("secrets, '*.'", good)),
		"overlap all":    config(entry("secrets, '*.*'", good)),
		"duplicate":      config(entry("secrets, secrets", good)),
		"duplicate star": config(entry("'*.apps', '*.apps'", good)),
		"masked":         config(entry("'*.'", good), entry("secrets", good)),
		"masked all":     config(entry("'*.*'", good), entry("deployments.apps", good)),
		"not masked":     config(entry("secrets", good), entry("'*.'", good), entry("secrets.apps", good), entry("'*.*'", good)),
		"no keys":        config(entry("secrets", "{aescbc: {keys: []}}, {aesgcm: {}}, {secretbox: {}}")),
		"bad keys":       config(entry("secrets", "{aescbc: {keys: [{}, {name: a, secret: '!'}, {name: b, secret: YQ==}]}}, {secretbox: {keys: ["+key("a", 16)+"]}}")),
		"kms nothing":    config(kms("")),
		"kms v1":         config(kms("name: a, endpoint: 'unix:///a', cachesize: 0")),
		"kms v2":         config(kms("apiVersion: v2, name: 'a:b', endpoint: 'tcp:///a', cachesize: 1, timeout: -1s")),
		"kms v3":         config(kms("apiVersion: v3, name: a, endpoint: '%'")),
		"kms twice":      config(kms("apiVersion: v2, name: a, endpoint: 'unix:///a', timeout: 1ms"), kms("apiVersion: v2, name: a, endpoint: 'unix:///a', timeout: 1ms")),
		"old version":    strings.ReplaceAll(config(entry("secrets", good)), "/v1\n", "/v1beta1\n"),
		"other kind":     "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n",
	} {
		file := write(t, text)
		for _, reload := range []bool{false, true} {
			_, err := own(t, file, reload)
			_, want := encryptionconfig.LoadEncryptionConfig(t.Context(), file, reload, "test")
			if text := fmt.Sprint(err); text != fmt.Sprint(want) {
				t.Errorf("%s (reload %v):\nis   %v\nwant %v", name, reload, text, want)
			}
		}
	}
}
