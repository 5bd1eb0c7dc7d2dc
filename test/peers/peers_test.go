// Package peers has API servers of one cluster that do not serve the same, kanzen and kube-apiserver in all pairs, and holds what
// clients see of that against two kube-apiservers.
package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// program is kanzen under the name kube-apiserver.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kanzen-peers-")
	if err == nil {
		program = filepath.Join(dir, kube)
		if built := os.Getenv("KANZEN"); built != "" {
			err = os.Symlink(built, program)
		} else {
			build := exec.Command("go", "build", "-o", program, "./cmd/kanzen")
			build.Dir = "../.."
			build.Stderr = os.Stderr
			err = build.Run()
		}
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// cluster is what the servers of a cluster share.
type cluster struct {
	etcd    string
	flags   []string
	serving tls.Certificate // of API servers
	proxies *x509.CertPool  // the authority of front proxies
	alone   bool            // no flags of peers
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{etcd: peer.Etcd(t)}
	dir := func() string { return t.TempDir() }
	serving, proxies := pkitest.Issue(t, pkitest.Authority("serving"), nil), pkitest.Issue(t, pkitest.Authority("proxies"), nil)
	leaf := func(name string, usage x509.ExtKeyUsage, by *pkitest.Pair) (cert, key string) {
		return pkitest.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"kubernetes.default.svc"},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}}, by).Write(t, dir())
	}
	servingCA, _ := serving.Write(t, dir())
	proxyCA, _ := proxies.Write(t, dir())
	cert, key := leaf("kube-apiserver", x509.ExtKeyUsageServerAuth, serving)
	var err error
	if c.serving, err = tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	c.proxies = x509.NewCertPool()
	c.proxies.AddCert(proxies.Cert)
	clientCert, clientKey := leaf("front-proxy", x509.ExtKeyUsageClientAuth, proxies)
	c.flags = []string{
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--requestheader-client-ca-file=" + proxyCA, "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
		"--requestheader-uid-headers=X-Remote-Uid", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + clientCert, "--proxy-client-key-file=" + clientKey, "--peer-ca-file=" + servingCA,
	}
	return c
}

// withoutPeers leaves out the flags that need the gate.
func (c *cluster) withoutPeers() {
	c.flags = slices.DeleteFunc(c.flags, func(flag string) bool { return strings.HasPrefix(flag, "--peer-") })
	c.alone = true
}

// kube and kanzen are the kinds of servers.
const kube, kanzen = "kube-apiserver", "kanzen"

// start starts a server of a kind.
func (c *cluster) start(t *testing.T, kind, name string, args ...string) *rest.Config {
	t.Helper()
	port := peer.FreePort(t)
	args = slices.Concat(c.flags, args)
	if kind == kube { // which in 1.37.2 tells its usual address, whatever its flags say of peers
		return peer.StartAs(t, c.etcd, name, port, append(args, "--bind-address=0.0.0.0")...)
	}
	if !c.alone {
		args = append(args, "--peer-advertise-ip=127.0.0.1", "--peer-advertise-port="+port)
	}
	return peer.StartProgram(t, program, c.etcd, name, port, args...)
}

// answer is what a server answers.
type answer struct {
	code int
	body string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.code, normal(a.body)) }

// volatile is what differs from one server, or one run, to the next.
var volatile = regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp|time|startTime|batch\.kubernetes\.io/controller-uid|controller-uid)":"[^"]*"|127\.0\.0\.1:\d+`)

func normal(body string) string { return volatile.ReplaceAllString(strings.TrimSpace(body), "$1") }

// as is a client with another user's token.
func as(c *rest.Config, user string) *rest.Config {
	other := rest.CopyConfig(c)
	other.BearerToken = user
	return other
}

// ask sends a request; headers are names and values.
func ask(t *testing.T, c *rest.Config, method, path, body string, headers ...string) answer {
	t.Helper()
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n < len(headers); n += 2 {
		req.Header.Add(headers[n], headers[n+1])
	}
	resp, err := h.Transport.RoundTrip(req) // without following redirects
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, string(data)}
}

// within waits until something is so.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

const (
	jobs = "/apis/batch/v1/namespaces/default/jobs"
	csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	job  = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`

	aggregatedType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// groups are the groups and versions of an aggregated discovery document, with their resources, in order.
func groups(t *testing.T, c *rest.Config, path, accept string) string {
	t.Helper()
	a := ask(t, c, "GET", path, "", "Accept", accept)
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []struct {
					Resource     string
					Verbs        []string
					Subresources []struct{ Subresource string }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	var out strings.Builder
	for _, g := range list.Items {
		for _, v := range g.Versions {
			fmt.Fprintf(&out, "%s/%s", g.Metadata.Name, v.Version)
			for _, r := range v.Resources {
				fmt.Fprintf(&out, " %s%v%v", r.Resource, r.Verbs, r.Subresources)
			}
			out.WriteString("\n")
		}
	}
	return out.String()
}

// facts are what clients see, by what they did.
type facts map[string]string

func (f facts) add(what string, is any) { f[what] = fmt.Sprint(is) }

// ofPeers are the facts of two kube-apiservers, which ask finds.
func ofPeers(t *testing.T, name string, ask func() facts) facts {
	t.Helper()
	return peer.NewRecorded[facts](t, name).Answer("kube-apiserver", ask)
}

// compare holds facts against those of two kube-apiservers.
func compare(t *testing.T, got, want facts) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if got[what] != want[what] {
			t.Errorf("%s:\n%s\nkube-apiserver:\n%s", what, got[what], want[what])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d facts, and %d of kube-apiserver", len(got), len(want))
	}
}
