package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/base/version"
)

func rootCommand() *cobra.Command {
	show := false
	cmd := &cobra.Command{
		Use:   "kanzen",
		Short: "The Kubernetes API server in one binary",
		Long: `kanzen is a Kubernetes API server in one binary. It does what kube-apiserver
does, with etcd inside the process or on an etcd cluster.

  kanzen serve                 start a server; it prints what to type next
  kanzen kubectl get pods      run kubectl against that server
  kanzen kubeconfig --merge    add that server to your own kubeconfig

Under the name kube-apiserver it takes that program's flags and defaults.
Under the name etcd it is etcd's own server.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: commandsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show {
				fmt.Fprintln(cmd.OutOrStdout(), "kanzen "+version.Kanzen+" (Kubernetes "+version.Info().GitVersion+")")
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nAll commands: kanzen --help\n", cmd.Long)
			return nil
		},
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.Flags().BoolVar(&show, "version", false, "Print the version.")
	cmd.SetFlagErrorFunc(flagError)
	cmd.AddCommand(serveCommand(), testCommand(), kubeconfigCommand(), kubectlCommand(), resetCommand())
	cmd.AddCommand(applyCommand(), planCommand(), forkCommand(), planeCommand())
	cmd.AddCommand(historyCommand(), getCommand(), diffCommand(), blameCommand(), undeleteCommand(), forgetCommand())
	cmd.AddCommand(whyCommand(), explainAccessCommand(), grantCommand(), topCommand(), diagnoseCommand(), recordCommand(), consoleCommand())
	cmd.AddCommand(assetsCommand(), snapshotCommand(), spaceCommand(), migrateCommand(), checkCommand(), memberCommand(), encryptionCommand(), versionCommand(), etcdCommand(), manCommand())
	explainArguments(cmd)
	checkTexts(cmd, true)
	return cmd
}
