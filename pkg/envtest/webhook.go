package envtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// WebhookInstallOptions say which webhooks are installed, and where the test serves them.
type WebhookInstallOptions struct {
	// Paths are files, or directories with webhook configurations. Other objects in them are left out.
	Paths              []string
	MutatingWebhooks   []*admissionv1.MutatingWebhookConfiguration
	ValidatingWebhooks []*admissionv1.ValidatingWebhookConfiguration
	// IgnoreSchemeConvertible has all CRDs converted by the test's webhook server, whatever the scheme says.
	IgnoreSchemeConvertible bool
	// IgnoreErrorIfPathMissing leaves missing paths out.
	IgnoreErrorIfPathMissing bool
	// LocalServingHost and LocalServingPort are where the test serves the webhooks, with the tls.crt and tls.key in
	// LocalServingCertDir. Start chooses those that are not given.
	LocalServingHost    string
	LocalServingPort    int
	LocalServingCertDir string
	// LocalServingCAData is the authority of that certificate.
	LocalServingCAData []byte
	// LocalServingHostExternalName is the name by which the server reaches the webhooks; empty: LocalServingHost.
	LocalServingHostExternalName string
	// MaxTime is how long to wait for the configurations, PollInterval how often to look; zero: 10 s and 5 ms.
	MaxTime, PollInterval time.Duration

	made string // the directory that certify made; not one that was given
}

// PrepWithoutInstalling chooses the port, makes the certificates, and reads and changes the configurations.
func (o *WebhookInstallOptions) PrepWithoutInstalling() error {
	if _, err := o.hostPort(); err != nil {
		return err
	}
	if err := o.certify(); err != nil {
		return fmt.Errorf("certificates of the webhooks: %w", err)
	}
	if err := o.read(); err != nil {
		return fmt.Errorf("read webhooks: %w", err)
	}
	return o.ModifyWebhookDefinitions()
}

// ModifyWebhookDefinitions directs webhooks that are services to the host and port of the test.
func (o *WebhookInstallOptions) ModifyWebhookDefinitions() error {
	hostPort, err := o.hostPort()
	if err != nil {
		return err
	}
	for _, c := range o.MutatingWebhooks {
		for n := range c.Webhooks {
			o.direct(&c.Webhooks[n].ClientConfig, hostPort)
		}
	}
	for _, c := range o.ValidatingWebhooks {
		for n := range c.Webhooks {
			o.direct(&c.Webhooks[n].ClientConfig, hostPort)
		}
	}
	return nil
}

func (o *WebhookInstallOptions) direct(c *admissionv1.WebhookClientConfig, hostPort string) {
	c.CABundle = o.LocalServingCAData
	if c.Service != nil && c.Service.Path != nil {
		url := "https://" + hostPort + "/" + strings.TrimPrefix(*c.Service.Path, "/")
		c.URL, c.Service = &url, nil
	}
}

// hostPort returns where the webhooks are reached. It chooses a port if none is given.
func (o *WebhookInstallOptions) hostPort() (string, error) {
	if o.LocalServingHost == "" {
		o.LocalServingHost = "127.0.0.1"
	}
	if o.LocalServingPort == 0 {
		l, err := net.Listen("tcp", net.JoinHostPort(o.LocalServingHost, "0"))
		if err != nil {
			return "", fmt.Errorf("find a port for webhooks: %w", err)
		}
		o.LocalServingPort = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return "", err
		}
	}
	host := o.LocalServingHostExternalName
	if host == "" {
		host = o.LocalServingHost
	}
	return net.JoinHostPort(host, strconv.Itoa(o.LocalServingPort)), nil
}

// certify makes a certificate for the test's webhook server, which is its own authority.
func (o *WebhookInstallOptions) certify() (err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "envtest webhooks"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range []string{"localhost", o.LocalServingHost, o.LocalServingHostExternalName} {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if name != "" {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if o.LocalServingCertDir == "" {
		if o.LocalServingCertDir, err = os.MkdirTemp("", "envtest-serving-certs-"); err != nil {
			return err
		}
		o.made = o.LocalServingCertDir
	}
	o.LocalServingCAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return errors.Join(
		os.WriteFile(filepath.Join(o.LocalServingCertDir, "tls.crt"), o.LocalServingCAData, 0o600),
		os.WriteFile(filepath.Join(o.LocalServingCertDir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
	)
}

// read adds the configurations in Paths.
func (o *WebhookInstallOptions) read() error {
	objects, err := readPaths(o.Paths, !o.IgnoreErrorIfPathMissing)
	if err != nil {
		return err
	}
	for _, u := range objects {
		var into any
		switch u.GetKind() {
		case "MutatingWebhookConfiguration":
			c := &admissionv1.MutatingWebhookConfiguration{}
			into, o.MutatingWebhooks = c, append(o.MutatingWebhooks, c)
		case "ValidatingWebhookConfiguration":
			c := &admissionv1.ValidatingWebhookConfiguration{}
			into, o.ValidatingWebhooks = c, append(o.ValidatingWebhooks, c)
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

var (
	mutatingResource   = admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validatingResource = admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
)

// Install creates or updates the configurations and waits until they can be read.
func (o *WebhookInstallOptions) Install(config *rest.Config) error {
	if len(o.LocalServingCAData) == 0 {
		if err := o.PrepWithoutInstalling(); err != nil {
			return err
		}
	}
	for _, c := range o.MutatingWebhooks {
		if err := ensure(config, mutatingResource, admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	for _, c := range o.ValidatingWebhooks {
		if err := ensure(config, validatingResource, admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return WaitForWebhooks(config, o.MutatingWebhooks, o.ValidatingWebhooks, *o)
}

// WaitForWebhooks waits until configurations can be read.
func WaitForWebhooks(config *rest.Config, mutating []*admissionv1.MutatingWebhookConfiguration, validating []*admissionv1.ValidatingWebhookConfiguration, options WebhookInstallOptions) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	interval, most := waiting(options.PollInterval, options.MaxTime)
	there := func(r dynamic.ResourceInterface, name string) error {
		return wait.PollUntilContextTimeout(background(), interval, most, true, func(ctx context.Context) (bool, error) {
			_, err := r.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	}
	for _, each := range mutating {
		if err := there(c.Resource(mutatingResource), each.Name); err != nil {
			return fmt.Errorf("%s: %w", each.Name, err)
		}
	}
	for _, each := range validating {
		if err := there(c.Resource(validatingResource), each.Name); err != nil {
			return fmt.Errorf("%s: %w", each.Name, err)
		}
	}
	return nil
}

// Cleanup removes the certificates, unless they are in a directory that was given.
func (o *WebhookInstallOptions) Cleanup() error {
	if o.made == "" {
		return nil
	}
	err := os.RemoveAll(o.made)
	o.made, o.LocalServingCertDir = "", ""
	return err
}
