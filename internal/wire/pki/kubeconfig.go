package pki

import (
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Kubeconfig is a kubeconfig of one cluster, one user and one context, with embedded certificates, so that the file
// works wherever it is copied.
type Kubeconfig struct {
	Cluster, User string
	Server        string
	// CA is the authority of the server, in PEM.
	CA []byte
	// ClientCert and ClientKey, or Token, are the user's credentials.
	ClientCert, ClientKey []byte
	Token                 string
	// Namespace of the context, empty for "default".
	Namespace string
}

// YAML returns the content of the file.
func (k Kubeconfig) YAML() ([]byte, error) {
	context := k.User + "@" + k.Cluster
	return yaml.Marshal(&clientcmdv1.Config{
		APIVersion:     "v1",
		Kind:           "Config",
		CurrentContext: context,
		Clusters: []clientcmdv1.NamedCluster{{Name: k.Cluster, Cluster: clientcmdv1.Cluster{
			Server: k.Server, CertificateAuthorityData: k.CA,
		}}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{Name: k.User, AuthInfo: clientcmdv1.AuthInfo{
			ClientCertificateData: k.ClientCert, ClientKeyData: k.ClientKey, Token: k.Token,
		}}},
		Contexts: []clientcmdv1.NamedContext{{Name: context, Context: clientcmdv1.Context{
			Cluster: k.Cluster, AuthInfo: k.User, Namespace: k.Namespace,
		}}},
	})
}

// Write writes the file, readable only by its owner. It does not touch a file with the same content.
func (k Kubeconfig) Write(path string) error {
	data, err := k.YAML()
	if err != nil {
		return err
	}
	return writeIfChanged(path, data, fileMode)
}
