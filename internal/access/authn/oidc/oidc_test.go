package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// issuer is a server with a key of each kind.
type issuer struct {
	*httptest.Server
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	fetches int
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if i.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	metadata := func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	}
	mux.HandleFunc("/.well-known/openid-configuration", metadata)
	mux.HandleFunc("/elsewhere", metadata)
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches++
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: i.rsa.Public(), KeyID: "rsa", Algorithm: "RS256", Use: "sig"}, {Key: i.ec.Public(), KeyID: "ec", Algorithm: "ES256", Use: "sig"},
		}})
	})
	mux.HandleFunc("/groups", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"groups": []string{"far"}}))))
	})
	return i
}

func (i *issuer) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

// claims returns valid claims with changes; nil removes one.
func (i *issuer) claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": i.URL, "aud": "kanzen", "sub": "u1", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"email": "a@example.com", "groups": []string{"devs"}, "jti": "t1",
		"nested": map[string]any{"a.b": "dotted", "list": []any{"x", map[string]any{"c/d": "deep"}}}}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func (i *issuer) sign(t testing.TB, alg jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(claims)
	token, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := token.CompactSerialize()
	return out
}

func (i *issuer) authenticator(t *testing.T, change func(*apiserver.JWTAuthenticator)) *Authenticator {
	t.Helper()
	none := ""
	j := &apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: i.URL, Audiences: []string{"kanzen"}, CertificateAuthority: i.ca()},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: "sub", Prefix: &none},
			Groups:   apiserver.PrefixedClaimOrExpression{Claim: "groups", Prefix: &none},
		},
	}
	if change != nil {
		change(j)
	}
	compiler, err := NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	m, errs := compiler.Compile(j, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	clk := clocktesting.NewFakeClock(now)
	a, err := New(Options{Config: j, Mapping: m, Algorithms: Algorithms(), Clock: clk,
		Metrics: NewMetrics(prometheus.NewRegistry(), "server", clk), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a.Run(t.Context())
	if err := a.Healthy(); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTokens(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	a := i.authenticator(t, nil)
	publicPEM := func(key crypto.PublicKey) []byte {
		der, _ := x509.MarshalPKIXPublicKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	}
	raw := func(header string, claims map[string]any, signature string) string {
		payload, _ := json.Marshal(claims)
		e := base64.RawURLEncoding.EncodeToString
		return e([]byte(header)) + "." + e(payload) + "." + e([]byte(signature))
	}
	good := i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(nil))
	parts := strings.Split(good, ".")
	for _, c := range []struct {
		name, token string
		want        string // user; empty: none
		bad         string // part of the error; empty: none
	}{
		{"good", good, "u1", ""},
		{"other key", i.sign(t, jose.ES256, i.ec, "ec", i.claims(nil)), "u1", ""},
		{"audiences", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"aud": []string{"x", "kanzen"}})), "u1", ""},
		{"no JWT", "abc", "", ""},
		{"other issuer's token", other.sign(t, jose.RS256, other.rsa, "rsa", other.claims(nil)), "", ""},
		{"other issuer's key", i.sign(t, jose.RS256, other.rsa, "rsa", i.claims(nil)), "", "failed to verify signature"},
		{"unknown key", i.sign(t, jose.RS256, other.rsa, "x", i.claims(nil)), "", "failed to verify signature"},
		{"other audience", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"aud": "x"})), "", "expected audience"},
		{"no audience", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"aud": nil})), "", "expected audience"},
		{"expired", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"exp": now.Add(-time.Second).Unix()})), "", "token is expired"},
		{"not yet valid", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"nbf": now.Add(time.Hour).Unix()})), "", "before the nbf"},
		{"alg none", raw(`{"alg":"none"}`, i.claims(nil), ""), "", "verify token"},
		{"HS256 with the public key", i.sign(t, jose.HS256, publicPEM(i.rsa.Public()), "rsa", i.claims(nil)), "", "unexpected signature algorithm"},
		{"changed claims", parts[0] + "." + strings.Split(raw("", i.claims(map[string]any{"sub": "root"}), ""), ".")[1] + "." + parts[2], "", "failed to verify"},
		{"no signature", parts[0] + "." + parts[1] + ".", "", "verify token"},
		{"no name", i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(map[string]any{"sub": nil})), "", "claim not present"},
	} {
		u, err := a.Authenticate(t.Context(), c.token)
		name := ""
		if u != nil {
			name = u.GetName()
		}
		if name != c.want || (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %q, %v; want %q, %q", c.name, name, err, c.want, c.bad)
		}
	}
}

func TestMappings(t *testing.T) {
	i := newIssuer(t)
	prefix := "p:"
	expressions := func(j *apiserver.JWTAuthenticator) {
		j.ClaimMappings = apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Expression: `claims.sub + "@" + claims.nested.a__dot__b`},
			Groups:   apiserver.PrefixedClaimOrExpression{Expression: `claims.groups + [claims.nested.list[1].c__slash__d, dyn("")]`},
			UID:      apiserver.ClaimOrExpression{Expression: `claims.jti`},
			Extra:    []apiserver.ExtraMapping{{Key: "example.com/a", ValueExpression: `claims.?missing.orValue("none")`}, {Key: "example.com/b", ValueExpression: `""`}},
		}
		j.ClaimValidationRules = []apiserver.ClaimValidationRule{{Expression: `claims.exp - claims.iat <= 3600`, Message: "lives too long"}}
		j.UserValidationRules = []apiserver.UserValidationRule{{Expression: `!user.username.startsWith("system:") && user.groups.all(g, g != "root") && user.extra["example.com/a"].size() == 1`, Message: "reserved"}}
	}
	for _, c := range []struct {
		name   string
		change func(*apiserver.JWTAuthenticator)
		claims map[string]any
		want   *user.DefaultInfo
		bad    string
	}{
		{"claims", func(j *apiserver.JWTAuthenticator) {
			j.ClaimMappings.Username.Prefix, j.ClaimMappings.Groups.Prefix = &prefix, &prefix
			j.ClaimMappings.UID.Claim = "jti"
		}, nil, &user.DefaultInfo{Name: "p:u1", UID: "t1", Groups: []string{"p:devs"}}, ""},
		{"one group", nil, map[string]any{"groups": "one"}, &user.DefaultInfo{Name: "u1", Groups: []string{"one"}}, ""},
		{"groups elsewhere", nil, map[string]any{"groups": nil, "_claim_names": map[string]string{"groups": "s"},
			"_claim_sources": map[string]any{"s": map[string]string{"endpoint": i.URL + "/groups", "access_token": "open"}}},
			&user.DefaultInfo{Name: "u1", Groups: []string{"far"}}, ""},
		{"groups elsewhere, refused", nil, map[string]any{"groups": nil, "_claim_names": map[string]string{"groups": "s"},
			"_claim_sources": map[string]any{"s": map[string]string{"endpoint": i.URL + "/groups"}}}, nil, "403"},
		{"verified address", func(j *apiserver.JWTAuthenticator) { j.ClaimMappings.Username.Claim = "email" }, map[string]any{"email_verified": true},
			&user.DefaultInfo{Name: "a@example.com", Groups: []string{"devs"}}, ""},
		{"unverified address", func(j *apiserver.JWTAuthenticator) { j.ClaimMappings.Username.Claim = "email" }, map[string]any{"email_verified": false}, nil, "email not verified"},
		{"required claim", func(j *apiserver.JWTAuthenticator) {
			j.ClaimValidationRules = []apiserver.ClaimValidationRule{{Claim: "hd", RequiredValue: "example.com"}}
		}, map[string]any{"hd": "example.org"}, nil, "value does not match"},
		{"required claim missing", func(j *apiserver.JWTAuthenticator) {
			j.ClaimValidationRules = []apiserver.ClaimValidationRule{{Claim: "hd", RequiredValue: "example.com"}}
		}, nil, nil, "not present in ID token"},
		{"audiences", func(j *apiserver.JWTAuthenticator) {
			j.Issuer.Audiences, j.Issuer.AudienceMatchPolicy = []string{"a", "b"}, apiserver.AudienceMatchPolicyMatchAny
		}, map[string]any{"aud": "b"}, &user.DefaultInfo{Name: "u1", Groups: []string{"devs"}}, ""},
		{"none of the audiences", func(j *apiserver.JWTAuthenticator) {
			j.Issuer.Audiences, j.Issuer.AudienceMatchPolicy = []string{"a", "b"}, apiserver.AudienceMatchPolicyMatchAny
		}, nil, nil, "expected audience in"},
		{"discovery elsewhere", func(j *apiserver.JWTAuthenticator) { j.Issuer.DiscoveryURL = i.URL + "/elsewhere" }, nil,
			&user.DefaultInfo{Name: "u1", Groups: []string{"devs"}}, ""},
		{"expressions", expressions, nil, &user.DefaultInfo{Name: "u1@dotted", UID: "t1", Groups: []string{"devs", "deep"},
			Extra: map[string][]string{"example.com/a": {"none"}}}, ""},
		{"claim rule", expressions, map[string]any{"exp": now.Add(2 * time.Hour).Unix()}, nil, "lives too long"},
		{"user rule", expressions, map[string]any{"sub": "system:x"}, nil, "reserved"},
		{"expression fails", expressions, map[string]any{"groups": nil}, nil, "error evaluating group claim expression"},
		{"empty name", func(j *apiserver.JWTAuthenticator) {
			j.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Expression: `""`}
		}, nil, nil, "empty username"},
		{"name of another type", func(j *apiserver.JWTAuthenticator) {
			j.ClaimMappings.Username = apiserver.PrefixedClaimOrExpression{Expression: `claims.groups`}
		}, nil, nil, "must return a string"},
	} {
		a := i.authenticator(t, c.change)
		u, err := a.Authenticate(t.Context(), i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(c.claims)))
		if (err != nil) != (c.bad != "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", c.name, err, c.bad)
		}
		if c.want != nil {
			if c.want.Extra == nil {
				c.want.Extra = map[string][]string{}
			}
			c.want.Extra[user.CredentialIDKey] = []string{"JTI=t1"}
			if !reflect.DeepEqual(u, c.want) {
				t.Errorf("%s: %v, want %v", c.name, u, c.want)
			}
		}
	}
}

func TestKeysAreFetchedOnce(t *testing.T) {
	i := newIssuer(t)
	a := i.authenticator(t, nil)
	for range 3 {
		if _, err := a.Authenticate(t.Context(), i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(nil))); err != nil {
			t.Fatal(err)
		}
	}
	if i.fetches != 1 {
		t.Errorf("keys were fetched %d times", i.fetches)
	}
}

// Fetches of the keys are measured unless that is off; tokens are accepted anyway.
func TestKeyMetrics(t *testing.T) {
	i := newIssuer(t)
	for off, want := range map[bool]int{false: 1, true: 0} {
		o := i.authenticator(t, nil).Options
		o.NoKeyMetrics, o.Metrics = off, NewMetrics(prometheus.NewRegistry(), "server", o.Clock)
		a, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		a.Run(t.Context())
		if u, err := a.Authenticate(t.Context(), i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(nil))); u == nil || err != nil {
			t.Errorf("off %t: %v, %v", off, u, err)
		}
		if got := testutil.CollectAndCount(o.Metrics.fetches) + testutil.CollectAndCount(o.Metrics); got != 2*want {
			t.Errorf("off %t: %d metrics of fetches", off, got)
		}
	}
}

func TestReplace(t *testing.T) {
	one, two := newIssuer(t), newIssuer(t)
	clk := clocktesting.NewFakeClock(now)
	s := NewSet(clk, one.authenticator(t, nil))
	if err := s.Replace(t.Context(), []*Authenticator{two.authenticator(t, nil)}); err != nil {
		t.Fatal(err)
	}
	for i, known := range map[*issuer]bool{one: false, two: true} {
		u, err := s.Authenticate(t.Context(), i.sign(t, jose.RS256, i.rsa, "rsa", i.claims(nil)))
		if (u != nil) != known || err != nil {
			t.Errorf("known %v: %v, %v", known, u, err)
		}
	}
}

func FuzzAuthenticate(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3VlciJ9.")
	f.Add("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lzc3VlciIsIl9jbGFpbV9uYW1lcyI6MX0.AAAA")
	a := &Authenticator{issuer: "https://issuer"}
	clk := clocktesting.NewFakeClock(now)
	a.Clock, a.Metrics = clk, NewMetrics(prometheus.NewRegistry(), "", clk)
	f.Fuzz(func(t *testing.T, token string) {
		if u, _ := a.Authenticate(t.Context(), token); u != nil {
			t.Errorf("%q is of %v", token, u)
		}
	})
}
