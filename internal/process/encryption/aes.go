package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"slices"
)

var (
	errShort   = errors.New("the stored data was shorter than the required size")
	errBlocks  = errors.New("the stored data is not a multiple of the block size")
	errPadded  = errors.New("invalid PKCS7 data (empty or not padded)")
	errPadding = errors.New("invalid padding on input")
)

// fill fills b with random bytes.
func fill(b []byte) {
	_, _ = rand.Read(b) // never fails
}

// aesCBC is AES in CBC mode with PKCS#7 padding: initialization vector, then blocks. It detects neither changes nor moves.
type aesCBC struct{ block cipher.Block }

func (c aesCBC) seal(_ context.Context, _ place, dst, value []byte) ([]byte, error) {
	padding := aes.BlockSize - len(value)%aes.BlockSize
	start := len(dst)
	dst = slices.Grow(dst, aes.BlockSize+len(value)+padding)[:start+aes.BlockSize]
	iv := dst[start:]
	fill(iv)
	dst = append(dst, value...)
	dst = append(dst, bytes.Repeat([]byte{byte(padding)}, padding)...)
	blocks := dst[start+aes.BlockSize:]
	cipher.NewCBCEncrypter(c.block, iv).CryptBlocks(blocks, blocks)
	return dst, nil
}

func (c aesCBC) open(_ context.Context, _ place, data []byte) ([]byte, bool, error) {
	if len(data) < aes.BlockSize {
		return nil, false, errShort
	}
	iv, blocks := data[:aes.BlockSize], data[aes.BlockSize:]
	if len(blocks)%aes.BlockSize != 0 {
		return nil, false, errBlocks
	}
	if len(blocks) == 0 {
		return nil, false, errPadded
	}
	out := make([]byte, len(blocks))
	cipher.NewCBCDecrypter(c.block, iv).CryptBlocks(out, blocks)
	padding := int(out[len(out)-1])
	if padding == 0 || padding > len(out) {
		return nil, false, errPadded
	}
	end := len(out) - padding
	for _, b := range out[end:] {
		if int(b) != padding {
			return nil, false, errPadding
		}
	}
	return out[:end], false, nil
}

// aesGCM is AES in GCM mode: a random nonce, then the ciphertext, which is bound to the key in etcd.
type aesGCM struct{ aead cipher.AEAD }

func newGCM(key []byte) (aesGCM, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return aesGCM{}, err
	}
	aead, err := cipher.NewGCM(block)
	return aesGCM{aead}, err
}

// sealed is the size of a value of n bytes when it is sealed.
func (g aesGCM) sealed(n int) int { return g.aead.NonceSize() + n + g.aead.Overhead() }

func (g aesGCM) seal(_ context.Context, at place, dst, value []byte) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, g.sealed(len(value)))[:start+g.aead.NonceSize()]
	nonce := dst[start:]
	fill(nonce)
	return g.aead.Seal(dst, nonce, value, []byte(at.key)), nil
}

func (g aesGCM) open(_ context.Context, at place, data []byte) ([]byte, bool, error) {
	n := g.aead.NonceSize()
	if len(data) < n {
		return nil, false, errShort
	}
	value, err := g.aead.Open(nil, data[:n], data[n:], []byte(at.key))
	return value, false, err
}
