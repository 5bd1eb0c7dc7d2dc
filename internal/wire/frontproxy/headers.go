package frontproxy

import (
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Clean reports whether a path has the same meaning for everybody. The other server must not resolve a path to another
// one than the user was authorized for.
func Clean(path string) bool {
	for segment := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// target is the URL of a request to another server. Path and query are written anew from what was authorized.
func target(in *http.Request, address string) *url.URL {
	u := &url.URL{Scheme: "https", Host: address, Path: in.URL.Path}
	if in.URL.RawQuery != "" {
		u.RawQuery = in.URL.Query().Encode()
	}
	return u
}

// headers calls add with the headers of a request for another server: the client's, without its credentials and
// those that concern its connection, and what this server states: the user, the audit ID, and where the request came from.
func headers(in *http.Request, u user.Info, address, uri string, add func(name, value string)) {
	id := request.AuditIDFrom(in.Context())
	for name, values := range in.Header {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if stated(name) || name == "Content-Length" || hopByHop(name, in.Header["Connection"]) || id != "" && name == auditID {
			continue
		}
		for _, value := range values {
			add(name, value)
		}
	}
	UserHeaders(u, add)
	if id != "" {
		add(auditID, id)
	}
	if client, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		if before := in.Header["X-Forwarded-For"]; len(before) > 0 {
			client = strings.Join(before, ", ") + ", " + client
		}
		add("X-Forwarded-For", client)
	}
	add("X-Forwarded-Uri", uri)
	add("X-Forwarded-Host", address)
	add("X-Forwarded-Proto", "https")
}

const auditID = "Audit-Id"

// stated reports whether a header is not taken over from clients: credentials, and what only this server states.
func stated(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "Impersonate-User", "Impersonate-Uid", "Impersonate-Group",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri":
		return true
	}
	return hasPrefix(name, "X-Remote-") || hasPrefix(name, "Impersonate-Extra-")
}

func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// hopByHop reports whether a header concerns one connection only; connection are the values of its header Connection. Among
// them are those that the HTTP libraries write by themselves.
func hopByHop(name string, connection []string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Host", "Expect":
		return true
	}
	return len(connection) > 0 && httpguts.HeaderValuesContainsToken(connection, name)
}

// UserHeaders calls add with the headers by which a front proxy names a user.
func UserHeaders(u user.Info, add func(name, value string)) {
	add("X-Remote-User", u.GetName())
	if uid := u.GetUID(); uid != "" {
		add("X-Remote-Uid", uid)
	}
	for _, group := range u.GetGroups() {
		add("X-Remote-Group", group)
	}
	for key, values := range u.GetExtra() {
		name := textproto.CanonicalMIMEHeaderKey("X-Remote-Extra-" + escapeKey(key))
		for _, value := range values {
			add(name, value)
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

// Upgrade returns the protocol to which a request wants to change its connection; "" if it stays with HTTP. Only
// protocols of streams are passed on: over a connection that spoke HTTP again, the client could send requests in the name
// of the front proxy.
func Upgrade(h http.Header) string {
	if !slices.ContainsFunc(h["Connection"], func(v string) bool { return strings.Contains(strings.ToLower(v), "upgrade") }) {
		return ""
	}
	if protocol := strings.ToLower(h.Get("Upgrade")); protocol == "websocket" || protocol == "spdy/3.1" {
		return protocol
	}
	return ""
}
