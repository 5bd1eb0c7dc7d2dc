package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
)

// RequestHeader accepts the user that a front proxy names in headers. The proxy is authenticated by its client
// certificate.
type RequestHeader struct {
	HeaderNames
	// Authorities returns the current authorities of proxies' certificates (--requestheader-client-ca-file).
	Authorities func() *x509.CertPool
	// AllowedNames are the accepted common names of proxies; empty: every name.
	AllowedNames []string
}

// HeaderNames are the headers that a front proxy sets. Of several user name or UID headers, the first that is set
// counts; group and extra headers all count.
type HeaderNames struct {
	Username, UID, Group []string
	ExtraPrefix          []string
}

// StandardHeaders returns the usual names.
func StandardHeaders() HeaderNames {
	return HeaderNames{
		Username: []string{"X-Remote-User"}, UID: []string{"X-Remote-Uid"},
		Group: []string{"X-Remote-Group"}, ExtraPrefix: []string{"X-Remote-Extra-"},
	}
}

// Clear removes the headers from h.
func (n HeaderNames) Clear(h http.Header) {
	for _, names := range [][]string{n.Username, n.UID, n.Group} {
		for _, name := range names {
			h.Del(name)
		}
	}
	for _, prefix := range n.ExtraPrefix {
		for key := range h {
			if _, ok := cutPrefixFold(key, prefix); ok {
				delete(h, key)
			}
		}
	}
}

type frontProxy struct {
	RequestHeader
	clock clock.PassiveClock
}

func (p *frontProxy) Authenticate(r *http.Request) (user.Info, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	if _, _, err := verifyClient(r.TLS.PeerCertificates, p.Authorities(), p.clock.Now()); err != nil {
		return nil, false, err
	}
	proxy := r.TLS.PeerCertificates[0].Subject.CommonName
	if len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, proxy) {
		return nil, false, fmt.Errorf("%q is not the name of an allowed front proxy", proxy)
	}
	name := first(r.Header, p.Username)
	if name == "" {
		return nil, false, nil
	}
	u := &user.DefaultInfo{
		Name: name, UID: first(r.Header, p.UID),
		Groups: allOf(r.Header, p.Group), Extra: extraOf(r.Header, p.ExtraPrefix),
	}
	p.Clear(r.Header)
	return u, true, nil
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func allOf(h http.Header, names []string) []string {
	var all []string
	for _, name := range names {
		for _, v := range h.Values(name) {
			if v != "" {
				all = append(all, v)
			}
		}
	}
	return all
}

func extraOf(h http.Header, prefixes []string) map[string][]string {
	extra := map[string][]string{}
	for _, prefix := range prefixes {
		for name, values := range h {
			if key, ok := cutPrefixFold(name, prefix); ok {
				key = ExtraKey(key)
				extra[key] = append(extra[key], values...)
			}
		}
	}
	return extra
}

// ExtraKey decodes the key of an extra field, the end of a header's name: it is lower case, and characters that headers
// cannot contain are percent-encoded.
func ExtraKey(header string) string {
	key := strings.ToLower(header)
	if decoded, err := url.PathUnescape(key); err == nil {
		return decoded
	}
	return key
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}
