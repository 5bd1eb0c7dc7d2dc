package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// This file has what takes single keys from one database to another.

// ErrNoObject says that a key is not that of an object.
var ErrNoObject = errors.New("it is no key of an object")

// ID returns the object of a key. Errors: ErrNoObject, as for the keys of servers' own bookkeeping.
func (k *Kinds) ID(key string) (ID, error) {
	id, _, ok := k.place(key)
	if !ok || strings.Contains(key, "//") || strings.HasSuffix(key, "/") {
		return ID{}, ErrNoObject
	}
	for _, part := range []string{id.Group, id.Resource, id.Namespace, id.Name} {
		if len(content.IsPathSegmentName(part)) > 0 || strings.ContainsFunc(part, unicode.IsControl) {
			return ID{}, fmt.Errorf("%w: %q cannot be a part of a path", ErrNoObject, part)
		}
	}
	return id, nil
}

// apiserverLeases begins the names of leases by which servers of a cluster know each other.
const apiserverLeases = "apiserver-"

// Personal says that an object tells of the servers of its database, and means nothing in another.
func (id ID) Personal() bool {
	return id.GroupResource == schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"} && id.Namespace == "kube-system" && strings.HasPrefix(id.Name, apiserverLeases)
}

// Open decrypts the value that is stored at a key, and returns an error if it is not the object that the key names. Errors: ErrNoObject.
func (k *Kinds) Open(ctx context.Context, key string, value []byte) (plain []byte, err error) {
	id, err := k.ID(key)
	if err != nil {
		return nil, err
	}
	_, builtin, _ := k.place(key)
	if plain, _, err = k.transformer(id.GroupResource).FromStorage(ctx, key, value); err != nil {
		return nil, fmt.Errorf("%s: decrypt: %w", id, err)
	}
	c := objectCheck{Kinds: k, out: &Objects{}, definitions: map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition{}, custom: map[custom]*firstOf{}}
	if err := c.judge(ctx, key, id, builtin, plain); err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
	}
	return plain, nil
}

// Move decrypts a value as one that is stored at a key, and encrypts it for another key of the same object. It does not look at what it is.
func (k *Kinds) Move(ctx context.Context, id ID, from, to string, value []byte) ([]byte, error) {
	t := k.transformer(id.GroupResource)
	plain, _, err := t.FromStorage(ctx, from, value)
	if err != nil {
		return nil, fmt.Errorf("%s: decrypt: %w", id, err)
	}
	return k.Seal(ctx, id, to, plain)
}

// Seal encrypts a value for a key.
func (k *Kinds) Seal(ctx context.Context, id ID, key string, plain []byte) ([]byte, error) {
	value, err := k.transformer(id.GroupResource).ToStorage(ctx, key, plain)
	if err != nil {
		return nil, fmt.Errorf("%s: encrypt: %w", id, err)
	}
	return value, nil
}
