package main

import (
	"github.com/spf13/cobra"
)

func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kanzen",
		Short: "The Kubernetes API server in one binary",
		Long: `kanzen is a Kubernetes API server: one binary with everything kube-apiserver
does, on an etcd inside the process or on a cluster.

  kanzen serve         start a server; it says what to type next
  kanzen kubeconfig    print the kubeconfig of its administrator

Started under the name kube-apiserver it takes that program's flags and place;
started under the name etcd it is etcd's own server.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(serveCommand(), testCommand(), kubeconfigCommand(), encryptionCommand(), versionCommand(), etcdCommand())
	return cmd
}
