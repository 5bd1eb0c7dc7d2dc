package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func options(t testing.TB, clk *clocktesting.FakePassiveClock) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "pki"), Server: "https://127.0.0.1:6443",
		ServiceIP: net.IPv4(10, 0, 0, 1), Hosts: []string{"api.example.com", "192.0.2.7"},
		Hostname: "box", Clock: clk,
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

func mustCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	cert, err := readCert(path)
	if err != nil || cert == nil {
		t.Fatalf("read %s: %v, %v", path, cert, err)
	}
	return cert
}

func TestEnsureMakesWorkingCertificates(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	f, err := Ensure(options(t, clk))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(mustCert(t, f.CACert))
	for _, host := range []string{
		"127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "10.0.0.1", "box", "api.example.com", "192.0.2.7",
	} {
		opts := x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: start}
		if strings.Contains(host, ":") {
			opts.DNSName = "[" + host + "]"
		}
		if _, err := mustCert(t, f.ServingCert).Verify(opts); err != nil {
			t.Errorf("serving certificate for %s: %v", host, err)
		}
	}
	admin := mustCert(t, f.AdminCert)
	if _, err := admin.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("admin certificate: %v", err)
	}
	if got := admin.Subject.Organization; len(got) != 1 || got[0] != "system:masters" {
		t.Errorf("admin is in %q", got)
	}
	for _, pair := range [][2]string{{f.ServingCert, f.ServingKey}, {f.AdminCert, f.AdminKey}, {f.CACert, f.CAKey}} {
		if _, err := tls.LoadX509KeyPair(pair[0], pair[1]); err != nil {
			t.Errorf("%s: %v", pair[0], err)
		}
	}
	for path, want := range map[string]fs.FileMode{
		filepath.Dir(f.CACert): 0o700, f.CAKey: 0o600, f.ServingKey: 0o600, f.AdminKey: 0o600,
		f.ServiceAccountKey: 0o600, f.Kubeconfig: 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestEnsureReusesAndRenews(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, o *Options, clk *clocktesting.FakePassiveClock)
		changed []string
	}{
		{"nothing", func(*testing.T, *Options, *clocktesting.FakePassiveClock) {}, nil},
		{"eleven months later", func(_ *testing.T, _ *Options, clk *clocktesting.FakePassiveClock) {
			clk.SetTime(start.Add(leafLife - leafRenew))
		}, []string{"admin.crt", "admin.kubeconfig", "apiserver.crt", "front-proxy-client.crt"}},
		{"nine years later", func(_ *testing.T, _ *Options, clk *clocktesting.FakePassiveClock) {
			clk.SetTime(start.Add(authorityLife - authorityRenew))
		}, []string{"admin.crt", "admin.kubeconfig", "apiserver.crt", "ca.crt", "front-proxy-ca.crt", "front-proxy-client.crt"}},
		{"a new host", func(_ *testing.T, o *Options, _ *clocktesting.FakePassiveClock) {
			o.Hosts = append(o.Hosts, "new.example.com")
		}, []string{"apiserver.crt"}},
		{"a new port", func(_ *testing.T, o *Options, _ *clocktesting.FakePassiveClock) {
			o.Server = "https://127.0.0.1:7443"
		}, []string{"admin.kubeconfig"}},
		{"a lost certificate", func(t *testing.T, o *Options, _ *clocktesting.FakePassiveClock) {
			if err := os.Remove(filepath.Join(o.Dir, "apiserver.crt")); err != nil {
				t.Fatal(err)
			}
		}, []string{"apiserver.crt"}},
		{"a lost key", func(t *testing.T, o *Options, _ *clocktesting.FakePassiveClock) {
			if err := os.Remove(filepath.Join(o.Dir, "apiserver.key")); err != nil {
				t.Fatal(err)
			}
		}, []string{"apiserver.crt", "apiserver.key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(start)
			o := options(t, clk)
			if _, err := Ensure(o); err != nil {
				t.Fatal(err)
			}
			before := contents(t, o.Dir)
			c.change(t, &o, clk)
			if _, err := Ensure(o); err != nil {
				t.Fatal(err)
			}
			after := contents(t, o.Dir)
			want := map[string]bool{}
			for _, name := range c.changed {
				want[name] = true
			}
			for name := range after {
				if got := before[name] != after[name]; got != want[name] {
					t.Errorf("%s changed: %v, want %v", name, got, want[name])
				}
			}
		})
	}
}

// A start may crash after any file; the next one must complete the set.
func TestEnsureAfterAnyInterruption(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	o := options(t, clk)
	f, err := Ensure(o)
	if err != nil {
		t.Fatal(err)
	}
	order := []string{f.CAKey, f.CACert, f.ServingKey, f.ServingCert, f.AdminKey, f.AdminCert,
		f.FrontProxyCAKey, f.FrontProxyCACert, f.FrontProxyKey, f.FrontProxyCert, f.ServiceAccountKey, f.Kubeconfig}
	for n := range order {
		for _, path := range order[n:] {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Ensure(o); err != nil {
			t.Fatalf("after %d files: %v", n, err)
		}
		if got := len(contents(t, o.Dir)); got != len(order) {
			t.Errorf("after %d files: %d files at last", n, got)
		}
		for _, pair := range [][2]string{{f.ServingCert, f.ServingKey}, {f.AdminCert, f.AdminKey}} {
			if _, err := tls.LoadX509KeyPair(pair[0], pair[1]); err != nil {
				t.Errorf("after %d files: %v", n, err)
			}
			if err := mustCert(t, pair[0]).CheckSignatureFrom(mustCert(t, f.CACert)); err != nil {
				t.Errorf("after %d files: %v", n, err)
			}
		}
	}
}

func TestBrokenKeyIsNotReplaced(t *testing.T) {
	o := options(t, clocktesting.NewFakePassiveClock(start))
	f, err := Ensure(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.CAKey, []byte("gone"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(o); err == nil {
		t.Error("a broken CA key was accepted")
	}
}

func TestKubeconfig(t *testing.T) {
	f, err := Ensure(options(t, clocktesting.NewFakePassiveClock(start)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		CurrentContext string `json:"current-context"`
		Clusters       []struct {
			Cluster struct {
				Server string
				CA     []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(config.Users[0].User.Cert, config.Users[0].User.Key); err != nil {
		t.Error(err)
	}
	if got := config.Clusters[0].Cluster; got.Server != "https://127.0.0.1:6443" || !bytes.Contains(got.CA, []byte("BEGIN CERTIFICATE")) {
		t.Errorf("cluster: %v", got)
	}
	if config.CurrentContext != "kubernetes-admin@kanzen" {
		t.Errorf("context: %q", config.CurrentContext)
	}
}

func TestSelfSigned(t *testing.T) {
	dir := t.TempDir()
	clk := clocktesting.NewFakePassiveClock(start)
	alternates := SelfSignedAlternates(net.IPv4zero, net.IPv4(10, 0, 0, 1))
	certPath, keyPath, err := SelfSigned(dir, "apiserver", "192.0.2.1", alternates, clk)
	if err != nil {
		t.Fatal(err)
	}
	if certPath != filepath.Join(dir, "apiserver.crt") || keyPath != filepath.Join(dir, "apiserver.key") {
		t.Errorf("paths %s, %s", certPath, keyPath)
	}
	pair, err := tls.LoadX509KeyPair(certPath, keyPath)
	if err != nil {
		t.Fatal(err)
	}
	b, err := readBundle(certPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"192.0.2.1", "localhost", "kubernetes.default.svc", "10.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: b.pool, DNSName: host, CurrentTime: start}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	before := contents(t, dir)
	if _, _, err := SelfSigned(dir, "apiserver", "192.0.2.1", alternates, clk); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, dir); after["apiserver.crt"] != before["apiserver.crt"] {
		t.Error("an existing certificate was replaced")
	}
	if err := os.Remove(keyPath); err != nil {
		t.Fatal(err)
	}
	if _, _, err := SelfSigned(dir, "apiserver", "192.0.2.1", alternates, clk); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(certPath, keyPath); err != nil {
		t.Errorf("after a lost key: %v", err)
	}
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	clk := clocktesting.NewFakePassiveClock(start)
	log := slog.New(slog.DiscardHandler)
	certPath, keyPath, err := SelfSigned(dir, "apiserver", "a", nil, clk)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCertFile(certPath, keyPath, clk, log)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBundleFile(certPath, clk, log)
	if err != nil {
		t.Fatal(err)
	}
	leaf := func() string {
		pair, err := c.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.Subject.CommonName
	}
	first, firstPEM := leaf(), b.PEM()

	if err := os.WriteFile(certPath, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	clk.SetTime(clk.Now().Add(checkEvery))
	if leaf() != first || !bytes.Equal(b.PEM(), firstPEM) {
		t.Error("a broken file replaced the good one")
	}
	if err := os.Remove(certPath); err != nil {
		t.Fatal(err)
	}
	if _, _, err := SelfSigned(dir, "apiserver", "b", nil, clk); err != nil {
		t.Fatal(err)
	}
	if leaf() != first {
		t.Error("files are looked at on every use")
	}
	clk.SetTime(clk.Now().Add(checkEvery))
	if got := leaf(); !strings.HasPrefix(got, "b@") {
		t.Errorf("not reloaded: %s", got)
	}
	if block, _ := pem.Decode(b.PEM()); block == nil || bytes.Equal(b.PEM(), firstPEM) {
		t.Error("bundle not reloaded")
	}
}

func TestParseKeys(t *testing.T) {
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := encodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	for _, c := range []struct {
		name string
		data []byte
		want int
	}{
		{"private", pkcs8, 1},
		{"public", publicPEM, 1},
		{"both", append(append([]byte{}, pkcs8...), publicPEM...), 2},
		{"nothing", []byte("x"), 0},
		{"broken", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), 0},
	} {
		keys, err := ParsePublicKeys(c.data)
		if len(keys) != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%s: %d keys, %v", c.name, len(keys), err)
		}
	}
}

func BenchmarkEnsureFromNothing(b *testing.B) {
	o := options(b, clocktesting.NewFakePassiveClock(start))
	for b.Loop() {
		if err := os.RemoveAll(o.Dir); err != nil {
			b.Fatal(err)
		}
		if _, err := Ensure(o); err != nil {
			b.Fatal(err)
		}
	}
}

// kube-apiserver and kube-controller-manager read service account keys by client-go's keyutil.
func TestServiceAccountKeyIsReadUpstream(t *testing.T) {
	t.Parallel()
	o := options(t, clocktesting.NewFakePassiveClock(start))
	f, err := Ensure(o)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if _, err := keyutil.PrivateKeyFromFile(f.ServiceAccountKey); err != nil {
			t.Error(err)
		}
		if keys, err := keyutil.PublicKeysFromFile(f.ServiceAccountKey); err != nil || len(keys) != 1 {
			t.Errorf("%v, %v", keys, err)
		}
		if _, err := keyutil.PrivateKeyFromFile(f.CAKey); err != nil {
			t.Error(err)
		}
	}
	check()
	// The same key in the form of former versions is put into the other form.
	data, err := os.ReadFile(f.ServiceAccountKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.ServiceAccountKey, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := keyutil.PublicKeysFromFile(f.ServiceAccountKey); err == nil {
		t.Errorf("PKCS #8 is read: %v; then nothing needs to be put into another form", keys)
	}
	if _, err := Ensure(o); err != nil {
		t.Fatal(err)
	}
	check()
	if after, err := os.ReadFile(f.ServiceAccountKey); err != nil || !bytes.Equal(after, data) {
		t.Errorf("it is another key, or %v", err)
	}
}
