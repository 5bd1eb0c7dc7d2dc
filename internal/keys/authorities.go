package keys

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"sync"
)

// NameAuthorities returns a func for tls.Config.GetConfigForClient that tells
// clients whose certificates are accepted. Connections are made by base otherwise.
func (k *Keys) NameAuthorities(base *tls.Config) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	return (&clientAuthorities{base: base, keys: k}).config
}

// clientAuthorities tells clients in the handshake whose certificates are
// accepted, for those that have several to choose from. It is a hint: the
// authenticators judge. The authorities are those of the files as they are now.
type clientAuthorities struct {
	base *tls.Config
	keys *Keys

	mu                    sync.Mutex
	client, requestHeader []byte      // of which made is made; guarded by mu
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
