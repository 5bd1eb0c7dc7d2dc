package webhook

import (
	"cmp"
	"context"
	"net"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// byEndpoint sends each request for a service to an address that is resolved for it. Connections are kept by that address: requests are
// spread over the endpoints, and none is sent over a connection to a pod that is not behind the service any more.
type byEndpoint struct {
	next    http.RoundTripper
	host    string // of the service
	resolve func(ctx context.Context) (string, error)
}

// RoundTrip is part of http.RoundTripper.
func (t *byEndpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.host { // a redirect has led away
		return t.next.RoundTrip(r)
	}
	endpoint, err := t.resolve(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // which a RoundTripper owes
		}
		return nil, err
	}
	to := r.Clone(r.Context())
	to.Host, to.URL.Host = cmp.Or(r.Host, r.URL.Host), endpoint
	return t.next.RoundTrip(to)
}

// resolvingDialer resolves a service when a connection is made; requests use it for as long as it is kept alive.
func resolvingDialer(dial utilnet.DialFunc, host string, resolve func(ctx context.Context) (string, error)) utilnet.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == host {
			var err error
			if addr, err = resolve(ctx); err != nil {
				return nil, err
			}
		}
		return dial(ctx, network, addr)
	}
}
