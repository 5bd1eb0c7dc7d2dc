//go:build linux

package machine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Authority is a certificate authority.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// MakeKeys writes what kubeadm would have written: two authorities, the certificates of the control plane, the key of service accounts, a
// kubeconfig for each program.
func MakeKeys(l Layout) error {
	if err := os.MkdirAll(l.PKI(""), 0o700); err != nil {
		return err
	}
	ca, err := NewAuthority(l.PKI("ca"), "kubernetes")
	if err != nil {
		return err
	}
	front, err := NewAuthority(l.PKI("front-proxy-ca"), "front-proxy-ca")
	if err != nil {
		return err
	}
	serving := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + Domain},
		IPAddresses: []net.IP{net.ParseIP(Address), net.ParseIP(ServiceOfAPI), net.ParseIP("127.0.0.1")}}
	if err := ca.Issue(l.PKI("apiserver"), serving); err != nil {
		return err
	}
	if err := ca.Issue(l.PKI("apiserver-kubelet-client"), clientCertificate("kube-apiserver-kubelet-client", "system:masters")); err != nil {
		return err
	}
	if err := front.Issue(l.PKI("front-proxy-client"), clientCertificate("front-proxy-client", "")); err != nil {
		return err
	}
	if err := writeKey(l.PKI("sa.key"), l.PKI("sa.pub")); err != nil {
		return err
	}
	for file, who := range map[string]*x509.Certificate{
		"admin":                   clientCertificate("kubernetes-admin", "system:masters"),
		"kube-controller-manager": clientCertificate("system:kube-controller-manager", ""),
		"kube-scheduler":          clientCertificate("system:kube-scheduler", ""),
		"kube-proxy":              clientCertificate("system:kube-proxy", ""),
	} {
		if err := ca.Issue(l.PKI(file), who); err != nil {
			return err
		}
		if err := WriteKubeconfig(l, file, &clientcmdapi.AuthInfo{ClientCertificate: l.PKI(file + ".crt"), ClientKey: l.PKI(file + ".key")}); err != nil {
			return err
		}
	}
	return nil
}

func clientCertificate(name, group string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if group != "" {
		c.Subject.Organization = []string{group}
	}
	return c
}

// NewAuthority makes an authority and writes it to base.crt and base.key.
func NewAuthority(base, name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{key: key}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	a.cert = template // it signs itself
	a.cert, err = a.sign(base, template, key)
	return a, err
}

// Issue writes a certificate and its key to base.crt and base.key.
func (a *Authority) Issue(base string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, err = a.sign(base, template, key)
	return err
}

func (a *Authority) sign(base string, template *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(365*24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", filepath.Base(base), err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(base+".key", "EC PRIVATE KEY", private); err != nil {
		return nil, err
	}
	if err := writePEM(base+".crt", "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// writeKey makes the key that signs tokens.
func writeKey(private, public string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(private, "EC PRIVATE KEY", der); err != nil {
		return err
	}
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(public, "PUBLIC KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// WriteKubeconfig writes pki/NAME.kubeconfig.
func WriteKubeconfig(l Layout, name string, user *clientcmdapi.AuthInfo) error {
	f := clientcmdapi.NewConfig()
	f.Clusters["machine"] = &clientcmdapi.Cluster{Server: "https://" + Address + ":6443", CertificateAuthority: l.PKI("ca.crt")}
	f.AuthInfos[name] = user
	f.Contexts["machine"] = &clientcmdapi.Context{Cluster: "machine", AuthInfo: name}
	f.CurrentContext = "machine"
	return clientcmd.WriteToFile(*f, l.PKI(name+".kubeconfig"))
}
