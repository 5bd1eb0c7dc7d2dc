package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// newKey creates a key of the kind used throughout: ECDSA on P-256. This takes microseconds, RSA tenths of a second.
func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// ensureKey loads a private key, or creates it if there is no file. A file that does not parse is an error: replacing a
// key silently would lock out everyone who trusts the old one.
func ensureKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(path)
	}
	if err != nil {
		return nil, err
	}
	key, err := ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("read private key %s: %w", path, err)
	}
	return key, nil
}

func createKey(path string) (crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(path, data, fileMode)
}

// encodeKey encodes a private key in PEM. An ECDSA key is in the form of SEC 1: in PKCS #8, kube-apiserver does not read its
// public half (--service-account-key-file).
func encodeKey(key crypto.Signer) ([]byte, error) {
	if ec, ok := key.(*ecdsa.PrivateKey); ok {
		der, err := x509.MarshalECPrivateKey(ec)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// ParsePrivateKey returns the first private key in PEM data: RSA or ECDSA, in
// any of the usual encodings.
func ParsePrivateKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key, err := privateKeyIn(block)
		if err != nil {
			return nil, err
		}
		if key != nil {
			return key, nil
		}
	}
	return nil, errors.New("no private key in PEM data")
}

// ParsePublicKeys returns every public key in PEM data: public keys,
// certificates' keys, and the public halves of private keys.
func ParsePublicKeys(data []byte) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		private, err := privateKeyIn(block)
		if err != nil {
			return nil, err
		}
		if private != nil {
			keys = append(keys, private.Public())
			continue
		}
		public, err := publicKeyIn(block)
		if err != nil {
			return nil, err
		}
		if public != nil {
			keys = append(keys, public)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no public key in PEM data")
	}
	return keys, nil
}

// errEncrypted says what to do about a key that needs a passphrase, which nobody types when a server starts.
var errEncrypted = errors.New("the key is encrypted with a passphrase; 'openssl pkey -in OLD -out NEW' writes it without one")

// isEncrypted tells the two forms of encrypted keys: PKCS #8, and a header of PEM's own.
func isEncrypted(block *pem.Block) bool {
	return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
}

// privateKeyIn returns nil for blocks of other types.
func privateKeyIn(block *pem.Block) (crypto.Signer, error) {
	if isEncrypted(block) {
		return nil, errEncrypted
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	return signer, nil
}

func publicKeyIn(block *pem.Block) (crypto.PublicKey, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	}
	return nil, nil
}
