package keys

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"sync"
)

// NameAuthorities returns a func for tls.Config.GetConfigForClient that tells clients which authorities' certificates
// are accepted. Everything else is as in base.
func (k *Keys) NameAuthorities(base *tls.Config) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return (&clientAuthorities{base: base, keys: k}).config
}

// clientAuthorities sends the accepted authorities in the handshake, for clients that have several certificates. It is
// a hint: the authenticators decide. The authorities are those in the current files.
type clientAuthorities struct {
	base *tls.Config
	keys *Keys

	mu                    sync.Mutex
	client, requestHeader []byte      // the bundles that made is for; guarded by mu
	made                  *tls.Config // guarded by mu
}

func (a *clientAuthorities) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	client, requestHeader := a.keys.ClientCAPEM(), a.keys.RequestHeaderCAPEM()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.made != nil && bytes.Equal(client, a.client) && bytes.Equal(requestHeader, a.requestHeader) {
		return a.made, nil
	}
	made := a.base.Clone()
	made.ClientCAs = x509.NewCertPool()
	made.ClientCAs.AppendCertsFromPEM(client)
	made.ClientCAs.AppendCertsFromPEM(requestHeader)
	a.client, a.requestHeader, a.made = client, requestHeader, made
	return made, nil
}
