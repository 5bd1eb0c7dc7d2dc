package envtest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// ListenAddr is an address to listen on.
type ListenAddr struct {
	// Address is an IP address; empty: 127.0.0.1. Port is a number; empty: a free one.
	Address, Port string
}

// URL returns the URL of a path at the address.
func (l *ListenAddr) URL(scheme, path string) *url.URL {
	return &url.URL{Scheme: scheme, Host: l.HostPort(), Path: path}
}

// HostPort returns the address as host:port.
func (l *ListenAddr) HostPort() string { return net.JoinHostPort(l.Address, l.Port) }

// SecureServing is how the API server is reached.
type SecureServing struct {
	ListenAddr
	// CA is the authority of the server's certificate, in PEM. Start sets it.
	CA []byte
	// Authn makes users; nil: they get client certificates.
	Authn
}

// Authn makes users of the API server.
type Authn interface {
	// Configure sets the flags that it needs, before the start. It may keep files in workDir.
	Configure(workDir string, args *Arguments) error
	// Start is called after Configure and before the server is started.
	Start() error
	// AddUser makes a user, and returns a copy of a config that acts as this user.
	AddUser(user User, baseCfg *rest.Config) (*rest.Config, error)
	Stop() error
}

// User is a user to be made.
type User struct {
	Name   string
	Groups []string
}

// certificates makes users with client certificates of the server's own authority.
type certificates struct{ server *kanzentest.Server }

// Configure is part of Authn.
func (certificates) Configure(string, *Arguments) error { return nil }

// Start is part of Authn.
func (certificates) Start() error { return nil }

// AddUser is part of Authn.
func (c certificates) AddUser(user User, baseCfg *rest.Config) (*rest.Config, error) {
	identity, err := c.server.AddUser(background(), user.Name, user.Groups)
	if err != nil {
		return nil, err
	}
	reached, err := identity.SocketConfig()
	if err != nil {
		return nil, err
	}
	cfg := rest.CopyConfig(baseCfg)
	cfg.CertData, cfg.KeyData = reached.CertData, reached.KeyData
	return cfg, nil
}

// Stop is part of Authn.
func (certificates) Stop() error { return nil }

// listen returns where the server is to listen.
func (s *APIServer) listen() (string, error) {
	at := s.ListenAddr
	if at.Address == "" {
		at.Address = "127.0.0.1"
	}
	switch port := strconv.Itoa(s.SecurePort); {
	case at.Port == "":
		at.Port = port
	case s.SecurePort != 0 && at.Port != port:
		return "", fmt.Errorf("SecurePort is %d and SecureServing.Port is %s", s.SecurePort, at.Port)
	}
	if net.ParseIP(at.Address) == nil {
		return "", errors.New("SecureServing.Address: " + strconv.Quote(at.Address) + " is no IP address")
	}
	return at.HostPort(), nil
}
