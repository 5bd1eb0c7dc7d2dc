//go:build pkcs11

package kms

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/pkcs11"
)

// Token are AES keys in a PKCS#11 token, which never leave it. Their labels are their IDs, and sort by the time of their
// making.
type Token struct {
	config TokenConfig
	module *pkcs11.Ctx

	mu      sync.Mutex // held while the session is in use: PKCS#11 has one operation at a time in a session
	session pkcs11.SessionHandle
	open    bool
}

// OpenToken opens the keys in a PKCS#11 token.
func OpenToken(c TokenConfig) (*Token, error) {
	t := &Token{config: c, module: pkcs11.New(c.Module)}
	if t.module == nil {
		return nil, fmt.Errorf("load PKCS#11 module %s", c.Module)
	}
	if err := t.module.Initialize(); err != nil {
		return nil, fmt.Errorf("initialize %s: %w", c.Module, err)
	}
	if err := t.use(func() error { return nil }); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close closes the token.
func (t *Token) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leave()
	err := t.module.Finalize()
	t.module.Destroy()
	return err
}

func (t *Token) leave() {
	if t.open {
		_ = t.module.CloseSession(t.session) // it may be gone
		t.open = false
	}
}

// use calls f with an open session. After a failure that may be due to the session, it tries once more with another one.
func (t *Token) use(f func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.open
	err := t.once(f)
	if had && err != nil && !errors.Is(err, errNoKey) {
		t.leave()
		err = t.once(f)
	}
	return err
}

func (t *Token) once(f func() error) error {
	if !t.open {
		if err := t.enter(); err != nil {
			return fmt.Errorf("open token %q: %w", t.config.Label, err)
		}
	}
	return f()
}

// enter opens a session with the token of the label.
func (t *Token) enter() error {
	slots, err := t.module.GetSlotList(true)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		info, err := t.module.GetTokenInfo(slot)
		if err != nil || strings.TrimRight(info.Label, " \x00") != t.config.Label {
			continue
		}
		if t.session, err = t.module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION); err != nil {
			return err
		}
		t.open = true
		err = t.module.Login(t.session, pkcs11.CKU_USER, t.config.PIN)
		if err != nil && !errors.Is(err, pkcs11.Error(pkcs11.CKR_USER_ALREADY_LOGGED_IN)) {
			t.leave()
			return err
		}
		return nil
	}
	return errors.New("there is no such token")
}

// maxKeys bounds how many keys are looked at.
const maxKeys = 1000

// find returns the keys with attributes.
func (t *Token) find(with ...*pkcs11.Attribute) ([]pkcs11.ObjectHandle, error) {
	with = append(with, pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY))
	if err := t.module.FindObjectsInit(t.session, with); err != nil {
		return nil, err
	}
	found, _, err := t.module.FindObjects(t.session, maxKeys)
	return found, errors.Join(err, t.module.FindObjectsFinal(t.session))
}

// ids returns the labels of the keys, the newest last.
func (t *Token) ids() ([]string, error) {
	found, err := t.find()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, key := range found {
		a, err := t.module.GetAttributeValue(t.session, key, []*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_LABEL, nil)})
		if err != nil {
			return nil, err
		}
		if label := string(a[0].Value); strings.HasPrefix(label, t.config.Prefix+".") {
			out = append(out, label)
		}
	}
	slices.Sort(out)
	return out, nil
}

// IDs returns the IDs of the keys, the newest last.
func (t *Token) IDs() (out []string, err error) {
	err = t.use(func() error { out, err = t.ids(); return err })
	return out, err
}

// Current is part of Keys.
func (t *Token) Current() (string, error) {
	ids, err := t.IDs()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("token %q has no keys whose labels begin with %q", t.config.Label, t.config.Prefix+".")
	}
	return ids[len(ids)-1], nil
}

func (t *Token) key(id string) (pkcs11.ObjectHandle, error) {
	if !strings.HasPrefix(id, t.config.Prefix+".") {
		return 0, fmt.Errorf("%w: %q", errNoKey, id)
	}
	found, err := t.find(pkcs11.NewAttribute(pkcs11.CKA_LABEL, id))
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%w: %q (%d)", errNoKey, id, len(found))
	}
	return found[0], nil
}

const nonceSize, tagBits = 12, 128

// gcm calls f with a key and AES-GCM bound to its ID.
func (t *Token) gcm(id string, nonce []byte, f func(key pkcs11.ObjectHandle, with []*pkcs11.Mechanism) error) error {
	return t.use(func() error {
		key, err := t.key(id)
		if err != nil {
			return err
		}
		params := pkcs11.NewGCMParams(nonce, []byte(id), tagBits)
		defer params.Free()
		return f(key, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)})
	})
}

// Seal is part of Keys: a random nonce, then the ciphertext.
func (t *Token) Seal(id string, plain []byte) (out []byte, err error) {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	err = t.gcm(id, nonce, func(key pkcs11.ObjectHandle, with []*pkcs11.Mechanism) error {
		if err := t.module.EncryptInit(t.session, with, key); err != nil {
			return err
		}
		sealed, err := t.module.Encrypt(t.session, plain)
		out = append(nonce[:nonceSize:nonceSize], sealed...)
		return err
	})
	return out, err
}

// Open is part of Keys.
func (t *Token) Open(id string, sealed []byte) (out []byte, err error) {
	if len(sealed) < nonceSize+tagBits/8 {
		return nil, errors.New("the ciphertext is too short")
	}
	err = t.gcm(id, sealed[:nonceSize], func(key pkcs11.ObjectHandle, with []*pkcs11.Mechanism) error {
		if err := t.module.DecryptInit(t.session, with, key); err != nil {
			return err
		}
		out, err = t.module.Decrypt(t.session, sealed[nonceSize:])
		return err
	})
	return out, err
}

// Rotate makes a key in the token, which encrypts from now on, and returns its ID.
func (t *Token) Rotate() (string, error) {
	id := fmt.Sprintf("%s.%020d", t.config.Prefix, time.Now().UnixNano())
	err := t.use(func() error {
		_, err := t.module.GenerateKey(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_KEY_GEN, nil)}, []*pkcs11.Attribute{
			pkcs11.NewAttribute(pkcs11.CKA_CLASS, pkcs11.CKO_SECRET_KEY), pkcs11.NewAttribute(pkcs11.CKA_KEY_TYPE, pkcs11.CKK_AES),
			pkcs11.NewAttribute(pkcs11.CKA_VALUE_LEN, keySize), pkcs11.NewAttribute(pkcs11.CKA_LABEL, id),
			pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_PRIVATE, true),
			pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
			pkcs11.NewAttribute(pkcs11.CKA_ENCRYPT, true), pkcs11.NewAttribute(pkcs11.CKA_DECRYPT, true),
		})
		return err
	})
	return id, err
}

// Remove removes a former key: what was encrypted with it is lost.
func (t *Token) Remove(id string) error {
	return t.use(func() error {
		ids, err := t.ids()
		if err != nil {
			return err
		}
		if len(ids) > 0 && ids[len(ids)-1] == id {
			return fmt.Errorf("%s is the key that encrypts", id)
		}
		key, err := t.key(id)
		if err != nil {
			return err
		}
		return t.module.DestroyObject(t.session, key)
	})
}
