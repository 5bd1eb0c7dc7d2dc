package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// signer signs metadata.
type signer struct {
	entity *openpgp.Entity
	key    *packet.PrivateKey
	config *packet.Config
	public []byte // the public key, in ASCII armour
}

// readSigner reads a private key. Signatures have the time of the release, or that of the key if it is younger: a key of tomorrow signs
// nothing.
func readSigner(path, passphrase string, created time.Time) (s *signer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the key %s: %w", path, err)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ring, err := openpgp.ReadArmoredKeyRing(f)
	if err != nil {
		return nil, err
	}
	if len(ring) != 1 || ring[0].PrivateKey == nil {
		return nil, errors.New("it is not one private key")
	}
	entity := ring[0]
	if entity.PrivateKey.Encrypted {
		if passphrase == "" {
			return nil, errors.New("it has a passphrase: set SIGNING_PASSPHRASE")
		}
		if err := entity.DecryptPrivateKeys([]byte(passphrase)); err != nil {
			return nil, err
		}
	}
	at := created
	for _, key := range append([]openpgp.Subkey{{PublicKey: entity.PrimaryKey}}, entity.Subkeys...) {
		if key.PublicKey.CreationTime.After(at) {
			at = key.PublicKey.CreationTime
		}
	}
	key, ok := entity.SigningKey(at)
	if !ok || key.PrivateKey == nil {
		return nil, fmt.Errorf("it cannot sign at %s", at.Format(time.DateOnly))
	}
	deterministic := false
	s = &signer{entity: entity, key: key.PrivateKey, config: &packet.Config{Time: func() time.Time { return at }, NonDeterministicSignaturesViaNotation: &deterministic}}
	s.public, err = armoured(openpgp.PublicKeyType, func(out *bytes.Buffer) error { return entity.Serialize(out) })
	return s, err
}

// sign returns a text with its signature in it, and a signature for itself.
func (s *signer) sign(text []byte) (inline, detached []byte, err error) {
	var in bytes.Buffer
	w, err := clearsign.Encode(&in, s.key, s.config)
	if err != nil {
		return nil, nil, err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, nil, err
	}
	in.WriteByte('\n')
	detached, err = armoured(openpgp.SignatureType, func(out *bytes.Buffer) error {
		return openpgp.DetachSign(out, s.entity, bytes.NewReader(text), s.config)
	})
	return in.Bytes(), detached, err
}

func armoured(kind string, write func(out *bytes.Buffer) error) ([]byte, error) {
	var plain, out bytes.Buffer
	if err := write(&plain); err != nil {
		return nil, err
	}
	w, err := armor.Encode(&out, kind, nil)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(plain.Bytes())
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
