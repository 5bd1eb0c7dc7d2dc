package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

// authority issues clients' certificates.
type authority struct {
	*pkitest.Pair
	file string
}

func newTestAuthority(t *testing.T, name string) *authority {
	t.Helper()
	p := pkitest.Issue(t, pkitest.Authority(name), nil)
	file, _ := p.Write(t, t.TempDir())
	return &authority{p, file}
}

// issue makes a client's certificate that is good until a time.
func (a *authority) issue(t *testing.T, name string, until time.Time) *tls.Certificate {
	t.Helper()
	cert := pkitest.Issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.Pair).TLS()
	return &cert
}

// whoAmI asks the server over TLS as which user it authenticates the client.
func whoAmI(t *testing.T, s *server, cert *tls.Certificate, headers http.Header) (int, authenticationv1.UserInfo) {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.listener.Address()+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
		bytes.NewReader([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = headers.Clone()
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review authenticationv1.SelfSubjectReview
	if resp.StatusCode != http.StatusCreated {
		return resp.StatusCode, authenticationv1.UserInfo{} // a Status
	}
	if err := json.Unmarshal(data, &review); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return resp.StatusCode, review.Status.UserInfo
}

// A front proxy sends its users in headers. Headers from clients without the
// proxy's certificate are ignored.
func TestFrontProxy(t *testing.T) {
	proxies, clients, strangers := newTestAuthority(t, "proxies"), newTestAuthority(t, "clients"), newTestAuthority(t, "strangers")
	s := listening(t, func(c *config.Config) {
		c.ClientCAFile, c.RequestHeaderCAFile, c.RequestHeaderAllowedNames = clients.file, proxies.file, []string{"front"}
		c.RequestHeaderUserHeaders, c.RequestHeaderGroupHeaders = []string{"X-Remote-User"}, []string{"X-Remote-Group"}
		c.RequestHeaderUIDHeaders, c.RequestHeaderExtraPrefixes = []string{"X-Remote-Uid"}, []string{"X-Remote-Extra-"}
	})
	later := time.Now().Add(time.Hour)
	jane := http.Header{"X-Remote-User": {"jane"}, "X-Remote-Uid": {"42"}, "X-Remote-Group": {"a", "b"}, "X-Remote-Extra-Acme.com%2Fproject": {"x", "y"}}
	admin := http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}}
	masters := jane.Clone()
	masters["X-Remote-Group"] = []string{"system:masters"}
	masters["Impersonate-User"] = []string{"bob"}
	for _, c := range []struct {
		name    string
		cert    *tls.Certificate
		headers http.Header
		code    int
		user    string
	}{
		{"the proxy", proxies.issue(t, "front", later), jane, http.StatusCreated, "jane"},
		{"the proxy, for one who acts as another", proxies.issue(t, "front", later), masters, http.StatusCreated, "bob"},
		{"the proxy, for nobody", proxies.issue(t, "front", later), http.Header{}, http.StatusUnauthorized, ""},
		{"the proxy, for a user without a name", proxies.issue(t, "front", later), http.Header{"X-Remote-Group": {"system:masters"}}, http.StatusUnauthorized, ""},
		{"another name", proxies.issue(t, "back", later), admin, http.StatusUnauthorized, ""},
		{"a certificate that has expired", proxies.issue(t, "front", time.Now().Add(-time.Minute)), admin, http.StatusUnauthorized, ""},
		{"another authority", strangers.issue(t, "front", later), admin, http.StatusUnauthorized, ""},
		{"a client's certificate", clients.issue(t, "front", later), admin, http.StatusCreated, "front"},
		{"no certificate", nil, admin, http.StatusUnauthorized, ""},
	} {
		code, u := whoAmI(t, s, c.cert, c.headers)
		if code != c.code || u.Username != c.user || slices.Contains(u.Groups, "system:masters") {
			t.Errorf("%s: %d %+v", c.name, code, u)
		}
	}
	_, u := whoAmI(t, s, proxies.issue(t, "front", later), jane)
	if want := (authenticationv1.UserInfo{Username: "jane", UID: "42", Groups: []string{"a", "b", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"acme.com/project": {"x", "y"}}}); !reflect.DeepEqual(u, want) {
		t.Errorf("%+v", u)
	}
}
