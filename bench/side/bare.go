package side

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// BareEvent is the name of the file with an event of a watch.
const BareEvent = "event"

// ServeBare is the floor under every read: an HTTP/2 server over TLS from Go's
// standard library that does nothing but send bytes it has in memory. It
// serves each file of dir at the path of the file's name. With a file BareEvent it relays changes below /api/ to watches.
//
// Start runs this very program as Bare, with the address as its flag -bare and
// dir as -bodies; it must then call this.
func ServeBare(ctx context.Context, address, dir string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		if f.Name() == BareEvent {
			mux.Handle("/api/", &relay{event: body, watchers: map[chan []byte]<-chan struct{}{}})
		}
		mux.HandleFunc("/"+f.Name(), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(body) // the client's loss, and it will say so
		})
	}
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	s := &http.Server{Addr: address, Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s.ListenAndServeTLS("", "")
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
