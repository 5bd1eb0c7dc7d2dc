package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var errNoWebhooks = errors.New("the server is to be started with the option Webhooks")

// webhooks serves the webhooks of a server on a port of this process. The port is open before there is a handler, so that
// the server can be told its address first.
type webhooks struct {
	url string
	ca  []byte
	*http.Server

	mu      sync.Mutex
	handler http.Handler  // guarded by mu
	given   chan struct{} // closed once there is a handler
	unheard atomic.Int64  // calls that wait for one, or have ended without
}

// newWebhooks opens the port.
func newWebhooks() (*webhooks, error) {
	pair, ca, err := servingPair()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &webhooks{url: "https://" + l.Addr().String(), ca: ca, given: make(chan struct{})}
	w.Server = &http.Server{
		Handler: http.HandlerFunc(w.answer), ReadHeaderTimeout: time.Minute,
		ErrorLog:  log.New(io.Discard, "", 0), // of connections that a server drops when it stops
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = w.ServeTLS(l, "", "") }() // ends with Close
	return w, nil
}

// serve gives a handler; nil changes nothing.
func (w *webhooks) serve(h http.Handler) {
	if h == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handler == nil {
		close(w.given)
	}
	w.handler = h
}

// answer passes a call to the handler, and waits for one if need be.
func (w *webhooks) answer(rw http.ResponseWriter, r *http.Request) {
	w.unheard.Add(1)
	select {
	case <-w.given:
		w.unheard.Add(-1)
	case <-r.Context().Done():
		return
	}
	w.mu.Lock()
	h := w.handler
	w.mu.Unlock()
	h.ServeHTTP(rw, r)
}

// unanswered is how many calls have got no handler yet.
func (w *webhooks) unanswered() int64 {
	if w == nil {
		return 0
	}
	return w.unheard.Load()
}

// direct has the webhooks of an object that are named by a service called at the port.
func (w *webhooks) direct(o object) {
	switch o.kind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		list, _ := o["webhooks"].([]any)
		for _, each := range list {
			if one, ok := each.(map[string]any); ok {
				w.directOne(one)
			}
		}
	case definitionKind:
		w.directOne(o.at("spec", "conversion", "webhook"))
	}
}

func (w *webhooks) directOne(webhook object) {
	config := webhook.at("clientConfig")
	service, ok := config["service"].(map[string]any)
	if !ok {
		return // a URL is called over the network
	}
	path, _ := service["path"].(string)
	delete(config, "service")
	config["url"], config["caBundle"] = w.url+"/"+strings.TrimPrefix(path, "/"), w.ca
}

// convert gives a CRD a conversion webhook.
func (w *webhooks) convert(o object) {
	spec := o.at("spec")
	if spec == nil {
		return // the server says what is wrong with it
	}
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1", "v1beta1"},
		"clientConfig":             map[string]any{"url": w.url + "/convert", "caBundle": w.ca},
	}}
}

// ManagerWebhooks is a webhook server of controller-runtime's manager: webhook.Server, in any version.
type ManagerWebhooks[Checker ~func(*http.Request) error] struct {
	server *Server
	mux    *http.ServeMux
}

// WebhookServer returns the webhook server for a manager, so that it needs no port and no certificates. Webhooks are
// registered in it as in any other, and called from when the manager starts:
//
//	mgr, err := ctrl.NewManager(cfg, ctrl.Options{WebhookServer: testkit.WebhookServer[healthz.Checker](s)})
//
// The type is that of controller-runtime's package pkg/healthz, in the version of the caller's module. The server needs the
// option Webhooks.
func WebhookServer[Checker ~func(*http.Request) error](s *Server) *ManagerWebhooks[Checker] {
	return &ManagerWebhooks[Checker]{server: s, mux: http.NewServeMux()}
}

// NeedLeaderElection is part of webhook.Server.
func (m *ManagerWebhooks[Checker]) NeedLeaderElection() bool { return false }

// Register is part of webhook.Server.
func (m *ManagerWebhooks[Checker]) Register(path string, hook http.Handler) { m.mux.Handle(path, hook) }

// WebhookMux is part of webhook.Server.
func (m *ManagerWebhooks[Checker]) WebhookMux() *http.ServeMux { return m.mux }

// Start is part of webhook.Server: the webhooks are served until ctx ends.
func (m *ManagerWebhooks[Checker]) Start(ctx context.Context) error {
	if err := m.server.ServeWebhooks(m.mux); err != nil {
		return err
	}
	<-ctx.Done()
	return m.server.ServeWebhooks(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the manager has ended", http.StatusServiceUnavailable)
	}))
}

// StartedChecker is part of webhook.Server. Calls wait for the manager, so that it is always started.
func (m *ManagerWebhooks[Checker]) StartedChecker() Checker {
	return func(*http.Request) error { return nil }
}

// servingPair makes a certificate for webhooks in this process, which is its own authority.
func servingPair() (pair tls.Certificate, authority []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testkit"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
