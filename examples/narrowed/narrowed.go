// Package narrowed lets clients that know nothing of kanzen list and watch what they may see, or some namespaces
// (docs/extensions.md): it sets the parameters on their requests. Informers, caches and kubectl's library stay as they are.
//
//	config.Wrap(narrowed.Reads(url.Values{"visible": {"true"}}))
//	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
package narrowed

import (
	"maps"
	"net/http"
	"net/url"
)

// Reads returns a wrapper for the transport of a rest.Config that sets parameters on every read. Reads of single objects ignore them.
func Reads(parameters url.Values) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return transport{next, parameters}
	}
}

type transport struct {
	next       http.RoundTripper
	parameters url.Values
}

// RoundTrip is part of http.RoundTripper, which lets nobody change a request: it sends a copy.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return t.next.RoundTrip(r)
	}
	query := r.URL.Query()
	maps.Copy(query, t.parameters)
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return t.next.RoundTrip(r)
}
