package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/kubeconfig"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// kubeconfigOptions are the flags of `kanzen kubeconfig`.
type kubeconfigOptions struct {
	dir, plane, context, user, bind, namespace string
	groups                                     []string
	ttl                                        time.Duration
	merge                                      bool
}

func kubeconfigCommand() *cobra.Command {
	o := kubeconfigOptions{dir: config.Standalone().DataDir, ttl: 24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print a kubeconfig for a server, or add it to your own",
		Long: `Prints the kubeconfig of a server's administrator, or makes a certificate for a
user and prints that user's kubeconfig.

  kanzen kubeconfig > kubeconfig
  kanzen kubeconfig --merge                                add a context to ~/.kube/config or $KUBECONFIG
  kanzen kubeconfig --plane team-a --merge                 the same for a plane of 'kanzen serve --planes'
  kanzen kubeconfig --user alice --group dev --bind edit -n team > alice`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dir, "data-dir", o.dir, "Data directory of the server.")
	fs.StringVar(&o.plane, "plane", "", "Print the kubeconfig of this plane of the server. If the plane was just created, the command waits for it.")
	fs.BoolVar(&o.merge, "merge", false, "Add a context to ~/.kube/config, or to the file of $KUBECONFIG.")
	fs.StringVar(&o.context, "context", "", "Name of the context that --merge adds. (default kanzen, kanzen-USER or kanzen-PLANE)")
	fs.StringVar(&o.user, "user", "", "Make a certificate for this user, instead of using the administrator's.")
	fs.StringSliceVar(&o.groups, "group", nil, "Groups of the user.")
	fs.DurationVar(&o.ttl, "ttl", o.ttl, "How long the user's certificate is valid.")
	fs.StringVar(&o.bind, "bind", "", "Role to give the user: a ClusterRole, or with --namespace also a Role.")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "Namespace in which to give the role, and of the user's context.")
	cmd.SetUsageFunc(usage)
	return cmd
}

func (o *kubeconfigOptions) validate(changed func(flag string) bool) error {
	if o.user == "" && changed("user") { // an empty variable in a script is not to make an administrator
		return errors.New("--user: the name is empty; without the flag the user is the administrator")
	}
	if o.user == "" {
		for _, f := range []string{"group", "ttl", "bind", "namespace"} {
			if changed(f) {
				return fmt.Errorf("--%s: works only together with --user", f)
			}
		}
	}
	if o.plane == "" && changed("plane") {
		return errors.New("--plane: the name is empty; without the flag the kubeconfig is that of the server itself")
	}
	if o.plane != "" && o.user != "" {
		return errors.New("--user: does not work together with --plane; use the plane's own roles and tokens")
	}
	if o.ttl <= 0 {
		return fmt.Errorf("--ttl: %s is not a valid lifetime of a certificate", o.ttl)
	}
	if strings.HasPrefix(o.user, "system:") && o.bind != "" {
		return fmt.Errorf("--bind: %s is a built-in user of Kubernetes and needs no role", o.user)
	}
	if o.context != "" && !o.merge {
		return errors.New("--context: works only together with --merge")
	}
	return nil
}

func (o *kubeconfigOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd.Flags().Changed); err != nil {
		return err
	}
	path, err := adminKubeconfig(o.dir)
	if err != nil {
		return err
	}
	if o.plane != "" {
		data, err := planeKubeconfig(cmd.Context(), path, o.plane)
		if err != nil {
			return err
		}
		return o.show(cmd, data)
	}
	admin, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("%s is broken (%s); remove it, and 'kanzen serve' creates it again", path, oneLine(err))
	}
	c := admin.Contexts[admin.CurrentContext]
	if c == nil || admin.Clusters[c.Cluster] == nil || admin.AuthInfos[c.AuthInfo] == nil {
		return fmt.Errorf("%s is broken (it has no current context); remove it, and 'kanzen serve' creates it again", path)
	}
	credentials := userOf(c.AuthInfo, admin)
	if o.user != "" {
		if credentials, err = o.issue(path); err != nil {
			return err
		}
		if o.bind != "" {
			if err := o.grant(cmd, path); err != nil {
				return err
			}
		}
	}
	server := admin.Clusters[c.Cluster].Server
	if o.merge {
		return o.mergeInto(cmd, server, credentials)
	}
	if o.user == "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(b)
		return err
	}
	b, err := pki.Kubeconfig{
		Cluster: "kanzen", User: o.user, Server: server, CA: credentials.ca, Namespace: o.namespace,
		ClientCert: credentials.cert, ClientKey: credentials.key,
	}.YAML()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(b)
	return err
}

// show prints a kubeconfig, or merges it.
func (o *kubeconfigOptions) show(cmd *cobra.Command, data []byte) error {
	if !o.merge {
		_, err := cmd.OutOrStdout().Write(data)
		return err
	}
	c, err := clientcmd.Load(data)
	if err != nil {
		return err
	}
	at := c.Contexts[c.CurrentContext]
	return o.mergeInto(cmd, c.Clusters[at.Cluster].Server, userOf(at.AuthInfo, c))
}

// credentials are how a user is known, and how the server is, in PEM.
type credentials struct{ ca, cert, key []byte }

func userOf(name string, c *clientcmdapi.Config) credentials {
	return credentials{
		ca:   c.Clusters[c.Contexts[c.CurrentContext].Cluster].CertificateAuthorityData,
		cert: c.AuthInfos[name].ClientCertificateData, key: c.AuthInfos[name].ClientKeyData,
	}
}

// issue makes the user's certificate.
func (o *kubeconfigOptions) issue(adminPath string) (credentials, error) {
	s := pki.Subject{Name: o.user, Groups: o.groups, Life: o.ttl}
	ca, cert, key, err := pki.NewClient(filepath.Dir(adminPath), s, time.Now())
	return credentials{ca, cert, key}, err
}

func (o *kubeconfigOptions) mergeInto(cmd *cobra.Command, server string, c credentials) error {
	name := o.context
	if name == "" {
		name = "kanzen"
		if part := cmp.Or(o.plane, o.user); part != "" {
			name += "-" + part
		}
	}
	path, err := kubeconfig.Path()
	if err != nil {
		return err
	}
	b64 := base64.StdEncoding.EncodeToString
	current, err := kubeconfig.Merge(path, kubeconfig.Entry{
		Context: name, Cluster: name, User: name, Server: server, Namespace: o.namespace,
		CA: b64(c.ca), ClientCert: b64(c.cert), ClientKey: b64(c.key),
	})
	if err != nil {
		return err
	}
	use := "kubectl --context " + shellWord(name) + " get namespaces"
	if current {
		use = "kubectl get namespaces"
	}
	tell(cmd.OutOrStdout(), "%s has the context %s: %s\n", path, name, use)
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
