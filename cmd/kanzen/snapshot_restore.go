package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/keyfile"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

func snapshotDiffCommand() *cobra.Command {
	var from reached
	var r read
	cmd := &cobra.Command{
		Use:   "diff FILE [OTHER]",
		Short: "Compare two snapshots, or a snapshot and the running server",
		Long: `Prints a line for each object that differs:

  +  the object is only in the second snapshot or server
  -  the object is only in the first one
  ~  the object is in both; the line names the fields that differ
  !  the object cannot be read

Fields that a server sets anew for a recreated object (uid, resourceVersion,
generation, times, managed fields) are ignored. Values are not printed. The exit
code is 1 only on errors.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			k, done, err := r.kinds(ctx)
			if err != nil {
				return err
			}
			defer done()
			a, err := snapshot.Open(ctx, args[0])
			if err != nil {
				return err
			}
			defer a.Close()
			n := 0
			found := func(c snapshot.Change) { n++; tell(cmd.OutOrStdout(), "%s\n", c) }
			if len(args) == 2 {
				b, err := snapshot.Open(ctx, args[1])
				if err != nil {
					return err
				}
				defer b.Close()
				if err := k.Diff(ctx, a, b, &r.filter, found); err != nil {
					return err
				}
				tell(cmd.ErrOrStderr(), "%d objects differ\n", n)
				return nil
			}
			s, err := from.server()
			if err != nil {
				return err
			}
			if err := k.DiffServer(ctx, a, s, &r.filter, found); err != nil {
				return err
			}
			tell(cmd.ErrOrStderr(), "%d objects differ\n", n)
			return nil
		},
	}
	r.add(cmd.Flags(), true)
	from.addServer(cmd.Flags())
	return cmd
}

// restoring are the settings of restore.
type restoring struct {
	to        reached
	read      read
	dir       string
	keys      string
	phrase    string
	member    snapshot.Member
	bump      uint64
	compacted bool
	overwrite bool
	dryRun    bool
	all       bool
}

func snapshotRestoreCommand() *cobra.Command {
	r := restoring{member: snapshot.SoleMember()}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a snapshot to a new data directory, or some of its objects into the running server",
		Long: `With --to-data-dir, creates a new data directory for 'kanzen serve --data-dir'.
etcd's revision is increased and earlier revisions are marked as compacted, so
that all clients list again. Snapshots contain no keys and certificates: to keep
them, name the file that 'save --with-keys' has written with --keys, or copy pki/
from the old data directory.

With --namespace, --resource, --name or --all, restores objects into the running
server through its API. Missing objects are created. Objects that differ are
reported and, with --overwrite, updated. Nothing is deleted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			objects := r.all || len(r.read.filter.Namespaces)+len(r.read.filter.Resources)+len(r.read.filter.Names) > 0
			switch {
			case r.dir == "" && r.keys != "":
				return errors.New("--keys needs --to-data-dir: keys are restored to a new data directory")
			case r.keys == "" && r.phrase != "":
				return errors.New("--passphrase-file is for --keys")
			case r.dir != "" && objects:
				return errors.New("--to-data-dir restores everything; it does not work together with --namespace, --resource, --name or --all")
			case r.dir != "":
				return r.data(cmd, args[0])
			case objects:
				return r.objects(cmd, args[0])
			}
			return errors.New("name the destination: --to-data-dir creates a new data directory; --namespace, --resource, --name or --all restore into the running server")
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&r.dir, "to-data-dir", "", "New data directory, for 'kanzen serve --data-dir'. It contains etcd's own directory, etcd/.")
	fs.StringVar(&r.keys, "keys", "", "Keys that 'save --with-keys' has saved, to restore to the new data directory.")
	addPassphrase(fs, &r.phrase)
	fs.Uint64Var(&r.bump, "bump-revision", snapshot.DefaultBump, "By how much to increase etcd's revision.")
	fs.BoolVar(&r.compacted, "mark-compacted", true, "Mark everything before the new revision as compacted.")
	fs.StringVar(&r.member.Name, "member-name", r.member.Name, "Name of the etcd member to create the directory for.")
	fs.StringSliceVar(&r.member.PeerURLs, "initial-advertise-peer-urls", r.member.PeerURLs, "Peer URLs of that member.")
	fs.StringVar(&r.member.InitialCluster, "initial-cluster", r.member.InitialCluster, "All members of the new cluster: name=URL, separated by commas.")
	fs.StringVar(&r.member.InitialClusterToken, "initial-cluster-token", r.member.InitialClusterToken, "Token of the new cluster.")
	r.to.addServer(fs)
	r.read.add(fs, true)
	fs.BoolVar(&r.all, "all", false, "Restore all objects into the running server.")
	fs.BoolVar(&r.overwrite, "overwrite", false, "Update objects of the running server that differ.")
	fs.BoolVar(&r.dryRun, "dry-run", false, "Change nothing; only show what would be done.")
	return cmd
}

// data restores a snapshot to a new data directory.
func (r *restoring) data(cmd *cobra.Command, file string) error {
	if !r.compacted && r.bump > 0 && cmd.Flags().Changed("bump-revision") {
		return errors.New("--bump-revision needs --mark-compacted: otherwise clients would mistake old events for new ones")
	}
	if !r.compacted {
		r.bump = 0
	}
	if r.dryRun {
		return errors.New("--dry-run works only when you restore objects into a running server")
	}
	if err := checkMember(r.member); err != nil {
		return err
	}
	if found := config.EnginesIn(r.dir); len(found) > 0 {
		return fmt.Errorf("--to-data-dir: %s is not empty; restore to a new directory", filepath.Join(r.dir, found[0]))
	}
	var keys *keyfile.Keys
	if r.keys != "" {
		phrase, err := passphraseIn(r.phrase)
		if err != nil {
			return err
		}
		if keys, err = keyfile.Open(r.keys, phrase); err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
		if err := keys.CanWrite(r.dir); err != nil { // before anything is
			return fmt.Errorf("--to-data-dir: %w", err)
		}
	}
	_, before := os.Stat(r.dir)
	dir := filepath.Join(r.dir, "etcd")
	if err := snapshot.RestoreData(cmd.Context(), file, dir, r.member, r.bump); err != nil {
		if os.IsNotExist(before) {
			_, _ = os.Remove(dir), os.Remove(r.dir) // they may not have been made
		}
		var path *fs.PathError
		if errors.As(err, &path) && strings.HasPrefix(path.Path, r.dir) {
			return fmt.Errorf("--to-data-dir: %w", err)
		}
		return err
	}
	started := "kanzen serve --data-dir " + r.dir
	if keys != nil {
		if err := keys.Write(r.dir); err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
		if keys.Encrypted() {
			started += " --encryption-provider-config " + filepath.Join(r.dir, keyfile.EncryptionFile)
		}
	}
	tell(cmd.OutOrStdout(), "restored to %s; start the server with: %s\n", dir, started)
	kinds := snapshot.NewKinds(r.read.prefix, builtin.Resources(builtin.Deps{}), nil) // nothing is decrypted
	lines, err := lost(cmd.Context(), kinds, file, r.dir, keys)
	for _, line := range lines {
		tell(cmd.ErrOrStderr(), "%s\n", line)
	}
	return err
}

// checkMember says which flag of a member is wrong; etcd would not name it.
func checkMember(m snapshot.Member) error {
	peers, err := types.NewURLs(m.PeerURLs)
	if err != nil {
		return fmt.Errorf("--initial-advertise-peer-urls: %w", err)
	}
	members, err := types.NewURLsMap(m.InitialCluster)
	switch {
	case err != nil || !strings.Contains(m.InitialCluster, "="):
		return fmt.Errorf("--initial-cluster: %q is not of the form name=https://address:port, separated by commas", m.InitialCluster)
	case members[m.Name] == nil:
		return fmt.Errorf("--initial-cluster: it does not contain %q, the --member-name", m.Name)
	case members[m.Name].String() != peers.String():
		return fmt.Errorf("--initial-advertise-peer-urls: %s is at %s in --initial-cluster", m.Name, members[m.Name])
	}
	return nil
}

// objects restores objects into the running server.
func (r *restoring) objects(cmd *cobra.Command, file string) error {
	ctx := cmd.Context()
	k, done, err := r.read.kinds(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, err := snapshot.Open(ctx, file)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := r.to.server()
	if err != nil {
		return err
	}
	counts := map[snapshot.Outcome]int{}
	err = k.Apply(ctx, f, s, &r.read.filter, snapshot.ApplyOptions{Overwrite: r.overwrite, DryRun: r.dryRun, Clock: clock.RealClock{}}, func(result snapshot.Result) {
		counts[result.Outcome]++
		if result.Outcome != snapshot.Unchanged {
			tell(cmd.OutOrStdout(), "%s\n", result)
		}
	})
	if err == nil && len(counts) == 0 {
		err = fmt.Errorf("%s contains no selected object; 'kanzen snapshot inspect' shows what it contains", file)
	}
	if len(counts) == 0 {
		return err
	}
	summary := ""
	for _, o := range []snapshot.Outcome{snapshot.Created, snapshot.Updated, snapshot.Unchanged, snapshot.Differs, snapshot.Skipped, snapshot.Failed} {
		summary += fmt.Sprintf("%d %s, ", counts[o], o)
	}
	dry := ""
	if r.dryRun {
		dry = " (dry run)"
	}
	tell(cmd.ErrOrStderr(), "%s%s\n", summary[:len(summary)-2], dry)
	if err == nil && counts[snapshot.Failed] > 0 {
		err = fmt.Errorf("%d objects could not be restored", counts[snapshot.Failed])
	}
	return err
}
