package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// saved returns the bytes of a sound snapshot, without the checksum.
func saved(t testing.TB, write func(*bolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, PageSize: 4096})
	if err == nil {
		err = errors.Join(db.Update(write), db.Close())
	}
	data, errRead := os.ReadFile(path)
	if err = errors.Join(err, errRead); err != nil {
		t.Fatal(err)
	}
	return data[:len(data)/4096*4096]
}

// revision is a key of etcd's database.
func revision(main uint64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, main), "_\x00\x00\x00\x00\x00\x00\x00\x00"...)
}

// keysOf writes n keys, as etcd has them.
func keysOf(n int, first uint64) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucket(metaBucket)
		if err == nil {
			err = meta.Put(compactedKey, revision(1))
		}
		b, errKey := tx.CreateBucket(keyBucket)
		if err = errors.Join(err, errKey); err != nil {
			return err
		}
		for i := range n {
			kv := &mvccpb.KeyValue{Key: fmt.Appendf(nil, "/registry/configmaps/default/c%d", i), Value: bytes.Repeat([]byte("x"), 20+i%7*900), ModRevision: int64(first) + int64(i), CreateRevision: int64(first), Version: 1}
			value, err := proto.Marshal(kv)
			if err != nil {
				return err
			}
			if err := b.Put(revision(first+uint64(i)), value); err != nil {
				return err
			}
		}
		return nil
	}
}

// opened opens a database as a snapshot with a right checksum in a directory, and reads all that is in it.
func opened(t testing.TB, dir string, data []byte) error {
	t.Helper()
	sum := sha256.Sum256(data)
	path := filepath.Join(dir, "snapshot.db")
	if err := os.WriteFile(path, append(bytes.Clone(data), sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path)
	if err != nil {
		return err
	}
	defer f.Close()
	var size int
	for _, e := range f.Entries {
		v, err := f.Value(e)
		if err != nil {
			return err
		}
		if size += len(v); size > len(data) {
			t.Fatalf("%d bytes of values are in a file of %d", size, len(data))
		}
	}
	return nil
}

// pageHead and metaSize are the bytes of the head of a page, and of what a meta page has behind it (package dbfile).
const pageHead, metaSize = 16, 64

// sealMeta makes the checksums of the meta pages right.
func sealMeta(data []byte) {
	for at := pageHead; at < 2*4096; at += 4096 {
		h := fnv.New64a()
		_, _ = h.Write(data[at : at+metaSize-8])
		binary.LittleEndian.PutUint64(data[at+metaSize-8:], h.Sum64())
	}
}

// TestForgedPages changes numbers in the pages of a snapshot, so that they lead elsewhere. The snapshot is refused, or read,
// and nothing crashes or goes on for ever.
func TestForgedPages(t *testing.T) {
	sound, dir := saved(t, keysOf(60, 5)), t.TempDir()
	if err := opened(t, dir, sound); err != nil {
		t.Fatalf("a sound one: %v", err)
	}
	count := len(sound) / 4096
	refused := 0
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 3))
		data := bytes.Clone(sound)
		for range 1 + r.IntN(3) {
			page := data[r.IntN(count)*4096:][:4096]
			number := []uint64{0, 1, 2, uint64(r.IntN(count)), uint64(count), uint64(r.IntN(4096)), 1 << 16, 1<<31 - 1, 1<<32 - 1, 1 << 40, 1<<63 - 1, 1<<64 - 1}[r.IntN(12)]
			switch r.IntN(4) {
			case 0: // a field of the head
				switch r.IntN(4) {
				case 0:
					binary.LittleEndian.PutUint64(page, number)
				case 1:
					binary.LittleEndian.PutUint16(page[8:], []uint16{1, 2, 4, 16, uint16(number)}[r.IntN(5)])
				case 2:
					binary.LittleEndian.PutUint16(page[10:], uint16(number))
				case 3:
					binary.LittleEndian.PutUint32(page[12:], uint32(number))
				}
			case 1: // of an element, or of a meta page
				binary.LittleEndian.PutUint32(page[pageHead+4*r.IntN(20):], uint32(number))
			case 2:
				binary.LittleEndian.PutUint64(page[pageHead+8*r.IntN(10):], number)
			case 3: // one page in the place of another
				copy(page, data[r.IntN(count)*4096:][:4096])
			}
		}
		sealMeta(data)
		if err := opened(t, dir, data); err != nil {
			refused++
			if !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "\n") {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if refused < 500 {
		t.Errorf("only %d were refused", refused)
	}
}

// FuzzOpen opens arbitrary files with a right checksum.
func FuzzOpen(f *testing.F) {
	f.Add(saved(f, keysOf(3, 5)))
	f.Add(saved(f, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("other")); return err }))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= 2*4096 {
			sealMeta(data)
		}
		_ = opened(t, t.TempDir(), data) // an error, or none
	})
}

// TestForgedContents has sound pages with contents that etcd or this program cannot go on with.
func TestForgedContents(t *testing.T) {
	put := func(key, value []byte) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(keyBucket)
			if err != nil {
				return err
			}
			return b.Put(key, value)
		}
	}
	for name, write := range map[string]func(*bolt.Tx) error{
		"a revision that overflows": keysOf(2, 1<<63-1),
		"a revision near the end":   keysOf(2, 1<<62),
		"a key that is no revision": put([]byte("key"), nil),
		"a long key":                put(append(revision(5), "other"...), nil),
		"a value that is no key":    put(revision(5), []byte("\xff\xff\xff\xff")),
		"a bucket in the bucket": func(tx *bolt.Tx) error {
			b, err := tx.CreateBucket(keyBucket)
			_, err2 := b.CreateBucket(revision(5))
			return errors.Join(err, err2)
		},
		"no bucket": func(*bolt.Tx) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			data := saved(t, write)
			if err := opened(t, t.TempDir(), data); !errors.Is(err, ErrDamaged) {
				t.Errorf("opened: %v", err)
			}
			if name == "no bucket" {
				return // etcd begins with an empty one
			}
			sum, dir := sha256.Sum256(data), t.TempDir()
			path := filepath.Join(dir, "snapshot.db")
			if err := os.WriteFile(path, append(data, sum[:]...), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := RestoreData(t.Context(), path, filepath.Join(dir, "to"), SoleMember(), DefaultBump); !errors.Is(err, ErrDamaged) {
				t.Errorf("restored: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "to")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
}

// TestRevisionIsNotMovedBeyond checks that the sum of revision and bump does not overflow.
func TestRevisionIsNotMovedBeyond(t *testing.T) {
	data := saved(t, keysOf(2, 1<<61))
	sum, dir := sha256.Sum256(data), t.TempDir()
	path := filepath.Join(dir, "snapshot.db")
	if err := os.WriteFile(path, append(data, sum[:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bump := range []uint64{1 << 62, 1 << 63, 1<<64 - 1} {
		if err := RestoreData(t.Context(), path, filepath.Join(dir, "to"), SoleMember(), bump); err == nil || !strings.Contains(err.Error(), "cannot be moved on") {
			t.Errorf("by %d: %v", bump, err)
		}
	}
}

// plain is a Transformer that changes nothing.
type plain struct{}

func (plain) FromStorage(_ context.Context, _ string, data []byte) ([]byte, bool, error) {
	return data, false, nil
}

func (plain) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil }

// TestObjectIsWhatItsKeySays has values that say that they are other objects than their keys. They are selected by their keys,
// and must not lead elsewhere.
func TestObjectIsWhatItsKeySays(t *testing.T) {
	k := NewKinds("/registry", []*engine.Resource(nil), func(schema.GroupResource) store.Transformer { return plain{} })
	object := func(apiVersion, namespace, name string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":"Thing","metadata":{"namespace":%q,"name":%q}}`, apiVersion, namespace, name)
	}
	for key, values := range map[string][]string{
		"/registry/a.test/things/shop/one": {
			object("a.test/v1", "kube-system", "one"), object("a.test/v1", "shop", "other"), object("a.test/v1", "", "one"),
			object("rbac.authorization.k8s.io/v1", "shop", "one"), object("v1", "shop", "one"), object("a.test/v1/../../x", "shop", "one"),
			object("a.test/v1%2f..", "shop", "one"), `[]`, `7`, `null`, `{`, ``, `"x"`, `{"metadata":7}`,
		},
		"/registry/a.test/things/shop/..":  {object("a.test/v1", "shop", "..")},
		"/registry/a.test/things/../one":   {object("a.test/v1", "..", "one")},
		"/registry/a.test/../shop/one":     {object("a.test/v1", "shop", "one")},
		"/registry/a.test/th%2fngs/shop/x": {object("a.test/v1", "shop", "x")},
	} {
		for _, value := range append(values, object("a.test/v1", "shop", "one")) {
			sound := key == "/registry/a.test/things/shop/one" && value == object("a.test/v1", "shop", "one")
			id, builtin, ok := k.place(key)
			if !ok {
				t.Fatal(key)
			}
			u, err := k.decode(t.Context(), Entry{Key: key}, id, builtin, []byte(value))
			if err == nil {
				err = id.check(u)
			}
			if (err == nil) != sound {
				t.Errorf("%s: %s: %v", key, value, err)
			}
		}
	}
}
