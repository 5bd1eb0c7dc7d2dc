//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

// One group creates objects from a file of the sources that it names by a URL. A server in the network of the scripts has the sources at
// that URL; its certificate is the only one that the scripts trust.
const (
	sourceHost = "raw.githubusercontent.com"
	sourcePath = "/kubernetes/kubernetes/master/"
)

// serveSources serves the tree, and writes the certificate to the file.
func serveSources(dir, certificate string) (*http.Server, error) {
	pair, pemBytes, err := selfSigned(sourceHost)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(certificate, pemBytes, 0o644); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return nil, fmt.Errorf("serving the sources: %w", err)
	}
	s := &http.Server{
		Handler:           http.StripPrefix(sourcePath, http.FileServer(http.Dir(dir))),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	return s, nil
}

// selfSigned makes a certificate for a host, as a pair and in PEM.
func selfSigned(host string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
