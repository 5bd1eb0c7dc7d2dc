package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/kanzen-io/kanzen/internal/store/dbfile"
)

// ErrDamaged says that a file is no snapshot, or not a whole one.
var ErrDamaged = errors.New("the file is no complete snapshot")

// checksum compares a snapshot with the SHA-256 at its end, and returns that.
func checksum(f *os.File) (string, error) {
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return "", fmt.Errorf("%s: it is a directory; name the file of a snapshot", f.Name())
	}
	if err != nil {
		return "", err
	}
	body := info.Size() - sha256.Size
	if body <= 0 || body%512 != 0 { // a database has whole pages
		return "", fmt.Errorf("%s: %w: it has no checksum at its end; it is cut off, or a copy of a data directory's file", f.Name(), ErrDamaged)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, body)); err != nil {
		return "", err
	}
	want := make([]byte, sha256.Size)
	if _, err := f.ReadAt(want, body); err != nil {
		return "", err
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return "", fmt.Errorf("%s: %w: its checksum is wrong", f.Name(), ErrDamaged)
	}
	return hex.EncodeToString(want), nil
}

// maxRevision is the newest revision that a snapshot may have, or be moved on to. etcd counts on from it.
const maxRevision = 1 << 62

// verify compares a snapshot with its checksum and checks its pages and its revisions, so that it can be opened whoever has made
// it. It returns the checksum and the newest revision.
func verify(ctx context.Context, f *os.File) (sum string, newest int64, err error) {
	if sum, err = checksum(f); err != nil {
		return "", 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	err = dbfile.Check(f, info.Size()-sha256.Size, func(bucket, key, value []byte) error {
		if !bytes.Equal(bucket, keyBucket) {
			return ctx.Err()
		}
		if newest, err = revisionOf(key); err != nil {
			return err
		}
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(value, &kv); err != nil {
			return fmt.Errorf("revision %d: %w", newest, err)
		}
		return ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		return "", 0, ctx.Err()
	case err != nil:
		return "", 0, fmt.Errorf("%s: %w: %w", f.Name(), ErrDamaged, err)
	}
	return sum, newest, nil
}

// revisionOf reads a key of etcd's database.
func revisionOf(key []byte) (int64, error) {
	if len(key) != revisionBytes && (len(key) != revisionBytes+1 || key[revisionBytes] != 't') || key[8] != '_' {
		return 0, fmt.Errorf("%q is no revision", key[:min(len(key), revisionBytes+1)])
	}
	revision := binary.BigEndian.Uint64(key)
	if revision > maxRevision {
		return 0, fmt.Errorf("revision %d is beyond what etcd can count on from", revision)
	}
	return int64(revision), nil
}

// File is an open snapshot. Only the keys are in memory; values are read from the file.
type File struct {
	Path string
	// Bytes is the size of the file, SHA256 its checksum.
	Bytes  int64
	SHA256 string
	// Revision is the newest revision in the snapshot, Compacted the oldest whose history it has.
	Revision, Compacted int64
	// Entries are the keys that exist at Revision, in order.
	Entries []Entry

	db *bolt.DB
}

// Entry is a key of a snapshot.
type Entry struct {
	Key         string
	ModRevision int64
	// Bytes is the size of the value.
	Bytes int
	at    []byte // where the database has it
}

// The buckets and keys of etcd's database.
var (
	keyBucket     = []byte("key")
	metaBucket    = []byte("meta")
	compactedKey  = []byte("finishedCompactRev")
	revisionBytes = 17 // main revision, '_', sub revision; a tombstone has one more
)

// Open opens a snapshot and verifies its checksum. It looks at ctx while it reads the keys.
func Open(ctx context.Context, path string) (*File, error) {
	f, err := open(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := f.index(ctx); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

// open opens a verified snapshot, without its keys.
func open(ctx context.Context, path string) (_ *File, err error) {
	raw, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{Path: path}
	f.SHA256, _, err = verify(ctx, raw)
	if err := errors.Join(err, raw.Close()); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	f.Bytes = info.Size()
	if f.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, PreLoadFreelist: true}); err != nil {
		return nil, fmt.Errorf("%s: %w: %v", path, ErrDamaged, err)
	}
	return f, nil
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }

// index reads the history of all keys, in the order of revisions, and keeps each key's last.
func (f *File) index(ctx context.Context) error {
	live := map[string]Entry{}
	err := f.db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(metaBucket); b != nil {
			if v := b.Get(compactedKey); len(v) >= 8 {
				f.Compacted = int64(binary.BigEndian.Uint64(v))
			}
		}
		b := tx.Bucket(keyBucket)
		if b == nil {
			return fmt.Errorf("%s: %w: it is a database, but not etcd's", f.Path, ErrDamaged)
		}
		return b.ForEach(func(at, value []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if len(at) < revisionBytes {
				return fmt.Errorf("%s: %w: a revision has %d bytes", f.Path, ErrDamaged, len(at))
			}
			f.Revision = int64(binary.BigEndian.Uint64(at))
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(value, &kv); err != nil {
				return fmt.Errorf("%s: %w: revision %d: %v", f.Path, ErrDamaged, f.Revision, err)
			}
			key := string(kv.Key)
			if len(at) > revisionBytes { // a tombstone
				delete(live, key)
				return nil
			}
			live[key] = Entry{Key: key, ModRevision: kv.ModRevision, Bytes: len(kv.Value), at: bytes.Clone(at)}
			return nil
		})
	})
	if err != nil {
		return err
	}
	f.Revision = max(f.Revision, f.Compacted) // its last changes may be deletions that were compacted
	f.Entries = make([]Entry, 0, len(live))
	for _, e := range live {
		f.Entries = append(f.Entries, e)
	}
	slices.SortFunc(f.Entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// Value reads the value of a key.
func (f *File) Value(e Entry) (value []byte, err error) {
	err = f.db.View(func(tx *bolt.Tx) error {
		var kv mvccpb.KeyValue
		if err := proto.Unmarshal(tx.Bucket(keyBucket).Get(e.at), &kv); err != nil {
			return fmt.Errorf("%s: %w: %s: %v", f.Path, ErrDamaged, e.Key, err)
		}
		value = kv.Value
		return nil
	})
	return value, err
}
