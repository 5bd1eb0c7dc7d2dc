package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// EtcdTLS returns the TLS configuration for the etcd cluster; nil: no TLS.
func (c *Config) EtcdTLS() (*tls.Config, error) {
	if c.EtcdCAFile == "" && c.EtcdCertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.EtcdCAFile != "" {
		pem, err := os.ReadFile(c.EtcdCAFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cafile: no certificates in %s", c.EtcdCAFile)
		}
	}
	if c.EtcdCertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.EtcdCertFile, c.EtcdKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-certfile: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}
