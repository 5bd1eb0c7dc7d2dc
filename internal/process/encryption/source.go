package encryption

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source is what a value was encrypted with.
type Source struct {
	// At is its place in the configuration: "resources[0].providers[1].aescbc.keys[0]"; "": none, the value is as it is.
	At string `json:"at,omitempty"`
	// Provider is its name there: "aescbc", "kms", "identity".
	Provider string `json:"provider"`
	// Key is the name of a key, or of a plugin.
	Key string `json:"key,omitempty"`
	// Plugin is the hash of the ID of the key that a plugin has used.
	Plugin string `json:"plugin,omitempty"`
}

// opened notes what has decrypted a value; the innermost provider tells first.
func (p place) opened(by Source) {
	if p.source == nil || by == (Source{}) {
		return
	}
	if p.source.Plugin != "" {
		by.Plugin = p.source.Plugin
	}
	if p.source.At == "" {
		*p.source = by
	}
}

// Inspect decrypts a value of a resource and says what has encrypted it. stale says that it would be stored differently now.
func (e *Encryption) Inspect(ctx context.Context, resource schema.GroupResource, key string, stored []byte) (value []byte, stale bool, by Source, err error) {
	t := &transformer{e, resource, resource.String()}
	value, stale, err = t.provider().open(ctx, place{key: key, resource: t.name, source: &by}, stored)
	if err == nil && by.Provider == "" {
		by.Provider = "identity"
	}
	return value, stale, by, err
}

// sources returns everything that the configuration in force can decrypt with, in its order, and which of it writes.
func (s *setup) sources() (all []Source, writes map[string]bool) {
	writes = map[string]bool{}
	for _, o := range s.resources {
		all = append(all, o.sources()...)
		writes[o.writer()] = true
	}
	slices.SortFunc(all, func(a, b Source) int { return cmp.Compare(a.At, b.At) })
	return slices.Compact(all), writes
}

func (o *options) sources() (out []Source) {
	for _, each := range o.list {
		if nested, ok := each.provider.(*options); ok {
			out = append(out, nested.sources()...)
			continue
		}
		out = append(out, each.source)
	}
	return out
}

// writer is the place of what encrypts new values.
func (o *options) writer() string {
	if nested, ok := o.list[0].provider.(*options); ok {
		return nested.writer()
	}
	return o.list[0].source.At
}

// writesWith says that a plugin would use a key now.
func (s *setup) writesWith(key Source) bool {
	for _, k := range s.v2 {
		if w := k.current.Load(); k.name == key.Key && w != nil {
			return w.keyHash == key.Plugin
		}
	}
	return false
}

// sortUsage sorts keys of one plugin, what writes first.
func sortUsage(keys []Usage) {
	slices.SortFunc(keys, func(a, b Usage) int {
		if a.Writes != b.Writes {
			if a.Writes {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Plugin, b.Plugin)
	})
}
