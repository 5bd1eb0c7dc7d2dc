package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/go-jose/go-jose/v4"

	"github.com/kanzen-io/kanzen/internal/pki"
)

// algorithms are the signatures that tokens may carry.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// Keys are the public keys that tokens are verified with. They do not change.
type Keys struct {
	all  []jose.JSONWebKey
	byID map[string][]jose.JSONWebKey
}

// NewKeys makes a set of public keys (or private ones, for their public halves).
func NewKeys(keys ...any) (*Keys, error) {
	k := &Keys{byID: map[string][]jose.JSONWebKey{}}
	for _, key := range keys {
		if private, ok := key.(crypto.Signer); ok {
			key = private.Public()
		}
		web, err := webKey(key)
		if err != nil {
			return nil, err
		}
		k.all = append(k.all, web)
		k.byID[web.KeyID] = append(k.byID[web.KeyID], web)
	}
	if len(k.all) == 0 {
		return nil, errors.New("no keys to verify service account tokens with")
	}
	return k, nil
}

// LoadKeys reads the keys of PEM files.
func LoadKeys(paths ...string) (*Keys, error) {
	var all []any
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		keys, err := pki.ParsePublicKeys(data)
		if err != nil {
			return nil, fmt.Errorf("read public keys of %s: %w", path, err)
		}
		for _, key := range keys {
			all = append(all, key)
		}
	}
	return NewKeys(all...)
}

// candidates are the keys a token may have been signed with: those of its key
// ID, or all where it names none.
func (k *Keys) candidates(id string) []jose.JSONWebKey {
	if id == "" {
		return k.all
	}
	return k.byID[id]
}

func webKey(public any) (jose.JSONWebKey, error) {
	algorithm, err := algorithmFor(public)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	id, err := keyID(public)
	if err != nil {
		return jose.JSONWebKey{}, err
	}
	return jose.JSONWebKey{Key: public, KeyID: id, Algorithm: string(algorithm), Use: "sig"}, nil
}

func algorithmFor(public any) (jose.SignatureAlgorithm, error) {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("curve %s cannot be used for tokens", key.Curve.Params().Name)
	}
	return "", fmt.Errorf("keys of type %T cannot be used for tokens", public)
}

// keyID names a key by a hash of it: the same key has the same ID everywhere,
// and the key cannot be found from the ID.
func keyID(public any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
