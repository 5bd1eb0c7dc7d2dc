package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/store/etcdfile"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Registry is the prefix of keys in files, which is kube-apiserver's.
const Registry = "/registry/"

// Save makes a snapshot file of a stream: of one moment, without history. The file appears under its name only when it is complete.
func Save(ctx context.Context, from io.Reader, path string, now time.Time) error {
	r, err := NewReader(from)
	if err != nil {
		return err
	}
	return snapshot.Create(path, func(f *os.File) error {
		w, err := etcdfile.Create(f.Name())
		if err != nil {
			return err
		}
		err = r.each(ctx, func(k *Key) error {
			record := kv.Record{KeyValue: k.KeyValue}
			record.Key = append([]byte(Registry), k.Key...)
			if k.Seconds > 0 {
				record.Ends = now.Add(time.Duration(k.Seconds) * time.Second).UnixNano()
			}
			return w.Put(&record)
		})
		if err == nil {
			err = w.Finish(r.Revision, now)
		}
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		return snapshot.AddChecksum(f.Name())
	})
}

// each reads all keys.
func (r *Reader) each(ctx context.Context, f func(*Key) error) error {
	for {
		k, err := r.Next()
		if err := errors.Join(err, ctx.Err()); err != nil || k == nil {
			return err
		}
		if err := f(k); err != nil {
			return err
		}
	}
}

// Sent is what a file has.
type Sent struct {
	// Objects are sent; Left are other keys: what servers keep of themselves.
	Objects, Left int
}

// Send writes the objects of a file below a prefix as a stream, decrypted. It fails if one of them is not what its key says.
func Send(ctx context.Context, file *snapshot.File, kinds *snapshot.Kinds, prefix string, signing map[string][]byte, to io.Writer) (s Sent, err error) {
	w, err := NewWriter(to, Head{Revision: max(1, file.Revision), Keys: signing})
	if err != nil {
		return s, err
	}
	prefix = "/" + strings.Trim(prefix, "/") + "/"
	for _, e := range file.Entries {
		below, ok := strings.CutPrefix(e.Key, prefix)
		if err := ctx.Err(); err != nil {
			return s, err
		}
		id, err := kinds.ID(e.Key)
		if !ok || err != nil || id.Personal() {
			s.Left++
			continue
		}
		value, err := file.Value(e)
		if err != nil {
			return s, err
		}
		if value, err = kinds.Open(ctx, e.Key, value); err != nil {
			return s, fmt.Errorf("%s: %w", file.Path, err)
		}
		k := &Key{KeyValue: kv.KeyValue{Key: []byte(below), Value: value, CreateRevision: e.ModRevision, ModRevision: e.ModRevision, Version: 1}}
		if err := w.Put(k); err != nil {
			return s, err
		}
		s.Objects++
	}
	if s.Objects == 0 {
		return s, fmt.Errorf("%s has no objects below %s; --etcd-prefix names where they are", file.Path, prefix)
	}
	return s, w.End()
}
