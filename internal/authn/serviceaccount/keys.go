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

	"github.com/kanzen-io/kanzen/internal/pki"
)

// algorithms are the signatures that tokens may carry.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// KeySource is where the keys that tokens are verified with come from.
type KeySource interface {
	// Current are the keys as of now.
	Current() *Keys
	// Find are the keys as of now, after having looked for new ones if none of
	// them has the ID.
	Find(ctx context.Context, id string) *Keys
}

// Keys are the public keys that tokens are verified with. They do not change.
type Keys struct {
	all       []jose.JSONWebKey
	byID      map[string][]jose.JSONWebKey
	published []jose.JSONWebKey
	// age is how long others may keep the published ones, in seconds.
	age int
}

// Key is a public key with its ID.
type Key struct {
	ID     string
	Public any
	// Unpublished keys verify tokens of before and sign none.
	Unpublished bool
}

// NewKeySet makes a set of keys that came with IDs and may be kept by others
// for some seconds.
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

// Current is part of KeySource: keys that were read once stay.
func (k *Keys) Current() *Keys { return k }

// Find is part of KeySource.
func (k *Keys) Find(context.Context, string) *Keys { return k }

// Publishes says whether others are told of a key.
func (k *Keys) Publishes(id string) bool {
	return slices.ContainsFunc(k.published, func(web jose.JSONWebKey) bool { return web.KeyID == id })
}

// Knows says whether there is a key of an ID.
func (k *Keys) Knows(id string) bool { return len(k.candidates(id)) > 0 }

// NewKeys makes a set of public keys (or private ones, for their public halves).
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
