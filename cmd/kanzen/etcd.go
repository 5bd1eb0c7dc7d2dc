package main

import "github.com/spf13/cobra"

// etcdCommand is here for the help; main runs it before cobra sees its flags.
func etcdCommand() *cobra.Command {
	return &cobra.Command{Use: "etcd", Short: "etcd's own server, with etcd's own flags", DisableFlagParsing: true,
		Run: func(*cobra.Command, []string) {}}
}
