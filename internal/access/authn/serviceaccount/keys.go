package serviceaccount

import (
	"context"
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
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// algorithms are the accepted signature algorithms.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// KeySource returns the keys that verify tokens.
type KeySource interface {
	// Current returns the current keys.
	Current() *Keys
	// Find returns the current keys. If none has the ID, it first looks for new ones.
	Find(ctx context.Context, id string) *Keys
}

// Keys are the public keys that verify tokens. They are immutable.
type Keys struct {
	all       []jose.JSONWebKey
	byID      map[string][]jose.JSONWebKey
	published []jose.JSONWebKey
	// age is how long others may cache the published keys, in seconds.
	age int
}

// Key is a public key with its ID.
type Key struct {
	ID     string
	Public any
	// Unpublished keys verify existing tokens and sign no new ones.
	Unpublished bool
}

// NewKeySet creates a set of keys with given IDs, which others may cache for age seconds.
func NewKeySet(age int, keys ...Key) (*Keys, error) {
	k := &Keys{byID: map[string][]jose.JSONWebKey{}, age: age}
	for _, key := range keys {
		algorithm, err := algorithmFor(key.Public)
		if err != nil {
			return nil, err
		}
		k.add(jose.JSONWebKey{Key: key.Public, KeyID: key.ID, Algorithm: string(algorithm), Use: "sig"}, !key.Unpublished)
	}
	if len(k.all) == 0 {
		return nil, errNoKeys
	}
	return k, nil
}

var errNoKeys = errors.New("no keys to verify service account tokens with")

func (k *Keys) add(web jose.JSONWebKey, published bool) {
	k.all = append(k.all, web)
	k.byID[web.KeyID] = append(k.byID[web.KeyID], web)
	if published {
		k.published = append(k.published, web)
	}
}

// Current is part of KeySource. The keys never change.
func (k *Keys) Current() *Keys { return k }

// Find is part of KeySource.
func (k *Keys) Find(context.Context, string) *Keys { return k }

// Publishes reports whether the key with the ID is published.
func (k *Keys) Publishes(id string) bool {
	return slices.ContainsFunc(k.published, func(web jose.JSONWebKey) bool { return web.KeyID == id })
}

// Knows reports whether there is a key with the ID.
func (k *Keys) Knows(id string) bool { return len(k.candidates(id)) > 0 }

// NewKeys creates a set of public keys (or of private ones, for their public halves).
func NewKeys(keys ...any) (*Keys, error) {
	k := &Keys{byID: map[string][]jose.JSONWebKey{}, age: metadataAge}
	for _, key := range keys {
		if private, ok := key.(crypto.Signer); ok {
			key = private.Public()
		}
		web, err := webKey(key)
		if err != nil {
			return nil, err
		}
		k.add(web, true)
	}
	if len(k.all) == 0 {
		return nil, errNoKeys
	}
	return k, nil
}

// LoadKeys reads keys from PEM files.
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

// candidates returns the keys that may have signed a token: those with its key ID, or all if it has none.
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

// keyID returns a hash of a key as its ID: the same key has the same ID everywhere, and the ID does not reveal the key.
func keyID(public any) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
