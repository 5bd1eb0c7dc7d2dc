package chain

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Origin refuses upgrades (commands, port-forwards, proxies, watches by websocket) that the page of another site has a
// browser ask for. Browsers do not keep pages from opening websockets to other hosts, and send a client certificate along
// unasked, so any page could run commands with the certificate of whoever looks at it.
//
// An origin is foreign if it is neither the host that the request names nor one of those that CORS allows. It is refused
// with a client certificate, which may be a front proxy's, too, or if other headers say that a browser has sent it. A token
// is not sent unasked, and programs that name some origin (golang.org/x/net/websocket has them do so) go on with theirs.
func Origin(check bool, allowed []*regexp.Regexp, writeError ErrorWriter) Filter {
	if !check {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			if len(r.Header["Upgrade"]) == 0 || !foreign(r, allowed) || !byBrowser(r) {
				next(w, r)
				return
			}
			i := request.InfoFrom(r.Context())
			writeError(w, r, apierrors.NewForbidden(schema.GroupResource{Group: i.Group, Resource: i.Resource}, i.Name,
				errors.New("the page that asks for this connection is neither from this host nor from one of --cors-allowed-origins")))
		}
	}
}

// foreign says that one of the origins of a request is not this host and is not allowed.
func foreign(r *http.Request, allowed []*regexp.Regexp) bool {
	return slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		u, err := url.Parse(origin)
		own := err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
		return !own && !slices.ContainsFunc(allowed, func(re *regexp.Regexp) bool { return re.MatchString(origin) })
	})
}

// byBrowser says that a request has credentials that are sent unasked, or headers that only browsers send.
func byBrowser(r *http.Request) bool {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return true
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Sec-Fetch-") {
			return true
		}
	}
	return false
}
