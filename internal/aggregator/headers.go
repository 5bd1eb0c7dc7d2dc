package aggregator

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// dropped are headers of clients that extension servers do not get: credentials, and the identity that only this server
// states.
var dropped = []string{"Authorization", "Proxy-Authorization", "Impersonate-User", "Impersonate-Uid", "Impersonate-Group"}

// droppedPrefixes are the same for headers with a variable part.
var droppedPrefixes = []string{"X-Remote-", "Impersonate-Extra-"}

// setHeaders sets the headers of a request to an extension server: the user of in, its audit ID and its client.
func setHeaders(h http.Header, in *http.Request, u user.Info) {
	for _, name := range dropped {
		h.Del(name)
	}
	for name := range h {
		if slices.ContainsFunc(droppedPrefixes, func(p string) bool { return len(name) >= len(p) && strings.EqualFold(name[:len(p)], p) }) {
			delete(h, name)
		}
	}
	setUser(h, u)
	if id := request.AuditIDFrom(in.Context()); id != "" {
		h.Set("Audit-Id", id)
	}
	if client, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", strings.Join(append(slices.Clone(in.Header["X-Forwarded-For"]), client), ", "))
	}
}

// setUser names a user as a front proxy does.
func setUser(h http.Header, u user.Info) {
	h.Set("X-Remote-User", u.GetName())
	if uid := u.GetUID(); uid != "" {
		h.Set("X-Remote-Uid", uid)
	}
	for _, group := range u.GetGroups() {
		h.Add("X-Remote-Group", group)
	}
	for key, values := range u.GetExtra() {
		name := "X-Remote-Extra-" + escapeKey(key)
		for _, value := range values {
			h.Add(name, value)
		}
	}
}

// escapeKey encodes what header names cannot contain, as authn.ExtraKey decodes it.
func escapeKey(key string) string {
	var b strings.Builder
	const hex = "0123456789ABCDEF"
	for n := range len(key) {
		c := key[n]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// upgradeOf returns the protocol to which a request wants to change its connection; "" if it stays with HTTP. Only
// protocols of streams are passed on: over a connection that spoke HTTP again, the client could send requests in the name
// of the front proxy.
func upgradeOf(h http.Header) string {
	if !slices.ContainsFunc(h["Connection"], func(v string) bool { return strings.Contains(strings.ToLower(v), "upgrade") }) {
		return ""
	}
	if protocol := strings.ToLower(h.Get("Upgrade")); protocol == "websocket" || protocol == "spdy/3.1" {
		return protocol
	}
	return ""
}
