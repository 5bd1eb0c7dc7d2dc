package authn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/access/authn/cache"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

var (
	now       = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	audiences = []string{"api"}
)

// authority signs client certificates.
type authority struct {
	*pkitest.Pair
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := pkitest.Authority("")
	template.NotAfter = now.Add(time.Hour)
	a := &authority{pkitest.Issue(t, template, nil), x509.NewCertPool()}
	a.pool.AddCert(a.Cert)
	return a
}

func (a *authority) client(t testing.TB, subject pkix.Name, usage x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	return pkitest.Issue(t, x509.Certificate{Subject: subject, NotAfter: now.Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage}}, a.Pair).Cert
}

func tokenFile(t *testing.T) TokenAuthenticator {
	t.Helper()
	users, err := readTokens(strings.NewReader("T,admin,1,\"system:masters,x\"\nU,plain,2\n,nobody,3\n"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return ForAudiences(audiences, func(_ context.Context, token string) (user.Info, error) {
		if u := users[token]; u != nil {
			return u, nil
		}
		return nil, nil
	})
}

func TestAuthenticate(t *testing.T) {
	clients, proxies := newAuthority(t), newAuthority(t)
	const clientAuth = x509.ExtKeyUsageClientAuth
	alice := clients.client(t, pkix.Name{CommonName: "alice", Organization: []string{"devs"}, ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: uidAttribute, Value: "alice-uid"},
	}}, clientAuth)
	proxy := proxies.client(t, pkix.Name{CommonName: "proxy"}, clientAuth)
	a := New(Config{
		RequestHeader: &RequestHeader{
			HeaderNames: StandardHeaders(), Authorities: func() *x509.CertPool { return proxies.pool }, AllowedNames: []string{"proxy"},
		},
		ClientCA:  func() *x509.CertPool { return clients.pool },
		Tokens:    Tokens{Authenticators: []TokenAuthenticator{tokenFile(t)}, Audiences: audiences},
		Anonymous: AnonymousHealth(),
		Clock:     clocktesting.NewFakePassiveClock(now),
	})
	remote := http.Header{
		"X-Remote-User": {"bob"}, "X-Remote-Uid": {"b"}, "X-Remote-Group": {"g1", "", "g2"},
		"X-Remote-Extra-Acme.com%2fproject": {"p"}, "X-Other": {"stays"},
	}
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte("T"))
	socket := func(protocols string) http.Header {
		return http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {protocols}}
	}
	for _, c := range []struct {
		name   string
		path   string
		cert   *x509.Certificate
		header http.Header
		want   string // user/uid/groups; empty: none
		bad    bool
		left   http.Header
	}{
		{name: "nothing", path: "/api"},
		{name: "health", path: "/healthz", want: "system:anonymous//[system:unauthenticated]"},
		{name: "below health", path: "/healthz/etcd"},
		{name: "token", header: http.Header{"Authorization": {"Bearer T"}}, want: "admin/1/[system:masters x system:authenticated]", left: http.Header{}},
		{name: "token without groups", header: http.Header{"Authorization": {"bearer U"}}, want: "plain/2/[system:authenticated]"},
		{name: "bad token", path: "/healthz", header: http.Header{"Authorization": {"Bearer X"}}, bad: true},
		{name: "basic", header: http.Header{"Authorization": {"Basic VDpU"}}},
		{name: "token after two spaces", header: http.Header{"Authorization": {"Bearer  T"}}},
		{name: "empty token", header: http.Header{"Authorization": {"Bearer "}}},
		{name: "certificate", cert: alice, want: "alice/alice-uid/[devs system:authenticated]"},
		{name: "certificate and token", cert: alice, header: http.Header{"Authorization": {"Bearer T"}}, want: "alice/alice-uid/[devs system:authenticated]"},
		{name: "certificate of a server", cert: clients.client(t, pkix.Name{CommonName: "x"}, x509.ExtKeyUsageServerAuth), bad: true},
		{name: "certificate without a name", cert: clients.client(t, pkix.Name{Organization: []string{"x"}}, clientAuth), bad: true},
		{name: "unknown certificate with a token", cert: newAuthority(t).client(t, pkix.Name{CommonName: "x"}, clientAuth), header: http.Header{"Authorization": {"Bearer T"}}, want: "admin/1/[system:masters x system:authenticated]"},
		{name: "proxy", cert: proxy, header: remote, want: "bob/b/[g1 g2 system:authenticated]", left: http.Header{"X-Other": {"stays"}}},
		{name: "headers without a proxy", header: remote},
		{name: "headers of a client", cert: alice, header: remote, want: "alice/alice-uid/[devs system:authenticated]"},
		{name: "other name of proxy", cert: proxies.client(t, pkix.Name{CommonName: "x"}, clientAuth), header: remote, bad: true},
		{name: "websocket", header: socket("a, " + encoded + ",b"), want: "admin/1/[system:masters x system:authenticated]",
			left: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"a,b"}}},
		{name: "websocket without a protocol", header: socket(encoded), bad: true},
		{name: "websocket with two tokens", header: socket("a," + encoded + "," + encoded), bad: true},
		{name: "websocket with garbage", header: socket("a,base64url.bearer.authorization.k8s.io.!"), bad: true},
		{name: "websocket without a token", header: socket("a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/api", nil)
			if c.path != "" {
				r.URL.Path = c.path
			}
			r.Header = c.header.Clone()
			if r.Header == nil {
				r.Header = http.Header{}
			}
			if c.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
			}
			u, ok, err := a.Authenticate(r)
			got := ""
			if ok {
				got = u.GetName() + "/" + u.GetUID() + "/[" + strings.Join(u.GetGroups(), " ") + "]"
			}
			if got != c.want || (err != nil) != c.bad {
				t.Errorf("got %q, %v; want %q, bad %v", got, err, c.want, c.bad)
			}
			if c.left != nil && !reflect.DeepEqual(r.Header, c.left) {
				t.Errorf("headers left: %v, want %v", r.Header, c.left)
			}
			if c.name == "proxy" && !reflect.DeepEqual(u.GetExtra(), map[string][]string{"acme.com/project": {"p"}}) {
				t.Errorf("extra %v", u.GetExtra())
			}
		})
	}
}

// TestNoCertUID ignores the attribute, also where it would be refused.
func TestNoCertUID(t *testing.T) {
	clients := newAuthority(t)
	uids := func(values ...string) *x509.Certificate {
		subject := pkix.Name{CommonName: "alice"}
		for _, value := range values {
			subject.ExtraNames = append(subject.ExtraNames, pkix.AttributeTypeAndValue{Type: uidAttribute, Value: value})
		}
		return clients.client(t, subject, x509.ExtKeyUsageClientAuth)
	}
	for _, c := range []struct {
		cert      *x509.Certificate
		ignored   bool
		want, uid string
	}{
		{uids("1"), false, "alice", "1"},
		{uids("1"), true, "alice", ""},
		{uids("1", "2"), false, "", ""},
		{uids("1", "2"), true, "alice", ""},
		{uids(), true, "alice", ""},
	} {
		a := New(Config{ClientCA: func() *x509.CertPool { return clients.pool }, NoCertUID: c.ignored, Clock: clocktesting.NewFakePassiveClock(now)})
		r := httptest.NewRequest(http.MethodGet, "/api", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
		u, ok, err := a.Authenticate(r)
		if ok != (c.want != "") || ok == (err != nil) || ok && (u.GetName() != c.want || u.GetUID() != c.uid) {
			t.Errorf("%v, ignored %t: %v, %v", c.cert.Subject.Names, c.ignored, u, err)
		}
	}
}

func TestTokenFileErrors(t *testing.T) {
	for _, bad := range []string{"a,b\n", "a,\"b\n"} {
		if _, err := readTokens(strings.NewReader(bad), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

type secrets map[string]*corev1.Secret

func (s secrets) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if secret := s[namespace+"/"+name]; secret != nil {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func TestBootstrapTokens(t *testing.T) {
	const token = "abcdef.0123456789abcdef"
	for _, c := range []struct {
		name, token string
		change      func(*corev1.Secret)
		want        []string
		over        bool
	}{
		{name: "good", want: []string{"system:bootstrappers"}},
		{name: "groups", change: func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:z,system:bootstrappers:a,system:bootstrappers:z")
		}, want: []string{"system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:z"}},
		{name: "not yet expired", change: func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Add(time.Second).Format(time.RFC3339)) }, want: []string{"system:bootstrappers"}},
		{name: "expired", over: true, change: func(s *corev1.Secret) { s.Data["expiration"] = []byte(now.Format(time.RFC3339)) }},
		{name: "bad expiration", over: true, change: func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }},
		{name: "other secret", token: "abcdef.0123456789abcdee"},
		{name: "other id", token: "abcdee.0123456789abcdef"},
		{name: "not of the form", token: "ABCDEF.0123456789abcdef"},
		{name: "other type", change: func(s *corev1.Secret) { s.Type = "Opaque" }},
		{name: "other use", change: func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }},
		{name: "other group", change: func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }},
		{name: "deleted", change: func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{} }},
	} {
		s := &corev1.Secret{Type: bootstrapSecretType, Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		}}
		if c.change != nil {
			c.change(s)
		}
		if c.token == "" {
			c.token = token
		}
		a := BootstrapTokens(secrets{"kube-system/bootstrap-token-abcdef": s}, audiences, clocktesting.NewFakePassiveClock(now))
		got, err := a.AuthenticateToken(t.Context(), c.token, nil)
		if errors.Is(err, errBootstrapExpired) != c.over || err != nil && !c.over {
			t.Errorf("%s: %v", c.name, err)
		}
		if got != nil && (got.Valid != nil) != (len(s.Data["expiration"]) > 0) {
			t.Errorf("%s: valid %+v", c.name, got.Valid)
		}
		switch {
		case (got != nil) != (c.want != nil):
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		case got != nil && (got.User.GetName() != "system:bootstrap:abcdef" || !reflect.DeepEqual(got.User.GetGroups(), c.want)):
			t.Errorf("%s: %v, want groups %v", c.name, got.User, c.want)
		}
	}
}

func TestReviewToken(t *testing.T) {
	tokens := Tokens{Authenticators: []TokenAuthenticator{tokenFile(t)}, Audiences: audiences}
	for _, c := range []struct {
		name          string
		spec          authenticationv1.TokenReviewSpec
		authenticated bool
		user          string
		audiences     []string
		refused       bool
	}{
		{"good", authenticationv1.TokenReviewSpec{Token: "T"}, true, "admin", audiences, false},
		{"for us and others", authenticationv1.TokenReviewSpec{Token: "T", Audiences: []string{"x", "api"}}, true, "admin", audiences, false},
		{"for others", authenticationv1.TokenReviewSpec{Token: "T", Audiences: []string{"x"}}, false, "", nil, false},
		{"bad", authenticationv1.TokenReviewSpec{Token: "X"}, false, "", nil, false},
		{"none", authenticationv1.TokenReviewSpec{}, false, "", nil, true},
	} {
		out, err := tokens.ReviewToken(t.Context(), &authenticationv1.TokenReview{Spec: c.spec})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil {
			continue
		}
		got := out.Status
		if got.Authenticated != c.authenticated || got.User.Username != c.user || !reflect.DeepEqual(got.Audiences, c.audiences) || (got.Error == "") != c.authenticated {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestReviewSelf(t *testing.T) {
	review := ReviewSelf(clocktesting.NewFakePassiveClock(now))
	if _, err := review(t.Context(), nil); !apierrors.IsBadRequest(err) {
		t.Errorf("without a user: %v", err)
	}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "a", UID: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	out, err := review(ctx, nil)
	want := authenticationv1.UserInfo{Username: "a", UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
	if err != nil || !reflect.DeepEqual(out.Status.UserInfo, want) {
		t.Errorf("got %+v, %v", out, err)
	}
}

// A remembered certificate must expire with its validity or its authority.
func TestRememberedCertificate(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	pool := first.pool
	clk := clocktesting.NewFakePassiveClock(now)
	a := &clientCert{authorities: func() *x509.CertPool { return pool }, clock: clk}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{first.client(t, pkix.Name{CommonName: "alice"}, x509.ExtKeyUsageClientAuth)}}
	for _, step := range []struct {
		name   string
		change func()
		good   bool
	}{
		{"new", func() {}, true},
		{"remembered", func() {}, true},
		{"expired", func() { clk.SetTime(now.Add(2 * time.Hour)) }, false},
		{"not yet", func() { clk.SetTime(now.Add(-2 * time.Hour)) }, false},
		{"in time again", func() { clk.SetTime(now) }, true},
		{"another authority", func() { pool = second.pool }, false},
		{"the authority is back", func() { pool = first.pool }, true},
	} {
		step.change()
		if _, ok, err := a.Authenticate(r); ok != step.good || (err == nil) != step.good {
			t.Errorf("%s: %v, %v", step.name, ok, err)
		}
	}
}

func BenchmarkClientCert(b *testing.B) {
	ca := newAuthority(b)
	a := &clientCert{authorities: func() *x509.CertPool { return ca.pool }, clock: clocktesting.NewFakePassiveClock(now)}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{ca.client(b, pkix.Name{CommonName: "alice"}, x509.ExtKeyUsageClientAuth)}}
	for _, c := range []struct {
		name   string
		before func()
	}{{"known", func() {}}, {"new", func() { a.known = cache.Cache[[32]byte, knownCert]{} }}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.before()
				if _, ok, err := a.Authenticate(r); !ok {
					b.Fatal(err)
				}
			}
		})
	}
}
