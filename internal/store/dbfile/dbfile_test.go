package dbfile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// database makes a database with branches, long values, and buckets with pages and without, and returns its bytes.
func database(t testing.TB, freelist bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: !freelist, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // pages become free
		err = db.Update(func(tx *bolt.Tx) error {
			for _, name := range []string{"key", "meta", "small"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for n := range map[string]int{"key": 2000, "meta": 40, "small": 2}[name] {
					value := bytes.Repeat([]byte{byte(n)}, 10+round*n%90)
					if n%500 == 7 {
						value = bytes.Repeat(value, 400)
					}
					if err := b.Put(fmt.Appendf(nil, "%08d", n), value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// use opens a database, reads all of it and writes to it, as etcd does. A panic is an error.
func use(path string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			if err := b.ForEach(func(_, _ []byte) error { return nil }); err != nil {
				return err
			}
			return b.Put([]byte("00000000new"), bytes.Repeat([]byte{1}, 5000))
		})
	})
}

// TestPagesOfSoundDatabases: what is not damaged is not said to be.
func TestPagesOfSoundDatabases(t *testing.T) {
	for _, freelist := range []bool{true, false} {
		content := database(t, freelist)
		count := map[string]int{}
		err := Check(bytes.NewReader(content), int64(len(content)), func(bucket, _, value []byte) error {
			count[string(bucket)]++
			if len(value) < 10 {
				t.Errorf("a value of %s: %q", bucket, value)
			}
			return nil
		})
		if want := map[string]int{"key": 2000, "meta": 40, "small": 2}; err != nil || !maps.Equal(count, want) {
			t.Errorf("freelist %t: %v, %v", freelist, count, err)
		}
	}
}

// TestDamagedPages flips bits and cuts off bytes at random. What passes the check can be read and written without a panic.
func TestDamagedPages(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "db")
	found, passed := 0, 0
	for _, freelist := range []bool{true, false} {
		sound := database(t, freelist)
		for n := range 400 {
			content := bytes.Clone(sound)
			if n%10 == 0 {
				content = content[:random.IntN(len(content))]
			} else {
				for range 1 + random.IntN(3) {
					// Headers and entries are at the begin of pages: most flips are to meet them.
					at := random.IntN(len(content)/4096)*4096 + random.IntN(200)
					content[at] ^= 1 << random.IntN(8)
				}
			}
			if err := Check(bytes.NewReader(content), int64(len(content)), nil); err != nil {
				found++
				continue
			}
			passed++
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if len(content) == 0 {
				continue
			}
			if err := use(path); err != nil {
				t.Fatalf("round %d, freelist %t: passed the check, then %v", n, freelist, err)
			}
		}
	}
	if found < 100 || passed < 20 {
		t.Errorf("of 800 damages %d were found, %d passed: the test does not test", found, passed)
	}
}

// FuzzPages has the check read anything; it is not to panic or to hang.
func FuzzPages(f *testing.F) {
	content := database(f, true)
	f.Add(content[:8*4096])
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = Check(bytes.NewReader(content), int64(len(content)), nil)
	})
}

func BenchmarkCheckPages(b *testing.B) {
	content := database(b, false)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if err := Check(bytes.NewReader(content), int64(len(content)), nil); err != nil {
			b.Fatal(err)
		}
	}
}
