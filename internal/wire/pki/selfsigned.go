package pki

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// SelfSigned creates the serving certificate of a server without a configured one: NAME.crt and NAME.key in --cert-dir.
// Existing readable files are used as they are. The file also contains the temporary authority that signed the
// certificate, so that it serves as a CA bundle too.
func SelfSigned(dir, name, host string, alternates []string, clk clock.PassiveClock) (certPath, keyPath string, err error) {
	certPath, keyPath = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if _, err := tls.LoadX509KeyPair(certPath, keyPath); err == nil {
		return certPath, keyPath, nil
	} else if exists(certPath) && exists(keyPath) {
		return "", "", fmt.Errorf("load serving certificate: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	// A key left by an interrupted start is used again. The certificate goes first, so that it never exists with
	// another key.
	if err := os.Remove(certPath); err != nil && !os.IsNotExist(err) {
		return "", "", err
	}
	key, err := ensureKey(keyPath)
	if err != nil {
		return "", "", err
	}
	now := clk.Now()
	ca, err := ephemeralAuthority(fmt.Sprintf("%s-ca@%d", host, now.Unix()), now)
	if err != nil {
		return "", "", err
	}
	s := Subject{Name: fmt.Sprintf("%s@%d", host, now.Unix()), Server: true}
	s.addHosts(host)
	s.addHosts(alternates...)
	der, err := ca.Issue(s, key.Public(), now)
	if err != nil {
		return "", "", err
	}
	return certPath, keyPath, writeFile(certPath, encodeCerts(der, ca.cert.Raw), fileMode)
}

// SelfSignedAlternates returns the additional names in the serving certificate of a server that binds to the address:
// those of the kubernetes service, and localhost or the address.
func SelfSignedAlternates(bind, serviceIP net.IP) []string {
	hosts := []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}
	if serviceIP != nil {
		hosts = append(hosts, serviceIP.String())
	}
	if bind == nil || bind.IsUnspecified() {
		return append(hosts, "localhost")
	}
	return append(hosts, bind.String())
}

// ephemeralAuthority returns an authority whose key is never stored.
func ephemeralAuthority(name string, now time.Time) (*Authority, error) {
	return authority(name, now, leafLife)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
