package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

func memberCommand() *cobra.Command {
	m := &membership{}
	cmd := &cobra.Command{
		Use:   "member",
		Short: "Grow an embedded etcd to a cluster: add, promote, list and remove members",
		Long: `The server must have been started with --etcd-listen-client-urls and
--etcd-listen-peer-urls. docs/clusters.md shows how to grow from one machine to
three. Without --etcd-cafile, --etcd-certfile and --etcd-keyfile, the certificates
in --data-dir are used.`,
		Args: commandsOnly,
		RunE: showHelp,
	}
	cmd.AddCommand(m.add(), m.promote(), m.list(), m.remove())
	m.etcd.addEtcd(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&m.etcd.dataDir, "data-dir", "", "Data directory of the server, for the certificates of its etcd.")
	cmd.PersistentFlags().DurationVar(&m.timeout, "timeout", time.Minute, "How long to wait.")
	return cmd
}

// membership is what the subcommands share.
type membership struct {
	etcd    reached
	timeout time.Duration
}

// within calls f with the cluster.
func (m *membership) within(ctx context.Context, f func(ctx context.Context, db *etcd.DB) error) (err error) {
	c := &m.etcd.etcd
	if m.timeout <= 0 {
		return fmt.Errorf("--timeout: %s is not a time to wait", m.timeout)
	}
	if len(c.EtcdServers) == 0 {
		return errors.New("--etcd-servers: name the URL of --etcd-listen-client-urls")
	}
	if dir := m.certificates(); c.EtcdCAFile == "" && dir != "" {
		c.EtcdCAFile, c.EtcdCertFile, c.EtcdKeyFile = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	}
	db, err := m.etcd.cluster()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := reach(ctx, db, min(m.timeout, reachTimeout)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if err = f(ctx, db); errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("--etcd-servers: no answer from %s within %v", strings.Join(c.EtcdServers, ","), m.timeout)
	}
	return err
}

// certificates is where the data directory has those of etcd.
func (m *membership) certificates() string {
	if m.etcd.dataDir == "" {
		return ""
	}
	return filepath.Join(m.etcd.dataDir, "pki", "etcd")
}

func (m *membership) add() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "add NAME PEER-URL",
		Short: "Add a member, first without a vote, and print the command that starts it",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			u, err := url.Parse(args[1])
			if err != nil || u.Scheme != "https" || u.Port() == "" || u.Hostname() == "" {
				return fmt.Errorf("%q is not of the form https://address:port", args[1])
			}
			return m.within(cmd.Context(), func(ctx context.Context, db *etcd.DB) error {
				if to != "" {
					if m.certificates() == "" {
						return errors.New("--certificates-to needs --data-dir, which contains the authority's key")
					}
					if _, err := pki.IssueEtcd(m.certificates(), to, clock.RealClock{}, u.Hostname()); err != nil {
						return fmt.Errorf("issue certificates: %w", err)
					}
				}
				if err := db.AddLearner(ctx, []string{u.String()}); err != nil {
					return err
				}
				return m.explain(ctx, cmd, db, name, u, to)
			})
		},
	}
	cmd.Flags().StringVar(&to, "certificates-to", "", "Directory for the new member's certificates; copy it to the new machine. It is created if it does not exist.")
	return cmd
}

// explain prints how the new member is started.
func (m *membership) explain(ctx context.Context, cmd *cobra.Command, db *etcd.DB, name string, u *url.URL, certificates string) error {
	members, err := db.Members(ctx)
	if err != nil {
		return err
	}
	var initial []string
	for _, other := range members {
		for _, peer := range other.PeerURLs {
			called := other.Name
			if peer == u.String() {
				called = name
			}
			if called == "" {
				return fmt.Errorf("the member at %s was added but has not started; start it first, or remove it", peer)
			}
			initial = append(initial, called+"="+peer)
		}
	}
	if certificates == "" {
		certificates = "CERTIFICATES"
	}
	client := "https://" + u.Hostname() + ":2379"
	tell(cmd.OutOrStdout(), `Added as a learner. Copy %[1]s to its machine and start it there:

  kanzen etcd --name %[2]s --data-dir etcd-data --initial-cluster-state existing --initial-cluster '%[3]s' \
    --listen-peer-urls %[4]s --initial-advertise-peer-urls %[4]s --listen-client-urls %[5]s --advertise-client-urls %[5]s \
    --client-cert-auth --trusted-ca-file %[1]s/ca.crt --cert-file %[1]s/server.crt --key-file %[1]s/server.key \
    --peer-client-cert-auth --peer-trusted-ca-file %[1]s/ca.crt --peer-cert-file %[1]s/server.crt --peer-key-file %[1]s/server.key

Then give it its vote: kanzen member promote %[2]s --etcd-servers …
`, certificates, name, strings.Join(initial, ","), u, client)
	return nil
}

func (m *membership) promote() *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME",
		Short: "Give a member its vote, once it has caught up",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.within(cmd.Context(), func(ctx context.Context, db *etcd.DB) error {
				if err := db.Promote(ctx, args[0]); err != nil {
					return err
				}
				tell(cmd.OutOrStdout(), "%s has a vote\n", args[0])
				return nil
			})
		},
	}
}

func (m *membership) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a member, by its name, ID or peer URL",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.within(cmd.Context(), func(ctx context.Context, db *etcd.DB) error {
				if err := db.Remove(ctx, args[0]); err != nil {
					return err
				}
				tell(cmd.OutOrStdout(), "%s is no longer a member\n", args[0])
				return nil
			})
		},
	}
}

func (m *membership) list() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the members",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.within(cmd.Context(), func(ctx context.Context, db *etcd.DB) error {
				members, err := db.Members(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
				tell(w, "NAME\tID\tVOTE\tPEER URLS\tCLIENT URLS\n")
				for _, x := range members {
					name := x.Name
					if name == "" {
						name = "(not started)"
					}
					tell(w, "%s\t%x\t%t\t%s\t%s\n", name, x.ID, !x.Learner, strings.Join(x.PeerURLs, ","), strings.Join(x.ClientURLs, ","))
				}
				return w.Flush()
			})
		},
	}
}
