package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/backup/kine"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

func migrateCommand() *cobra.Command {
	dir, from, to := config.Standalone().DataDir, "", ""
	var source config.Process // its etcd settings
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move a data directory from etcd to pebble or back, or fill one from kine or etcd",
		Long: `Converts the database in --data-dir to the other engine. No server may be running
on the directory. All revisions and the existing history are kept, so clients
resume their watches. The old database stays in the directory under another name.

With --from, reads a database of kine or an etcd cluster instead, and makes a
database in a data directory that has none. The source is only read, and may be
in use; what is written to it afterwards is not in the new database.

  kanzen migrate --from kine:sqlite:///var/lib/rancher/k3s/server/db/state.db --to pebble
  kanzen migrate --from kine:postgres://user:password@host/kubernetes --to pebble
  kanzen migrate --from etcd://10.0.0.1:2379,10.0.0.2:2379 --to etcd
  kanzen migrate --from etcds://10.0.0.1:2379 --etcd-cafile ca.crt --to pebble`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to != config.EngineEtcd && to != config.EnginePebble {
				return fmt.Errorf("--to: say %s or %s", config.EngineEtcd, config.EnginePebble)
			}
			if dir == "" {
				return errors.New("--data-dir: name the server's data directory")
			}
			if tls := source.EtcdCAFile + source.EtcdCertFile + source.EtcdKeyFile; tls != "" && !strings.HasPrefix(from, "etcds://") {
				return errors.New("--etcd-cafile, --etcd-certfile and --etcd-keyfile are for --from etcds://")
			}
			abs, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			var m *snapshot.Moved
			if from == "" {
				m, err = snapshot.Move(cmd.Context(), abs, to, p.told)
			} else {
				m, err = bring(cmd.Context(), from, &source, abs, to, p.told)
			}
			p.end()
			if err != nil {
				return err
			}
			tell(cmd.OutOrStdout(), "%s now uses %s: %d keys at revision %d, with the history from revision %d\n", abs, m.To, m.Keys, m.Revision, max(1, m.Compacted))
			if m.Kept != "" {
				tell(cmd.OutOrStdout(), "The %s database is kept in %s; remove it when all is well.\n", m.From, m.Kept)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "Data directory of the server.")
	cmd.Flags().StringVar(&from, "from", from, "Database to read instead of the one in --data-dir: kine:sqlite://, kine:postgres://, etcd:// or, with TLS, etcds://.")
	cmd.Flags().StringVar(&to, "to", to, "Engine to move to: etcd or pebble.")
	addEtcdTLS(cmd.Flags(), &source)
	cmd.SetUsageFunc(usage)
	return cmd
}

// bring fills a data directory from a database elsewhere.
func bring(ctx context.Context, from string, source *config.Process, dir, to string, progress func(bytes int64)) (*snapshot.Moved, error) {
	save, done, err := sourceOf(ctx, from, source)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	defer done()
	return snapshot.Bring(ctx, save, dir, to, progress)
}

// sourceOf returns what saves the database that --from names.
func sourceOf(ctx context.Context, from string, c *config.Process) (save snapshot.Saver, done func(), err error) {
	if endpoint, ok := strings.CutPrefix(from, "kine:"); ok {
		return kine.Saver(endpoint), func() {}, nil
	}
	scheme, hosts, _ := strings.Cut(from, "://")
	url, ok := map[string]string{"etcd": "http://", "etcds": "https://"}[scheme]
	if !ok {
		return nil, nil, errors.New("say kine:sqlite:///path, kine:postgres://user:password@host/database, etcd://host:2379 or, with TLS, etcds://host:2379")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		c.EtcdServers = append(c.EtcdServers, url+host)
	}
	db, err := dialEtcd(c)
	if err != nil {
		return nil, nil, err
	}
	if err := db.Reach(ctx, reachTimeout); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return snapshot.FromEtcd(db), func() { _ = db.Close() }, nil
}
