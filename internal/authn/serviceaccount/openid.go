package serviceaccount

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Paths that an issuer's metadata is served at.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	JWKSPath          = "/openid/v1/jwks"
)

// metadataAge is how long others may keep the metadata, in seconds.
const metadataAge = 3600

// Discovery serves the two documents by which others can verify tokens of
// this server: who the issuer is, and its keys.
type Discovery struct {
	configuration, keys []byte
}

// NewDiscovery makes the documents. jwksURI is where others find the keys;
// empty means this server's JWKSPath at externalAddress (host and port). An
// issuer that is not an https URL cannot be discovered; that is an error which
// the caller may choose to only log.
func NewDiscovery(issuer, jwksURI, externalAddress string, keys *Keys) (*Discovery, error) {
	if err := checkIssuer(issuer); err != nil {
		return nil, err
	}
	if jwksURI == "" {
		if externalAddress == "" {
			return nil, errors.New("service account issuer discovery: neither a JWKS URI nor an external address is known")
		}
		jwksURI = (&url.URL{Scheme: "https", Host: externalAddress, Path: JWKSPath}).String()
	}
	if u, err := url.Parse(jwksURI); err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("service account JWKS URI %q is not an https URL", jwksURI)
	}
	var algorithms []string
	for _, key := range keys.all {
		algorithms = append(algorithms, key.Algorithm)
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{issuer, jwksURI, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	if err != nil {
		return nil, err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: keys.all})
	if err != nil {
		return nil, err
	}
	return &Discovery{configuration: configuration, keys: set}, nil
}

func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil:
		return fmt.Errorf("service account issuer: %w", err)
	case u.Scheme != "https":
		return fmt.Errorf("service account issuer %q is not an https URL", issuer)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("service account issuer %q has a query or a fragment", issuer)
	}
	return nil
}

// ServeConfiguration answers at ConfigurationPath.
func (d *Discovery) ServeConfiguration(w http.ResponseWriter, _ *http.Request) {
	serveMetadata(w, "application/json", d.configuration)
}

// ServeKeys answers at JWKSPath.
func (d *Discovery) ServeKeys(w http.ResponseWriter, _ *http.Request) {
	serveMetadata(w, "application/jwk-set+json", d.keys)
}

func serveMetadata(w http.ResponseWriter, contentType string, data []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", metadataAge))
	_, _ = w.Write(data) // a client that went away
}
