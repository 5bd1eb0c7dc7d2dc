package config

import (
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authn/oidc"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

func (c *Config) addTokenFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.AuthenticationConfigFile, "authentication-config", c.AuthenticationConfigFile, "File that says whose tokens are accepted and who may be anonymous, instead of --oidc-* and --anonymous-auth; taken up again when it changes.")
	fs.StringVar(&c.OIDCIssuerURL, "oidc-issuer-url", c.OIDCIssuerURL, "OpenID Connect issuer whose tokens are accepted.")
	fs.StringVar(&c.OIDCClientID, "oidc-client-id", c.OIDCClientID, "Audience that the issuer's tokens must be for.")
	fs.StringVar(&c.OIDCCAFile, "oidc-ca-file", c.OIDCCAFile, "Authorities of the issuer's certificate. (default: the host's)")
	fs.StringVar(&c.OIDCUsernameClaim, "oidc-username-claim", c.OIDCUsernameClaim, "Claim that is the user's name.")
	fs.StringVar(&c.OIDCUsernamePrefix, "oidc-username-prefix", c.OIDCUsernamePrefix, "Prefix of users' names; '-' for none. (default: the issuer's URL and '#', unless the claim is email)")
	fs.StringVar(&c.OIDCGroupsClaim, "oidc-groups-claim", c.OIDCGroupsClaim, "Claim that is the user's groups, one or a list.")
	fs.StringVar(&c.OIDCGroupsPrefix, "oidc-groups-prefix", c.OIDCGroupsPrefix, "Prefix of groups.")
	fs.StringSliceVar(&c.OIDCSigningAlgorithms, "oidc-signing-algs", c.OIDCSigningAlgorithms, "Signatures accepted: "+strings.Join(oidc.Algorithms(), ", ")+".")
	fs.StringToStringVar(&c.OIDCRequiredClaims, "oidc-required-claim", c.OIDCRequiredClaims, "key=value of a claim that tokens must have; may be given several times.")
	fs.StringVar(&c.TokenWebhookFile, "authentication-token-webhook-config-file", c.TokenWebhookFile, "kubeconfig of a server that is asked about tokens.")
	fs.StringVar(&c.TokenWebhookVersion, "authentication-token-webhook-version", c.TokenWebhookVersion, "Version of the TokenReviews it is sent.")
	fs.DurationVar(&c.TokenWebhookTTL, "authentication-token-webhook-cache-ttl", c.TokenWebhookTTL, "How long its answers are remembered.")
	fs.StringVar(&c.ServiceAccountSigningEndpoint, "service-account-signing-endpoint", c.ServiceAccountSigningEndpoint, "Unix socket of a program that signs service-account tokens, instead of --service-account-signing-key-file and --service-account-key-file.")
}

// abstractSocket matches the name of a socket in Linux's abstract namespace.
var abstractSocket = regexp.MustCompile(`^@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+$`)

// maxTokenLife bounds --service-account-max-token-expiration.
const maxTokenLife = (1 << 32) * time.Second

func (c *Config) validateAuthentication(bad reporter) {
	set := func(prefix string) bool {
		return c.given != nil && slices.ContainsFunc([]string{"issuer-url", "client-id", "ca-file", "username-claim", "username-prefix",
			"groups-claim", "groups-prefix", "signing-algs", "required-claim"}, func(f string) bool { return c.given(prefix + f) })
	}
	switch {
	case c.AuthenticationConfigFile != "" && set("oidc-"):
		bad("authentication-config", "file and oidc-* flags are mutually exclusive")
	case c.AuthenticationConfigFile == "" && (set("oidc-") || c.OIDCIssuerURL != "") && (c.OIDCIssuerURL == "" || c.OIDCClientID == ""):
		bad("oidc-issuer-url", "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	c.validateFrontProxy(bad)
	seen := map[string]bool{}
	for _, issuer := range c.ServiceAccountIssuers {
		if issuer == "" {
			bad("service-account-issuer", "should not be an empty string")
			continue
		}
		if _, err := url.Parse(issuer); err != nil && strings.Contains(issuer, ":") {
			bad("service-account-issuer", "%q contained a ':' but was not a valid URL: %v", issuer, err)
		}
		if seen[issuer] {
			bad("service-account-issuer", "%q is already specified", issuer)
		}
		seen[issuer] = true
	}
	if d := c.ServiceAccountMaxExpiration; d != 0 && (d < time.Hour || d > maxTokenLife) {
		bad("service-account-max-token-expiration", "must be between 1 hour and 2^32 seconds")
	}
	if e := c.ServiceAccountSigningEndpoint; e != "" {
		if c.ServiceAccountSigningKey != "" || len(c.ServiceAccountKeyFiles) > 0 {
			bad("service-account-signing-endpoint", "can't be set with --service-account-signing-key-file or --service-account-key-file")
		}
		if strings.HasPrefix(e, "@") && !abstractSocket.MatchString(e) {
			bad("service-account-signing-endpoint", "%q is not the name of an abstract socket", e)
		}
	}
}

// validateFrontProxy validates the header names of a front proxy, and that client certificates are not accepted as a
// front proxy's.
func (c *Config) validateFrontProxy(bad reporter) {
	for flag, values := range map[string][]string{
		"requestheader-username-headers": c.RequestHeaderUserHeaders, "requestheader-uid-headers": c.RequestHeaderUIDHeaders,
		"requestheader-group-headers": c.RequestHeaderGroupHeaders, "requestheader-extra-headers-prefix": c.RequestHeaderExtraPrefixes,
		"requestheader-allowed-names": c.RequestHeaderAllowedNames,
	} {
		if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			bad(flag, "empty value")
		}
	}
	uid := c.RequestHeaderUIDHeaders
	if len(uid) > 0 && !c.Enabled(features.RemoteRequestHeaderUID) {
		bad("requestheader-uid-headers", "requires the %q feature to be enabled", features.RemoteRequestHeaderUID)
	} else if len(uid) > 0 && !slices.ContainsFunc(uid, func(h string) bool { return strings.EqualFold(h, "X-Remote-Uid") }) {
		bad("requestheader-uid-headers", "is set without specifying the standard X-Remote-Uid header - API aggregation will not work")
	}
	if c.ClientCAFile != "" && c.RequestHeaderCAFile != "" && len(c.RequestHeaderAllowedNames) == 0 && overlap(c.ClientCAFile, c.RequestHeaderCAFile) {
		bad("requestheader-client-ca-file", "and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")
	}
}

// OwnFrontProxy reports whether the server is its own front proxy, with a certificate that it makes.
func (c *Plane) OwnFrontProxy() bool {
	return c.ownKeys && c.RequestHeaderCAFile == "" && c.ProxyClientCertFile == ""
}

// FrontProxy returns the headers in which front proxies name users, and the names of front proxies; none: any.
func (c *Plane) FrontProxy() (headers authn.HeaderNames, names []string) {
	headers, names = authn.HeaderNames{
		Username: c.RequestHeaderUserHeaders, UID: c.RequestHeaderUIDHeaders,
		Group: c.RequestHeaderGroupHeaders, ExtraPrefix: c.RequestHeaderExtraPrefixes,
	}, c.RequestHeaderAllowedNames
	if c.OwnFrontProxy() {
		headers, names = authn.StandardHeaders(), []string{pki.FrontProxyName}
	}
	if c.gates.Off(features.RemoteRequestHeaderUID) {
		headers.UID = nil
	}
	return headers, names
}

// ProxyHeaders are the names of the headers in which a front proxy sends its users, also where none is known.
func (c *Plane) ProxyHeaders() authn.HeaderNames {
	if c.RequestHeaderCAFile == "" {
		return authn.StandardHeaders()
	}
	headers, _ := c.FrontProxy()
	return headers
}

// overlap reports whether two files have a certificate in common. Files that cannot be read are reported elsewhere.
func overlap(a, b string) bool {
	in := map[string]bool{}
	each := func(path string, found func(der string) bool) bool {
		data, _ := os.ReadFile(path)
		for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" && found(string(block.Bytes)) {
				return true
			}
		}
		return false
	}
	each(a, func(der string) bool { in[der] = true; return false })
	return each(b, func(der string) bool { return in[der] })
}

// Authentication returns the flags --oidc-* in the form of the file.
func (c *Plane) Authentication() (*apiserver.AuthenticationConfiguration, error) {
	out := &apiserver.AuthenticationConfiguration{}
	if c.AuthenticationConfigFile != "" || c.OIDCIssuerURL == "" {
		return out, nil
	}
	prefix := c.OIDCUsernamePrefix
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && c.OIDCUsernameClaim != "email":
		prefix = c.OIDCIssuerURL + "#"
	}
	j := apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: c.OIDCIssuerURL, Audiences: []string{c.OIDCClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: c.OIDCUsernameClaim, Prefix: &prefix}},
	}
	if c.OIDCGroupsClaim != "" {
		j.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: c.OIDCGroupsClaim, Prefix: &c.OIDCGroupsPrefix}
	}
	if c.OIDCCAFile != "" {
		ca, err := os.ReadFile(c.OIDCCAFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		j.Issuer.CertificateAuthority = string(ca)
	}
	for claim, value := range c.OIDCRequiredClaims {
		j.ClaimValidationRules = append(j.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	out.JWT = []apiserver.JWTAuthenticator{j}
	return out, nil
}

// Anonymous returns which requests may be anonymous, by the file or the flags. Who gives the flag wants what it does in
// kube-apiserver: all requests, and not just those for health and for the console's page.
func (c *Plane) Anonymous(file *apiserver.AnonymousAuthConfig, allowAll bool, page []string) (authn.Anonymous, error) {
	healthOnly := c.AnonymousHealthOnly && !c.anonymousAsked
	switch {
	case file != nil && c.anonymousAsked:
		return authn.Anonymous{}, fmt.Errorf("--anonymous-auth: cannot be set when anonymous field is configured in authentication configuration file")
	case file != nil && !file.Enabled:
		return authn.Anonymous{}, nil
	case file != nil:
		a := authn.Anonymous{All: len(file.Conditions) == 0}
		for _, condition := range file.Conditions {
			a.Paths = append(a.Paths, condition.Path)
		}
		return a, nil
	case !c.AnonymousAuth, allowAll && !healthOnly:
		// With AlwaysAllow, anonymous requests would be allowed everything, which is not intended.
		return authn.Anonymous{}, nil
	case healthOnly:
		a := authn.AnonymousHealth()
		a.Paths = append(a.Paths, page...)
		return a, nil
	}
	return authn.Anonymous{All: true}, nil
}
