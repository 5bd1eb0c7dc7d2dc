package peers

import (
	"context"
	"errors"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// passedOn is the header of a request that comes from another server of the cluster.
const passedOn = "X-Kubernetes-Peer-Proxied"

// Serve passes a request on that this server does not serve. It reports false, having done nothing, if no other server does
// either. The request has been authenticated and authorized.
func (p *Roster) Serve(w http.ResponseWriter, r *http.Request) bool {
	ctx := r.Context()
	i, u := request.InfoFrom(ctx), request.UserFrom(ctx)
	if p == nil || u == nil || request.LocalFrom(r) != nil || slices.Contains(r.Header.Values(passedOn), "true") || !frontproxy.Clean(r.URL.Path) {
		return false
	}
	gvr := schema.GroupVersionResource{Group: i.Group, Version: i.Version, Resource: i.Resource}
	names := p.serving(gvr)
	if len(names) == 0 {
		return false
	}
	var addresses []string
	for _, name := range names {
		if address, err := p.Addresses.address(ctx, name); err == nil {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 0 {
		p.Metrics.failures.WithLabelValues(addressUnknown, gvr.Group, gvr.Version, gvr.Resource).Inc()
		p.WriteError(w, r, apierrors.NewServiceUnavailable("Error getting ip and port info of the remote server while proxying"))
		return true
	}
	transport := p.shared
	if frontproxy.Upgrade(r.Header) != "" {
		transport = p.upgrade
		stream, upgrading, leave := frontproxy.NewStream(ctx, w, p.Ending)
		defer leave()
		r, w = r.WithContext(stream), upgrading
	}
	// Flow control gets its seats back: the other server has its own.
	request.Watching(ctx)
	(&frontproxy.Forward{
		Address: addresses[p.Random(len(addresses))], User: u, Transport: transport, Header: http.Header{passedOn: {"true"}},
		Check: func(resp *http.Response) error {
			p.Metrics.passed(resp.StatusCode, gvr)
			return nil
		},
		Fail: p.fail,
	}).Serve(w, r)
	return true
}

// serving returns the other servers that serve a resource.
func (p *Roster) serving(gvr schema.GroupVersionResource) (names []string) {
	for name, s := range p.all() {
		if s.serves[gvr] {
			names = append(names, name)
		}
	}
	if len(names) > 0 && p.owned.has(gvr.GroupVersion()) {
		return nil
	}
	return names
}

// fail answers a request that the other server did not.
func (p *Roster) fail(w http.ResponseWriter, r *http.Request, err error) {
	ctx := frontproxy.OfRequest(r.Context())
	if errors.Is(ctx.Err(), context.Canceled) {
		panic(http.ErrAbortHandler) // the client is gone
	}
	i := request.InfoFrom(ctx)
	p.Log.Debug("another API server did not answer", "path", i.Path, "error", err)
	if request.TimedOut(ctx) {
		return // the deadline's filter answers
	}
	p.Metrics.passed(http.StatusServiceUnavailable, schema.GroupVersionResource{Group: i.Group, Version: i.Version, Resource: i.Resource})
	p.WriteError(w, r, apierrors.NewServiceUnavailable("error trying to reach another API server: "+err.Error()))
}
