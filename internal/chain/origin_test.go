package chain

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestOrigin crosses hosts, origins, upgrades and what tells a browser: an upgrade is refused if and only if its origin is
// another one, and it comes with what browsers send unasked.
func TestOrigin(t *testing.T) {
	const host = "api.example.com:6443"
	own := map[string]bool{"https://" + host: true, "https://API.example.com:6443": true, "http://" + host: true, "https://console.example.com": true, "https://x.console.example.com": false,
		"": true, "null": false, "https://api.example.com": false, "https://api.example.com:443": false, "https://evil.example.com": false, "https://evil.example.com/?https://" + host: false,
		"https://" + host + ".evil.com": false, "https://" + host + "@evil.com": false, "https://user@" + host: true, host: false, "file://": false, "%": false, " https://" + host: false}
	paths := []string{"/api/v1/namespaces/n/pods/p/exec?command=sh", "/api/v1/namespaces/n/pods/p/attach", "/api/v1/namespaces/n/pods/p/portforward", "/api/v1/namespaces/n/pods/p/proxy/x",
		"/api/v1/namespaces/n/services/s/proxy", "/api/v1/nodes/n/proxy/exec", "/api/v1/pods?watch=1", "/api/v1/watch/pods", "/api/v1/namespaces/n/pods/p/log?follow=1", "/apis/g.example.com/v1/things?watch=1", "/metrics"}
	asks := 0
	h := New(Config{Handler: http.HandlerFunc(ok), Authenticator: users{}, Authorizer: policy{"alice": {".*"}}, Log: discard(), Clock: config(ok).Clock,
		OriginCheck: true, CORS: []*regexp.Regexp{regexp.MustCompile(`^https://console\.example\.com$`)}})
	without := New(Config{Handler: http.HandlerFunc(ok), Authenticator: users{}, Authorizer: policy{"alice": {".*"}}, Log: discard(), Clock: config(ok).Clock})
	for _, path := range paths {
		for origin, isOwn := range own {
			for _, upgrade := range []string{"", "websocket", "WebSocket", "SPDY/3.1", "h2c"} {
				for _, connection := range []string{"Upgrade", "keep-alive, Upgrade", "upgrade"} {
					for _, certificate := range []bool{false, true} {
						for _, fetch := range []string{"", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: websocket", "sec-fetch-dest: websocket"} {
							for _, method := range []string{"GET", "POST"} {
								r := httptest.NewRequest(method, path, nil)
								r.Host, r.TLS = host, &tls.ConnectionState{}
								r.Header.Set("Authorization", "alice")
								if origin != "" {
									r.Header.Add("Origin", origin)
								}
								if upgrade != "" {
									r.Header.Set("Upgrade", upgrade)
									r.Header.Set("Connection", connection)
								}
								if certificate {
									r.TLS.PeerCertificates = []*x509.Certificate{{}}
								}
								if name, value, ok := strings.Cut(fetch, ": "); ok {
									r.Header.Set(name, value)
								}
								w, plain := httptest.NewRecorder(), httptest.NewRecorder()
								without.ServeHTTP(plain, r.Clone(r.Context()))
								h.ServeHTTP(w, r)
								want := plain.Code
								if upgrade != "" && !isOwn && (certificate || fetch != "") {
									want = 403
								}
								if asks++; w.Code != want {
									t.Fatalf("%s %s, origin %q, upgrade %q, certificate %t, %q: %d, want %d", method, path, origin, upgrade, certificate, fetch, w.Code, want)
								}
							}
						}
					}
				}
			}
		}
	}
	if asks < 20_000 {
		t.Errorf("%d requests", asks)
	}
}
