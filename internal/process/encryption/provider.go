package encryption

import (
	"context"
	"errors"
	"strings"
	"time"
)

// place is where a value is stored.
type place struct {
	key      string // in etcd; what authenticated ciphertexts are bound to
	resource string // for metrics: "secrets", "deployments.apps"
	// source is told what a value was encrypted with, if it is set.
	source *Source
}

// provider encrypts and decrypts values. It is safe for concurrent use and changes no input.
type provider interface {
	// seal appends the encrypted value to dst.
	seal(ctx context.Context, at place, dst, value []byte) ([]byte, error)
	// open decrypts what seal appended; stale means that seal would do it differently now.
	open(ctx context.Context, at place, data []byte) (value []byte, stale bool, err error)
}

// option is a provider, and the prefix of the values that it wrote.
type option struct {
	prefix string
	provider
	source Source // what it is in the configuration; of a provider with keys, each key has its own
}

// sealedMore is by how much a sealed value is larger than the value, about.
const sealedMore = 512

// options are providers by prefix. The first one writes.
type options struct {
	list    []option
	none    error // no provider has the prefix of a value
	metrics *metrics
}

func (o *options) seal(ctx context.Context, at place, dst, value []byte) ([]byte, error) {
	began := o.metrics.clock.Now()
	first := o.list[0]
	if dst == nil && first.prefix != "" {
		dst = make([]byte, 0, len(value)+sealedMore)
	}
	out, err := first.seal(ctx, at, append(dst, first.prefix...), value)
	o.metrics.transformed(at.resource, toStorage, first.prefix, o.metrics.clock.Since(began), err)
	return out, err
}

// open tries every provider that has the value's prefix: several may have the same one, with different keys.
func (o *options) open(ctx context.Context, at place, data []byte) ([]byte, bool, error) {
	began := o.metrics.clock.Now()
	var errs []error
	for n, each := range o.list {
		if !hasPrefix(data, each.prefix) {
			continue
		}
		value, stale, err := each.open(ctx, at, data[len(each.prefix):])
		if each.prefix == "" && err != nil {
			continue // identity leaves what is encrypted to others
		}
		o.measure(at, each.prefix, began, err)
		if err == nil {
			at.opened(each.source)
			return value, stale || n != 0, nil
		}
		errs = append(errs, err)
	}
	switch len(errs) {
	case 0:
		o.metrics.transformed(at.resource, fromStorage, "unknown", o.metrics.clock.Since(began), o.none)
		return nil, false, o.none
	case 1:
		return nil, false, errs[0]
	}
	return nil, false, &manyErrors{errs}
}

func (o *options) measure(at place, prefix string, began time.Time, err error) {
	if prefix == "" {
		prefix = "identity"
	}
	o.metrics.transformed(at.resource, fromStorage, prefix, o.metrics.clock.Since(began), err)
}

func hasPrefix(data []byte, prefix string) bool {
	return len(data) >= len(prefix) && string(data[:len(prefix)]) == prefix
}

// manyErrors are the errors of several providers, in one line.
type manyErrors struct{ errs []error }

// Error is part of error.
func (m *manyErrors) Error() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, err := range m.errs {
		if text := err.Error(); !seen[text] {
			if len(seen) > 0 {
				b.WriteString(", ")
			}
			seen[text] = true
			b.WriteString(text)
		}
	}
	if len(seen) == 1 {
		return b.String()
	}
	return "[" + b.String() + "]"
}

// Unwrap is for errors.Is and errors.As.
func (m *manyErrors) Unwrap() []error { return m.errs }

// encryptedPrefix begins every value that is encrypted, and none that is not.
const encryptedPrefix = "k8s:enc:"

var errEncrypted = errors.New("identity transformer tried to read encrypted data")

// identity stores values as they are.
type identity struct{}

func (identity) seal(_ context.Context, _ place, dst, value []byte) ([]byte, error) {
	if len(dst) == 0 {
		return value, nil
	}
	return append(dst, value...), nil
}

func (identity) open(_ context.Context, _ place, data []byte) ([]byte, bool, error) {
	if hasPrefix(data, encryptedPrefix) {
		return nil, false, errEncrypted
	}
	return data, false, nil
}
