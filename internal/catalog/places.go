package catalog

import "strings"

// places maps resources to the keys under which their objects are stored.
type places struct {
	changes  int64
	byPrefix map[string]*Resource
}

// placesNow returns the places of what is served now.
func (l *Live) placesNow() *places {
	now := l.Now()
	if p := l.places.Load(); p != nil && p.changes == now.Changes() {
		return p
	}
	p := &places{changes: now.Changes(), byPrefix: map[string]*Resource{}}
	for r := range now.All() {
		if prefix := r.Prefix(); prefix != "" {
			p.byPrefix[prefix] = r
		}
	}
	l.places.Store(p)
	return p
}

// Prefix returns the prefix of the keys of a resource's objects, with a slash at its end; "" if they are not stored.
func (r *Resource) Prefix() string {
	if d := r.Described(r.Storage); d != nil && d.Prefix != "" {
		return d.Prefix + "/"
	}
	return ""
}

// At returns whose object a key below the store's prefix belongs to; nil: it belongs to no resource that is served.
func (l *Live) At(key string) (r *Resource, namespace, name string) {
	at := 0
	for range 2 { // a prefix has one segment or two
		n := strings.IndexByte(key[at:], '/')
		if n < 0 {
			return nil, "", ""
		}
		at += n + 1
		r := l.placesNow().byPrefix[key[:at]]
		if r == nil {
			continue
		}
		namespace, name, namespaced := strings.Cut(key[at:], "/")
		if namespaced != r.Namespaced {
			continue
		}
		if !namespaced {
			namespace, name = "", namespace
		}
		return r, namespace, name
	}
	return nil, "", ""
}
