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
	r, namespace, name, _ = Locate(key, l.placesNow().byPrefix, func(r *Resource) bool { return r.Namespaced })
	return r, namespace, name
}

// Locate finds, among places by the prefix of their keys, the one that a key belongs to, and the object in it.
func Locate[P any](key string, byPrefix map[string]P, namespaced func(P) bool) (place P, namespace, name string, ok bool) {
	at := 0
	for range 2 { // a prefix has one segment or two
		n := strings.IndexByte(key[at:], '/')
		if n < 0 {
			break
		}
		at += n + 1
		p, found := byPrefix[key[:at]]
		if !found {
			continue
		}
		namespace, name, inNamespace := strings.Cut(key[at:], "/")
		if inNamespace != namespaced(p) {
			continue
		}
		if !inNamespace {
			namespace, name = "", namespace
		}
		return p, namespace, name, true
	}
	return place, "", "", false
}
