package serviceaccount

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Paths of an issuer's metadata.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	JWKSPath          = "/openid/v1/jwks"
)

// metadataAge is how long clients may cache the metadata, in seconds.
const metadataAge = 3600

// Discovery serves the two documents with which others verify this server's tokens: the issuer's configuration and its
// keys.
type Discovery struct {
	issuer, jwksURI string
	keys            KeySource
	made            atomic.Pointer[documents]
}

// documents are the documents of one key set.
type documents struct {
	by                  *Keys
	configuration, keys []byte
}

// NewDiscovery creates the documents. jwksURI is the URL of the keys; empty means this server's JWKSPath at
// externalAddress (host and port). An issuer that is not an https URL cannot be discovered: this is an error, which the
// caller may choose to only log.
func NewDiscovery(issuer, jwksURI, externalAddress string, keys KeySource) (*Discovery, error) {
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
	d := &Discovery{issuer: issuer, jwksURI: jwksURI, keys: keys}
	if _, err := d.documents(); err != nil {
		return nil, err
	}
	return d, nil
}

// documents returns the documents, rebuilt if the keys have changed.
func (d *Discovery) documents() (*documents, error) {
	keys := d.keys.Current()
	if made := d.made.Load(); made != nil && made.by == keys {
		return made, nil
	}
	algorithms := []string{}
	for _, key := range keys.published {
		algorithms = append(algorithms, key.Algorithm)
	}
	slices.Sort(algorithms)
	configuration, err := json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{d.issuer, d.jwksURI, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	if err != nil {
		return nil, err
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: keys.published})
	if err != nil {
		return nil, err
	}
	made := &documents{by: keys, configuration: configuration, keys: set}
	d.made.Store(made)
	return made, nil
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

// mediaType returns the media type of the document at a path.
func mediaType(path string) string {
	if strings.TrimSuffix(path, "/") == JWKSPath {
		return "application/jwk-set+json"
	}
	return "application/json"
}

// acceptable returns an error for a client that does not accept the media type of the document it requests.
func acceptable(r *http.Request) error {
	accept := r.Header.Get("Accept")
	if accept == "" {
		return nil
	}
	kind, sub, _ := strings.Cut(mediaType(r.URL.Path), "/")
	if slices.ContainsFunc(goautoneg.ParseAccept(accept), func(a goautoneg.Accept) bool {
		return (a.Type == "*" || a.Type == kind) && (a.SubType == "*" || a.SubType == sub)
	}) {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "406: Not Acceptable\n\nAvailable representations: " + mediaType(r.URL.Path),
	}}
}

// ServeConfiguration serves ConfigurationPath. With an error nothing has been written.
func (d *Discovery) ServeConfiguration(w http.ResponseWriter, r *http.Request) error {
	return d.serve(w, r, ConfigurationPath, func(made *documents) []byte { return made.configuration })
}

// ServeKeys serves JWKSPath. With an error nothing has been written.
func (d *Discovery) ServeKeys(w http.ResponseWriter, r *http.Request) error {
	return d.serve(w, r, JWKSPath, func(made *documents) []byte { return made.keys })
}

func (d *Discovery) serve(w http.ResponseWriter, r *http.Request, path string, part func(*documents) []byte) error {
	if err := acceptable(r); err != nil {
		return err
	}
	made, err := d.documents()
	if err != nil {
		http.Error(w, "the issuer's keys cannot be published", http.StatusInternalServerError)
		return nil
	}
	w.Header().Set("Content-Type", mediaType(path))
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", made.by.age))
	_, _ = w.Write(part(made)) // the client may have closed the connection
	return nil
}
