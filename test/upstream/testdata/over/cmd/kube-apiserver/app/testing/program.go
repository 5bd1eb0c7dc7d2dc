package testing

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	genericfeatures "k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/test/integration/framework/program"
	testutil "k8s.io/kubernetes/test/utils"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// StartTestServer starts the program that KUBE_APISERVER names, or a server within the test if there is none.
func StartTestServer(t ktesting.TB, instance *TestServerInstanceOptions, flags []string, storage *storagebackend.Config) (TestServer, error) {
	if program.Path() == "" {
		return startWithinTest(t, instance, flags, storage)
	}
	if instance == nil {
		instance = NewDefaultTestServerOptions()
	}
	if instance.BinaryVersion != "" || instance.StorageVersionWrapFunc != nil {
		t.Skip("reaches into the server's process")
	}
	l, err := program.New(t)
	if err != nil {
		return TestServer{}, err
	}
	o := l.Options
	o.GenericServerRunOptions.RuntimeConfigEmulationForwardCompatible = l.Emulates // APIs of gates that a test sets may be newer
	if instance.RequestTimeout > 0 {
		o.GenericServerRunOptions.RequestTimeout = instance.RequestTimeout
	}
	o.ServiceClusterIPRanges = "10.0.0.0/16"
	o.Etcd.StorageConfig = *storage
	if instance.EnableCertAuth {
		extra, err := certificates(l, instance.ProxyCA, flags)
		if err != nil {
			return TestServer{}, err
		}
		flags = append(extra, flags...)
	}
	if err := os.WriteFile(filepath.Join(l.Dir, "service-account.key"), []byte(ecdsaPrivateKey), 0o600); err != nil {
		return TestServer{}, err
	}
	flags = append(serviceAccountFlags(l.Dir, flags), "--service-account-issuer=https://foo.bar.example.com")
	server, err := l.Run(flags...)
	if err != nil {
		return TestServer{}, err
	}
	if !instance.SkipHealthzCheck {
		err = server.Await(context.Background(), "/healthz")
	}
	if err == nil {
		err = server.Await(context.Background(), "/api/v1/namespaces/default")
	}
	if err != nil {
		server.Stop()
		return TestServer{}, err
	}
	client, _, err := GetEtcdClients(storage.Transport)
	if err != nil {
		server.Stop()
		return TestServer{}, fmt.Errorf("create etcd client: %w", err)
	}
	config := restclient.CopyConfig(server.Config)
	config.QPS, config.Burst = 1000, 10000
	return TestServer{
		ClientConfig: config, ServerOpts: o, TmpDir: l.Dir, EtcdClient: client, EtcdStoragePrefix: storage.Prefix,
		TearDownFn: func() {
			server.Stop()
			client.Close()
		},
	}, nil
}

// serviceAccountFlags are the test's without those that name an issuer or keys, which every server of a test has the same, and the keys.
func serviceAccountFlags(dir string, flags []string) []string {
	var kept []string
	for _, f := range flags {
		if !strings.HasPrefix(f, "--service-account-issuer=") && !strings.HasPrefix(f, "--service-account-key-file=") && !strings.HasPrefix(f, "--service-account-signing-key-file=") {
			kept = append(kept, f)
		}
	}
	key := filepath.Join(dir, "service-account.key")
	return append(kept, "--service-account-key-file="+key, "--service-account-signing-key-file="+key)
}

// certificates makes the authorities of clients and of front proxies and the certificate that the server shows to extension servers.
// Headers are named only if the test's flags do not name them: a list flag that is given twice has both.
func certificates(l *program.Launch, own *ProxyCA, flags []string) ([]string, error) {
	var args []string
	add := func(name, value string) {
		for _, f := range flags {
			if strings.HasPrefix(f, "--"+name+"=") {
				return
			}
		}
		args = append(args, "--"+name+"="+value)
	}
	proxy, key, err := authority("front-proxy-ca", filepath.Join(l.Dir, "proxy-ca.crt"), own)
	if err != nil {
		return nil, err
	}
	if _, _, err := authority("client-ca", filepath.Join(l.Dir, "client-ca.crt"), nil); err != nil {
		return nil, err
	}
	if err := clientCertificate(l.Dir, proxy, key); err != nil {
		return nil, err
	}
	add("client-ca-file", filepath.Join(l.Dir, "client-ca.crt"))
	add("requestheader-client-ca-file", filepath.Join(l.Dir, "proxy-ca.crt"))
	add("requestheader-allowed-names", "ash,misty,brock")
	add("requestheader-username-headers", "x-remote-user")
	add("requestheader-group-headers", "x-remote-group")
	add("requestheader-extra-headers-prefix", "x-remote-extra-")
	add("proxy-client-cert-file", filepath.Join(l.Dir, "misty-crt.crt"))
	add("proxy-client-key-file", filepath.Join(l.Dir, "misty-crt.key"))
	if utilfeature.DefaultFeatureGate.Enabled(genericfeatures.UnknownVersionInteroperabilityProxy) {
		add("peer-ca-file", filepath.Join(l.Dir, "apiserver.crt"))
	}
	return args, nil
}

func authority(name, path string, own *ProxyCA) (*x509.Certificate, *rsa.PrivateKey, error) {
	if own != nil {
		return own.ProxySigningCert, own.ProxySigningKey, os.WriteFile(path, testutil.EncodeCertPEM(own.ProxySigningCert), 0o600)
	}
	key, err := testutil.NewPrivateKey()
	if err != nil {
		return nil, nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, nil, err
	}
	return ca, key, os.WriteFile(path, testutil.EncodeCertPEM(ca), 0o600)
}

func clientCertificate(dir string, ca *x509.Certificate, signer *rsa.PrivateKey) error {
	key, err := testutil.NewPrivateKey()
	if err != nil {
		return err
	}
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: "misty"}, SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: ca.NotBefore, NotAfter: time.Now().Add(10_000 * time.Hour),
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, ca, key.Public(), signer)
	if err != nil {
		return err
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	if err := cert.WriteCert(filepath.Join(dir, "misty-crt.crt"), testutil.EncodeCertPEM(signed)); err != nil {
		return err
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(filepath.Join(dir, "misty-crt.key"), pem)
}
