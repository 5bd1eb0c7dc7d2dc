package testkit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"sigs.k8s.io/yaml"
)

// Access is how a user reaches a server.
type Access struct {
	// URL of the server.
	URL string
	// CA is the authority of the server's certificate; ClientCert and ClientKey are the user's. All are PEM.
	CA, ClientCert, ClientKey []byte

	kubeconfig string
}

// Kubeconfig is the path of a kubeconfig of the user. It is there until the process of the server ends.
func (a *Access) Kubeconfig() string { return a.kubeconfig }

func (a *Access) access() *Access { return a }

// Config returns client-go's rest.Config of a Server's administrator or of a User, in the version of the caller's module:
//
//	cfg := testkit.Config[rest.Config](s)
//
// It has no limit of requests per second.
func Config[C any](of interface{ access() *Access }) *C {
	a := of.access()
	// These names are rest.Config's in every version; they are filled in by name so that this module need not require one.
	text, err := json.Marshal(map[string]any{"Host": a.URL, "CAData": a.CA, "CertData": a.ClientCert, "KeyData": a.ClientKey, "QPS": -1})
	if err != nil {
		panic(err) // of strings and numbers: it cannot be
	}
	c := new(C)
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(c); err != nil {
		panic(fmt.Sprintf("testkit: a %T is no rest.Config: %v", c, err))
	}
	return c
}

// kubeconfigFile is a kubeconfig, as far as it is needed. JSON is YAML, so that it is also written with these names.
type kubeconfigFile struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Cert []byte `json:"client-certificate-data"`
		Key  []byte `json:"client-key-data"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// readKubeconfig reads what kanzen writes: one cluster and one user.
func readKubeconfig(text []byte) (Access, error) {
	var k kubeconfigFile
	if err := yaml.Unmarshal(text, &k); err != nil {
		return Access{}, fmt.Errorf("read a kubeconfig: %w", err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return Access{}, fmt.Errorf("a kubeconfig with %d clusters and %d users", len(k.Clusters), len(k.Users))
	}
	c, u := &k.Clusters[0].Cluster, &k.Users[0].User
	return Access{URL: c.Server, CA: c.CA, ClientCert: u.Cert, ClientKey: u.Key}, nil
}

// write writes the kubeconfig of a user to a file.
func (a *Access) write(path, user string) error {
	k := kubeconfigFile{APIVersion: "v1", Kind: "Config", CurrentContext: "testkit",
		Clusters: make([]namedCluster, 1), Users: make([]namedUser, 1), Contexts: make([]namedContext, 1)}
	k.Clusters[0].Name, k.Clusters[0].Cluster.Server, k.Clusters[0].Cluster.CA = "testkit", a.URL, a.CA
	k.Users[0].Name, k.Users[0].User.Cert, k.Users[0].User.Key = user, a.ClientCert, a.ClientKey
	k.Contexts[0].Name, k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = "testkit", "testkit", user
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	a.kubeconfig = path
	return nil
}

// client returns a client of the server as the user.
func (a *Access) client() (*client, error) {
	pair, err := tls.X509KeyPair(a.ClientCert, a.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("a client certificate: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(a.CA) {
		return nil, errors.New("the authority of the server is no certificate")
	}
	return &client{url: a.URL, Client: http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}}}, nil
}
