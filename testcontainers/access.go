package kanzen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"sigs.k8s.io/yaml"
)

// Config returns client-go's rest.Config of the administrator of a Container or a Plane, in the version of the caller's module:
//
//	cfg, err := kanzen.Config[rest.Config](ctx, server)
//
// It has no limit of requests per second.
func Config[C any](ctx context.Context, of interface {
	Kubeconfig(context.Context) ([]byte, error)
}) (*C, error) {
	text, err := of.Kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsOf(text)
	if err != nil {
		return nil, err
	}
	c := new(C)
	strict := json.NewDecoder(bytes.NewReader(fields))
	strict.DisallowUnknownFields()
	if err := strict.Decode(c); err != nil {
		return nil, fmt.Errorf("a %T is no rest.Config: %w", c, err)
	}
	return c, nil
}

// kubeconfigFile is what kanzen writes: one cluster and one user.
type kubeconfigFile struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
			Name   string `json:"tls-server-name"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Cert []byte `json:"client-certificate-data"`
			Key  []byte `json:"client-key-data"`
		} `json:"user"`
	} `json:"users"`
}

// fieldsOf is a kubeconfig under the names that rest.Config has in every version, so that this module need not require one.
func fieldsOf(kubeconfig []byte) ([]byte, error) {
	var k kubeconfigFile
	if err := yaml.Unmarshal(kubeconfig, &k); err != nil {
		return nil, fmt.Errorf("read a kubeconfig: %w", err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return nil, fmt.Errorf("a kubeconfig with %d clusters and %d users", len(k.Clusters), len(k.Users))
	}
	cluster, user := &k.Clusters[0].Cluster, &k.Users[0].User
	return json.Marshal(map[string]any{"Host": cluster.Server, "CAData": cluster.CA, "ServerName": cluster.Name, "CertData": user.Cert, "KeyData": user.Key, "QPS": -1})
}

// certified is a name that is in the certificate of every server. The engine may be on another machine, or this program in a container of its
// own: where the server is from here is known too late for its certificate.
const certified = "localhost"

// moved returns a kubeconfig with another host and port of its server. The path stays: it names a plane.
func moved(kubeconfig []byte, endpoint string) ([]byte, error) {
	var k map[string]any
	if err := yaml.Unmarshal(kubeconfig, &k); err != nil {
		return nil, fmt.Errorf("read a kubeconfig: %w", err)
	}
	clusters, _ := k["clusters"].([]any)
	if len(clusters) != 1 {
		return nil, fmt.Errorf("a kubeconfig with %d clusters", len(clusters))
	}
	named, _ := clusters[0].(map[string]any)
	cluster, _ := named["cluster"].(map[string]any)
	text, _ := cluster["server"].(string)
	server, err := url.Parse(text)
	if err != nil || server.Host == "" {
		return nil, errors.New("a kubeconfig without the URL of a server")
	}
	server.Host = endpoint
	cluster["server"], cluster["tls-server-name"] = server.String(), certified
	return yaml.Marshal(k)
}
