package authn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// provider is an OpenID Connect provider over TLS, and its authority.
func provider(t *testing.T) (*mockoidc.MockOIDC, []byte) {
	t.Helper()
	pair := pkitest.Server(t, "127.0.0.1")
	config := &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, NextProtos: []string{"http/1.1"}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := mockoidc.NewServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(tls.NewListener(l, config), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	return m, pair.PEM()
}

// login takes the way of a browser: it asks for a code and trades it for a token.
func login(t *testing.T, m *mockoidc.MockOIDC, ca []byte, u *mockoidc.MockUser) string {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	m.QueueUser(u)
	resp, err := c.Get(m.AuthorizationEndpoint() + "?" + url.Values{"client_id": {m.ClientID}, "response_type": {"code"}, "scope": {"openid email profile groups"},
		"state": {"s"}, "redirect_uri": {"https://client.example.com/callback"}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || back.Query().Get("code") == "" {
		t.Fatalf("no code in %q: %v", resp.Header.Get("Location"), err)
	}
	resp, err = c.PostForm(m.TokenEndpoint(), url.Values{"client_id": {m.ClientID}, "client_secret": {m.ClientSecret}, "grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var tokens struct {
		ID string `json:"id_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&tokens); err != nil || tokens.ID == "" {
		t.Fatalf("no token: %v", err)
	}
	return tokens.ID
}

func jane() *mockoidc.MockUser {
	return &mockoidc.MockUser{Subject: "1", Email: "jane@example.com", EmailVerified: true, PreferredUsername: "jane", Groups: []string{"devs"}}
}

func TestOIDCByFlags(t *testing.T) {
	m, ca := provider(t)
	s := kanzentest.Start(t, kanzentest.Flags("--oidc-issuer-url="+m.Issuer(), "--oidc-client-id="+m.ClientID, "--oidc-ca-file="+write(t, "ca", string(ca)),
		"--oidc-username-claim=preferred_username", "--oidc-groups-claim=groups", "--oidc-groups-prefix=oidc:"))
	token := login(t, m, ca, jane())
	within(t, 15*time.Second, "the issuer is known", func() bool { _, err := whoami(t.Context(), with(s, token)); return err == nil })
	u, err := whoami(t.Context(), with(s, token))
	if err != nil || u.Username != m.Issuer()+"#jane" || !slices.Equal(u.Groups, []string{"oidc:devs", "system:authenticated"}) {
		t.Errorf("%+v, %v", u, err)
	}
	// Signed by the issuer's key, but for nobody in particular.
	m.ClientID = "someone-else"
	if _, err := whoami(t.Context(), with(s, login(t, m, ca, jane()))); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token for another audience: %v", err)
	}
	if _, err := whoami(t.Context(), with(s, token[:len(token)-4]+"AAAA")); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token with another signature: %v", err)
	}
}

func indented(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n      ") }

func issuerConfig(m *mockoidc.MockOIDC, ca []byte, rest string) string {
	return fmt.Sprintf(`
- issuer:
    url: %s
    audiences: [%q, "another"]
    audienceMatchPolicy: MatchAny
    certificateAuthority: |
      %s
%s`, m.Issuer(), m.ClientID, indented(string(ca)), rest)
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:"

func TestOIDCByFile(t *testing.T) {
	one, ca1 := provider(t)
	two, ca2 := provider(t)
	first := issuerConfig(one, ca1, `
  claimMappings:
    username: {expression: 'claims.email_verified ? claims.email.split("@")[0] : "unverified"'}
    groups: {expression: 'dyn(claims.groups).map(g, "one:" + g)'}
    extra: [{key: example.com/sub, valueExpression: claims.sub}]
  userValidationRules: [{expression: '!user.username.startsWith("system:")', message: "reserved"}]
`)
	path := write(t, "authentication.yaml", head+first)
	s := kanzentest.Start(t, kanzentest.Flags("--authentication-config="+path))
	token1, token2 := login(t, one, ca1, jane()), login(t, two, ca2, jane())
	known := func(token string) bool { _, err := whoami(t.Context(), with(s, token)); return err == nil }
	within(t, 15*time.Second, "the first issuer is known", func() bool { return known(token1) })
	u, err := whoami(t.Context(), with(s, token1))
	if err != nil || u.Username != "jane" || u.Groups[0] != "one:devs" || u.Extra["example.com/sub"][0] != "1" {
		t.Errorf("%+v, %v", u, err)
	}
	system := jane()
	system.Email = "system:x@example.com"
	if known(login(t, one, ca1, system)) {
		t.Error("a reserved name was let in")
	}
	if known(token2) {
		t.Error("an issuer that is not configured is known")
	}
	rewrite(t, path, head+first+issuerConfig(two, ca2, `
  claimMappings:
    username: {claim: preferred_username, prefix: "two:"}
`))
	within(t, 20*time.Second, "the second issuer is known", func() bool { return known(token2) })
	// A file that is wrong changes nothing.
	rewrite(t, path, head+" 7")
	refusedFile(t, s, "authentication")
	if !known(token1) || !known(token2) {
		t.Error("a wrong file took the issuers away")
	}
}
