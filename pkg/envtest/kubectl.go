package envtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeCtl runs kubectl.
type KubeCtl struct {
	// Path of the program; empty: that of $KUBEBUILDER_ASSETS or $PATH.
	Path string
	// Opts come before the arguments of each run.
	Opts []string

	failed error // why there is none
}

// Run runs kubectl with arguments and returns what it printed.
func (k *KubeCtl) Run(args ...string) (stdout, stderr io.Reader, err error) {
	if k.failed != nil {
		return strings.NewReader(""), strings.NewReader(""), k.failed
	}
	path := k.Path
	if path == "" {
		path = "kubectl"
		if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
			path = filepath.Join(dir, path)
		}
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(context.Background(), path, append(slices.Clone(k.Opts), args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return &out, &errs, err
}

// kubeConfig makes the content of a kubeconfig.
func kubeConfig(c *rest.Config) ([]byte, error) {
	const name = "envtest"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData,
		TLSServerName: c.ServerName, InsecureSkipTLSVerify: c.Insecure}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: c.CertFile, ClientCertificateData: c.CertData, ClientKey: c.KeyFile, ClientKeyData: c.KeyData,
		Token: c.BearerToken, TokenFile: c.BearerTokenFile, Username: c.Username, Password: c.Password, Exec: c.ExecProvider}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	text, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("write a kubeconfig: %w", err)
	}
	return text, nil
}
