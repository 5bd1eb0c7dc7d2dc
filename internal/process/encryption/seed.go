package encryption

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"slices"
)

const (
	seedSize = 32 // at least
	infoSize = 32
)

// seed makes an AES-GCM key for each value: HKDF (SHA-256, expand only) of the seed and 32 random bytes, which precede
// the ciphertext. So a key is used once, and nonces cannot be used again with it.
type seed []byte

func newSeed(b []byte) (seed, error) {
	if len(b) < seedSize {
		return nil, fmt.Errorf("invalid seed length %d used for key generation", len(b))
	}
	return b, nil
}

// derive makes the key of a value.
func (s seed) derive(info []byte) (aesGCM, error) {
	key, err := hkdf.Expand(sha256.New, s, string(info), 32)
	if err != nil {
		return aesGCM{}, fmt.Errorf("failed to KDF expand seed with info: %w", err)
	}
	return newGCM(key)
}

// sealed is the size of a value of n bytes when it is sealed.
func (seed) sealed(n int) int { return infoSize + 12 + n + 16 }

func (s seed) seal(ctx context.Context, at place, dst, value []byte) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, s.sealed(len(value)))[:start+infoSize]
	fill(dst[start:])
	gcm, err := s.derive(dst[start:])
	if err != nil {
		return nil, err
	}
	return gcm.seal(ctx, at, dst, value)
}

func (s seed) open(ctx context.Context, at place, data []byte) ([]byte, bool, error) {
	if len(data) < infoSize {
		return nil, false, errShort
	}
	gcm, err := s.derive(data[:infoSize])
	if err != nil {
		return nil, false, err
	}
	return gcm.open(ctx, at, data[infoSize:])
}
