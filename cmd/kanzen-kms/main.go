// Command kanzen-kms is a KMS v2 plugin for kanzen and kube-apiserver, with its keys in a file or in a PKCS#11 token.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/wire/kms"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error: "+err.Error())
		os.Exit(1)
	}
}

// keys are what the commands do with keys, wherever they are.
type keys interface {
	kms.Keys
	Rotate() (string, error)
	Remove(id string) error
	IDs() ([]string, error)
}

// settings say where the keys are.
type settings struct {
	file    string
	token   kms.TokenConfig
	pinFile string
}

// with opens the keys for f.
func (s *settings) with(f func(keys) error) (err error) {
	switch {
	case (s.file == "") == (s.token.Module == ""):
		return errors.New("name either --key-file or --pkcs11-module")
	case s.file != "":
		return f(&kms.File{Path: s.file})
	case s.token.Label == "" || s.pinFile == "":
		return errors.New("--pkcs11-module goes together with --pkcs11-token and --pkcs11-pin-file")
	}
	pin, err := os.ReadFile(s.pinFile)
	if err != nil {
		return fmt.Errorf("--pkcs11-pin-file: %w", err)
	}
	s.token.PIN = strings.TrimSpace(string(pin))
	t, err := kms.OpenToken(s.token)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return f(t)
}

func rootCommand() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "kanzen-kms",
		Short: "A KMS v2 plugin for kanzen and kube-apiserver",
		Long: `kanzen-kms encrypts the seeds of API servers with keys that they never see.

  kanzen-kms rotate --key-file keys              make a key; the newest one encrypts
  kanzen-kms serve --key-file keys --socket s    serve, for endpoint unix://.../s`,
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	flags := cmd.PersistentFlags()
	flags.StringVar(&s.file, "key-file", "", "File with the keys.")
	flags.StringVar(&s.token.Module, "pkcs11-module", "", "Library of a PKCS#11 token with the keys.")
	flags.StringVar(&s.token.Label, "pkcs11-token", "", "Label of the token.")
	flags.StringVar(&s.pinFile, "pkcs11-pin-file", "", "File with the token's user PIN.")
	flags.StringVar(&s.token.Prefix, "pkcs11-key-prefix", "kanzen-kms", "What the labels of the keys begin with.")
	cmd.AddCommand(serveCommand(s), &cobra.Command{
		Use: "rotate", Short: "Make a key, which encrypts from now on", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(func(k keys) error {
				id, err := k.Rotate()
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), id)
				}
				return err
			})
		},
	}, &cobra.Command{
		Use: "list", Short: "Print the IDs of the keys, the newest last", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(func(k keys) error {
				ids, err := k.IDs()
				for _, id := range ids {
					fmt.Fprintln(cmd.OutOrStdout(), id)
				}
				return err
			})
		},
	}, &cobra.Command{
		Use: "remove ID", Short: "Remove a former key, once 'kanzen encryption status' says that nothing needs it", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return s.with(func(k keys) error { return k.Remove(args[0]) })
		},
	})
	return cmd
}

func serveCommand(s *settings) *cobra.Command {
	socket := ""
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the KMS v2 API on a Unix socket", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(func(k keys) error {
				if _, err := k.Current(); err != nil { // better now than in the log of an API server
					return err
				}
				p := &kms.Plugin{Keys: k, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
				return p.Serve(cmd.Context(), socket)
			})
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "Path of the socket.")
	if err := cmd.MarkFlagRequired("socket"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
