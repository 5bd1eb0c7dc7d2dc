package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Clients writes kubeconfigs for programs that work with a server, from the server's own files.
type Clients struct {
	files     *Files
	authority *Authority
	server    string
	ca        []byte
}

// NewClients reads the files that Ensure has made in a directory.
func NewClients(dir string) (*Clients, error) {
	c := &Clients{files: filesIn(dir)}
	data, err := os.ReadFile(c.files.Kubeconfig)
	if err != nil {
		return nil, err
	}
	var admin clientcmdv1.Config
	if err := yaml.Unmarshal(data, &admin); err != nil || len(admin.Clusters) == 0 {
		return nil, fmt.Errorf("%s names no server: %w", c.files.Kubeconfig, err)
	}
	c.server, c.ca = admin.Clusters[0].Cluster.Server, admin.Clusters[0].Cluster.CertificateAuthorityData
	c.authority, err = LoadAuthority(c.files.CACert, c.files.CAKey)
	return c, err
}

// Write writes a kubeconfig with a new client certificate.
func (c *Clients) Write(path string, s Subject, now time.Time) error {
	if err := privateDir(filepath.Dir(path)); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	der, err := c.authority.Issue(s, key.Public(), now)
	if err != nil {
		return err
	}
	pem, err := encodeKey(key)
	if err != nil {
		return err
	}
	return Kubeconfig{Cluster: "kanzen", User: s.Name, Server: c.server, CA: c.ca, ClientCert: encodeCerts(der), ClientKey: pem}.Write(path)
}

// CopyAuthority copies the authority, its key and the key of service account tokens into a directory.
func (c *Clients) CopyAuthority(dir string) error {
	if err := privateDir(dir); err != nil {
		return err
	}
	for _, from := range []string{c.files.CACert, c.files.CAKey, c.files.ServiceAccountKey} {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := writeIfChanged(filepath.Join(dir, filepath.Base(from)), data, fileMode); err != nil {
			return err
		}
	}
	return nil
}
