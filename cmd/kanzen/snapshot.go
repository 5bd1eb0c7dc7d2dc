package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, restore, inspect and compare backups",
		Long: `A snapshot is etcd's database followed by its SHA-256, as etcdctl and etcdutl
write and read it.

  kanzen snapshot save FILE                      save a running 'kanzen serve', or --etcd-servers
  kanzen snapshot save FILE --at 2h              save what it held two hours ago
  kanzen snapshot inspect FILE                   show what is in it
  kanzen snapshot diff FILE [OTHER]              compare two snapshots, or a snapshot and the running server
  kanzen snapshot restore FILE --to-data-dir D   restore to a new data directory
  kanzen snapshot restore FILE --namespace N     restore what is missing in the running server`,
		Args: commandsOnly,
		RunE: showHelp,
	}
	cmd.AddCommand(snapshotSaveCommand(), snapshotInspectCommand(), snapshotDiffCommand(), snapshotRestoreCommand())
	return cmd
}

// reached says which server or etcd a command is about.
type reached struct {
	dataDir, kubeconfig string
	etcd                config.Process // its etcd settings
}

func (r *reached) addServer(fs *pflag.FlagSet) {
	r.dataDir = config.Standalone().DataDir
	fs.StringVar(&r.dataDir, "data-dir", r.dataDir, "Data directory of the server, for its administrator's kubeconfig.")
	fs.StringVar(&r.kubeconfig, "kubeconfig", "", "Kubeconfig of the server. (default the one in --data-dir)")
}

func (r *reached) addEtcd(fs *pflag.FlagSet) {
	fs.StringSliceVar(&r.etcd.EtcdServers, "etcd-servers", nil, "URLs of an etcd cluster, instead of a server's embedded etcd.")
	addEtcdTLS(fs, &r.etcd)
}

func addEtcdTLS(fs *pflag.FlagSet, c *config.Process) {
	fs.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "Authority of the etcd servers' certificates.")
	fs.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "Client certificate for etcd.")
	fs.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "Key of the client certificate for etcd.")
}

// server connects to the running server.
func (r *reached) server() (*snapshot.Server, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	return snapshot.NewServer(c)
}

// config is that of clients of the running server.
func (r *reached) config() (*rest.Config, error) {
	path := r.kubeconfig
	if path == "" {
		path = filepath.Join(r.dataDir, "pki", "admin.kubeconfig")
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return nil, fmt.Errorf("no server has been started on %s yet; name another one with --data-dir or --kubeconfig", r.dataDir)
		}
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, namesKubeconfig(err, r.kubeconfig, path)
	}
	return c, nil
}

// cluster connects to the etcd cluster; nil: none was named.
func (r *reached) cluster() (*etcd.DB, error) {
	if len(r.etcd.EtcdServers) == 0 {
		return nil, nil
	}
	return dialEtcd(&r.etcd)
}

func dialEtcd(c *config.Process) (*etcd.DB, error) {
	if err := c.CheckEtcdServers(); err != nil {
		return nil, err
	}
	t, err := c.EtcdTLS()
	if err != nil {
		return nil, err
	}
	return etcd.Dial(etcd.Cluster{Endpoints: c.EtcdServers, TLS: t})
}

// read has what commands need that read snapshots.
type read struct {
	prefix, encryption, output string
	filter                     snapshot.Filter
}

func (r *read) add(fs *pflag.FlagSet, filtered bool) {
	fs.StringVar(&r.prefix, "etcd-prefix", "/registry", "Prefix of all keys in etcd.")
	fs.StringVar(&r.encryption, "encryption-provider-config", "", "EncryptionConfiguration file with which values were encrypted.")
	if filtered {
		fs.StringSliceVarP(&r.filter.Namespaces, "namespace", "n", nil, "Only these namespaces and the objects in them.")
		fs.StringSliceVar(&r.filter.Resources, "resource", nil, "Only these resources: secrets, deployments.apps.")
		fs.StringSliceVar(&r.filter.Names, "name", nil, "Only objects with these names.")
	}
}

// kinds returns what knows the objects in snapshots; done gives back what it needs.
func (r *read) kinds(ctx context.Context) (_ *snapshot.Kinds, done func(), err error) {
	transformer := func(schema.GroupResource) store.Transformer { return encryption.None{} }
	done = func() {}
	if r.encryption != "" {
		log := slog.New(slog.DiscardHandler)
		e, err := encryption.New(ctx, encryption.Config{
			File: r.encryption, Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}, Guard: guard.New(log, clock.RealClock{}, nil), Log: log,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("--encryption-provider-config: %w", err)
		}
		transformer, done = e.Transformer, func() { _ = e.Close() }
	}
	return snapshot.NewKinds(r.prefix, builtin.Resources(builtin.Deps{}), transformer), done, nil
}

func snapshotSaveCommand() *cobra.Command {
	var r reached
	var s sealing
	var at string
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save a snapshot of a server's etcd, while it serves",
		Long: `Saves a snapshot. With --with-keys, also saves the keys and certificates of the
server of --data-dir as FILE.keys, sealed with a passphrase:

  kanzen snapshot save backup.db --with-keys --passphrase-file passphrase

'kanzen snapshot restore --keys' opens that file, and so does age: age --decrypt
backup.db.keys | tar x

With --at, saves what the server held at an earlier moment, as far back as its
history goes ('kanzen serve --history'):

  kanzen snapshot save before.db --at 2h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			if err := snapshot.CanSave(args[0]); err != nil {
				return err
			}
			keys, err := s.read(r.dataDir)
			if err != nil {
				return err
			}
			from, done, err := r.stream(cmd.Context(), at)
			if err != nil {
				return err
			}
			defer done()
			p := newProgress(cmd.ErrOrStderr())
			err = snapshot.Save(cmd.Context(), from, args[0], p.told)
			p.end()
			if err != nil {
				return err
			}
			f, err := snapshot.Open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			tell(cmd.OutOrStdout(), "%s: %s, revision %d, %d keys, sha256 %s, %v\n", args[0], size(f.Bytes), f.Revision, len(f.Entries),
				f.SHA256, time.Since(began).Round(time.Millisecond))
			if keys == nil {
				return nil
			}
			if err := keys.Seal(args[0]+snapshot.KeysSuffix, s.passphrase); err != nil {
				return err
			}
			tell(cmd.OutOrStdout(), "%s%s: %d files, sealed with the passphrase\n", args[0], snapshot.KeysSuffix, keys.Len())
			return nil
		},
	}
	r.addServer(cmd.Flags())
	r.addEtcd(cmd.Flags())
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "Save what the server held at a moment: a time (2026-01-02T15:04:05Z), a duration (2h: so long ago) or a resourceVersion; empty: now.")
	return cmd
}

// stream begins a snapshot of what was named, as it is now or as it was at a moment.
func (r *reached) stream(ctx context.Context, at string) (from io.ReadCloser, done func(), err error) {
	db, err := r.cluster()
	if err != nil {
		return nil, nil, err
	}
	if db != nil && at != "" {
		return nil, nil, errors.Join(errors.New("--at does not go together with --etcd-servers: the history is kept by a server, for its own database"), db.Close())
	}
	if db != nil {
		if err := reach(ctx, db, reachTimeout); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		if from, err = db.Snapshot(ctx); err != nil {
			return nil, nil, errors.Join(err, db.Close())
		}
		return from, func() { _, _ = from.Close(), db.Close() }, nil
	}
	s, err := r.server()
	if err != nil {
		return nil, nil, err
	}
	if from, err = s.Snapshot(ctx, at); err != nil {
		return nil, nil, err
	}
	return from, func() { _ = from.Close() }, nil
}

// reachTimeout is how long a cluster may take to answer a command for the first time.
const reachTimeout = 5 * time.Second

// reach returns what keeps this command from a cluster. A stream of a snapshot would wait for the cluster without end.
func reach(ctx context.Context, db *etcd.DB, limit time.Duration) error {
	if err := db.Reach(ctx, limit); err != nil {
		return fmt.Errorf("--etcd-servers: %w", err)
	}
	return nil
}

func snapshotInspectCommand() *cobra.Command {
	var r read
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what is in a snapshot: resources, counts, bytes, revision, checksum",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.output != "" && r.output != "json" {
				return fmt.Errorf("--output: %q is not json", r.output)
			}
			k, done, err := r.kinds(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			found, err := k.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r.output == "json" {
				return printJSON(cmd.OutOrStdout(), found)
			}
			return printInspection(cmd.OutOrStdout(), found)
		},
	}
	r.add(cmd.Flags(), false)
	cmd.Flags().StringVarP(&r.output, "output", "o", "", "Output format: json, or empty for text.")
	return cmd
}

func printInspection(out io.Writer, i *snapshot.Inspection) error {
	tell(out, "file:      %s, %s\nsha256:    %s\n", i.Path, size(i.Bytes), i.SHA256)
	return printSpace(out, i.Space)
}

// size prints bytes for humans.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

// progress tells, on a terminal, how many bytes have come.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) told(bytes int64) {
	if now := time.Now(); p.terminal && now.Sub(p.last) > 200*time.Millisecond {
		p.last = now
		tell(p.out, "\r%s ", size(bytes))
	}
}

func (p *progress) end() {
	if p.terminal {
		tell(p.out, "\r\033[K")
	}
}
