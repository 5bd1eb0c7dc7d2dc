//go:build !pkcs11

package kms

import "errors"

// OpenToken opens the keys in a PKCS#11 token. This build has no PKCS#11, which needs C.
func OpenToken(TokenConfig) (*Token, error) {
	return nil, errors.New("this program was built without PKCS#11: build it with -tags pkcs11 (and CGO_ENABLED=1)")
}

// Token are keys in a PKCS#11 token.
type Token struct{ Keys }

// Rotate makes a key.
func (*Token) Rotate() (string, error) { return "", errNoKey }

// IDs returns the IDs of the keys.
func (*Token) IDs() ([]string, error) { return nil, errNoKey }

// Remove removes a key.
func (*Token) Remove(string) error { return errNoKey }

// Close closes the token.
func (*Token) Close() error { return nil }
