package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

func key(n int) *transfer.Key {
	name := fmt.Sprintf("c%06d", n)
	return &transfer.Key{KeyValue: kv.KeyValue{
		Key: []byte("configmaps/default/" + name), Value: fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"default"}}`, name),
		CreateRevision: int64(1 + n%7), ModRevision: int64(10 + n%7), Version: 3}, Seconds: int64(n % 2 * 100)}
}

func stream(t testing.TB, keys int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := transfer.NewWriter(&b, transfer.Head{Revision: 20, Keys: map[string][]byte{"sa.key": []byte("k")}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range keys {
		if err := w.Put(key(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte) (keys []*transfer.Key, err error) {
	r, err := transfer.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for {
		k, err := r.Next()
		if err != nil || k == nil {
			return keys, err
		}
		keys = append(keys, k)
	}
}

func TestStream(t *testing.T) {
	whole := stream(t, 9)
	keys, err := read(whole)
	if err != nil || len(keys) != 9 {
		t.Fatal(len(keys), err)
	}
	for n, k := range keys {
		if fmt.Sprint(k) != fmt.Sprint(key(n)) {
			t.Errorf("%d became %v", n, k)
		}
	}
	for n := range whole {
		if _, err := read(whole[:n]); !errors.Is(err, transfer.ErrStream) {
			t.Errorf("cut off at %d: %v", n, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(stream(f, 0))
	f.Add(stream(f, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := read(b)
		if err != nil && !errors.Is(err, transfer.ErrStream) {
			t.Error(err)
		}
		for n := range keys {
			if n > 0 && string(keys[n-1].Key) >= string(keys[n].Key) {
				t.Errorf("%q comes after %q", keys[n].Key, keys[n-1].Key)
			}
		}
	})
}

var kinds = snapshot.NewKinds("/registry", builtin.Resources(builtin.Deps{}), func(schema.GroupResource) store.Transformer { return encryption.None{} })

// A file has what the stream had, in kube-apiserver's places, and becomes a stream of the same objects.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := transfer.Save(t.Context(), bytes.NewReader(stream(t, 9)), file, time.Now()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != snapshot.FileMode {
		t.Error(info.Mode(), err)
	}
	f, err := snapshot.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Revision != 20 || f.Compacted != 20 || len(f.Entries) != 9 || f.Entries[0].Key != "/registry/configmaps/default/c000000" {
		t.Errorf("%d %d %+v", f.Revision, f.Compacted, f.Entries)
	}
	ends := 0
	if err := f.Records(t.Context(), kv.Reading{}, func(r *kv.Record) error {
		if r.Ends != 0 {
			ends++
		}
		return nil
	}); err != nil || ends != 4 {
		t.Errorf("%d keys end: %v", ends, err)
	}
	var again bytes.Buffer
	sent, err := transfer.Send(t.Context(), f, kinds, "/registry", nil, &again)
	if err != nil || sent.Objects != 9 || sent.Left != 0 {
		t.Fatal(sent, err)
	}
	keys, err := read(again.Bytes())
	if err != nil || len(keys) != 9 {
		t.Fatal(len(keys), err)
	}
	for n, k := range keys {
		if string(k.Key) != string(key(n).Key) || string(k.Value) != string(key(n).Value) || k.ModRevision != key(n).ModRevision {
			t.Errorf("%d became %v", n, k)
		}
	}
	// Nothing is left of a file that could not be made.
	broken := filepath.Join(t.TempDir(), "g")
	if err := transfer.Save(t.Context(), bytes.NewReader(stream(t, 9)[:400]), broken, time.Now()); !errors.Is(err, transfer.ErrStream) {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(broken)); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// What servers keep of themselves, and other prefixes, are left out; what is not what it says it is, is an error.
func TestSend(t *testing.T) {
	at := func(keys map[string]string) (transfer.Sent, error) {
		var b bytes.Buffer
		w, err := transfer.NewWriter(&b, transfer.Head{Revision: 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if err := w.Put(&transfer.Key{KeyValue: kv.KeyValue{Key: []byte(k), Value: []byte(keys[k]), CreateRevision: 1, ModRevision: 2, Version: 1}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "f")
		if err := transfer.Save(t.Context(), &b, file, time.Now()); err != nil {
			t.Fatal(err)
		}
		f, err := snapshot.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return transfer.Send(t.Context(), f, kinds, "registry/", nil, io.Discard)
	}
	good := string(key(1).Value)
	sent, err := at(map[string]string{"configmaps/default/c000001": good, "masterleases/10.0.0.1": "x", "peerserverleases/y": "x", "ranges/serviceips": "x",
		"leases/kube-system/apiserver-abc": "x", "compact_rev_key": "7", "configmaps/default/x\x00": "x"})
	if err != nil || sent.Objects != 1 || sent.Left != 6 {
		t.Errorf("%+v %v", sent, err)
	}
	for value, want := range map[string]string{"garbage": "configmaps default/c000001", "k8s:enc:aescbc:v1:k:xxxxxxxxxxxxxxx": "decrypt", strings.Replace(good, "c000001", "other", 1): "it says that it is"} {
		if _, err := at(map[string]string{"configmaps/default/c000001": value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if _, err := at(map[string]string{"masterleases/10.0.0.1": "x"}); err == nil || !strings.Contains(err.Error(), "--etcd-prefix") {
		t.Error(err)
	}
}
