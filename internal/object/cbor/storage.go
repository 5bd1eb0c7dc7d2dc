package cbor

import (
	"context"

	"github.com/kanzen-io/kanzen/internal/store"
)

// storage is the transformer of custom resources.
type storage struct {
	store.Transformer
	write bool
}

// Storage returns the transformer of custom resources, before next encrypts them: in the server they are JSON, and stored as CBOR with
// write. It reads both in any case, so that the feature gate can be switched off again.
func Storage(next store.Transformer, write bool) store.Transformer { return storage{next, write} }

// ToStorage is part of store.Transformer.
func (s storage) ToStorage(ctx context.Context, key string, value []byte) ([]byte, error) {
	if s.write {
		var err error
		if value, err = transcode(value, encoder.Encode); err != nil {
			return nil, err
		}
	}
	return s.Transformer.ToStorage(ctx, key, value)
}

// FromStorage is part of store.Transformer.
func (s storage) FromStorage(ctx context.Context, key string, stored []byte) ([]byte, bool, error) {
	value, stale, err := s.Transformer.FromStorage(ctx, key, stored)
	if err != nil {
		return nil, stale, err
	}
	is := Is(value)
	if is {
		value, err = ToJSON(value)
		value = append(value, '\n') // the bytes that would be stored as JSON: an update that changes nothing is known by them
	}
	return value, stale || is != s.write, err
}
