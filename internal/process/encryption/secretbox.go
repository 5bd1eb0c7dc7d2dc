package encryption

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/crypto/nacl/secretbox"
)

const secretboxNonce = 24

// errSecretbox is the error of data that was changed, in upstream's words.
var errSecretbox = errors.New("output array was not large enough for encryption")

// secretBox is XSalsa20 and Poly1305: a random nonce, then the box. It detects changes, but not moves to another key.
type secretBox struct{ key [32]byte }

func (s *secretBox) seal(_ context.Context, _ place, dst, value []byte) ([]byte, error) {
	var nonce [secretboxNonce]byte
	fill(nonce[:])
	dst = slices.Grow(dst, len(nonce)+len(value)+secretbox.Overhead)
	return secretbox.Seal(append(dst, nonce[:]...), value, &nonce, &s.key), nil
}

func (s *secretBox) open(_ context.Context, _ place, data []byte) ([]byte, bool, error) {
	if len(data) < secretboxNonce+secretbox.Overhead {
		return nil, false, errShort
	}
	nonce := [secretboxNonce]byte(data)
	box := data[secretboxNonce:]
	value, ok := secretbox.Open(make([]byte, 0, len(box)-secretbox.Overhead), box, &nonce, &s.key)
	if !ok {
		return nil, false, errSecretbox
	}
	return value, false, nil
}
