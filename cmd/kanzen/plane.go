package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/keyfile"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot/transfer"
	"github.com/kanzen-io/kanzen/internal/server/planes"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

func planeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plane",
		Short: "Save a plane as a file, make a plane of a file, and move planes to other servers and etcds",
		Long: `A plane of 'kanzen serve --planes' becomes a snapshot file, from which another
server, or a server of its own, goes on. A snapshot of any kube-apiserver's etcd
becomes a plane.

  kanzen plane export team-a team-a.db            save the plane, while it serves
  kanzen plane import team-a team-a.db            make a plane of the file, on this or another server
  kanzen snapshot inspect team-a.db               show what is in it
  kanzen snapshot restore team-a.db --to-data-dir D   make a server of it

If several servers share an etcd, each plane is awake on one of them:

  kanzen plane move team-a --to 10.0.0.2:6443     have it on that server, while it is used
  kanzen plane balance                            show what to move so that all have the same load

Planes can lie in other etcds than the root ('kanzen serve --planes-storage'):

  kanzen plane move team-a --storage fast         have it in that etcd, while it is used`,
		Args: commandsOnly,
		RunE: showHelp,
	}
	cmd.AddCommand(planeExportCommand(), planeImportCommand(), planeMoveCommand(), planeBalanceCommand())
	return cmd
}

// planes connects to the planes of the running server.
func (r *reached) planes() (*planes.Client, error) {
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(c) // an HTTP client may have none
	if err != nil {
		return nil, err
	}
	return planes.NewClient(transport, c.Host), nil
}

// ofPlane says what a refusal means of a plane.
func ofPlane(err error, name string) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the server has no plane %q, or serves no planes (kanzen serve --planes)", name)
	}
	return err
}

func planeExportCommand() *cobra.Command {
	var r reached
	var withKeys bool
	var passphraseFile string
	cmd := &cobra.Command{
		Use:   "export NAME FILE",
		Short: "Save a plane as a snapshot file, while it serves or sleeps",
		Long: `Saves all objects of a plane as they are at one revision, under kube-apiserver's
keys (/registry/...), in the format of 'kanzen snapshot'. With --with-keys, also
saves the keys that sign its tokens and certificates, sealed with a passphrase,
as FILE.keys:

  kanzen plane export team-a team-a.db --with-keys --passphrase-file passphrase`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, file := args[0], args[1]
			if err := snapshot.CanSave(file); err != nil {
				return err
			}
			var passphrase string
			var err error
			switch {
			case withKeys:
				passphrase, err = passphraseIn(passphraseFile)
			case passphraseFile != "":
				err = errors.New("--passphrase-file is for --with-keys")
			}
			if err != nil {
				return err
			}
			c, err := r.planes()
			if err != nil {
				return err
			}
			if err := exportPlane(cmd, c, name, file); err != nil {
				return err
			}
			if !withKeys {
				return nil
			}
			return saveKeys(cmd, c, name, file+snapshot.KeysSuffix, passphrase)
		},
	}
	r.addServer(cmd.Flags())
	cmd.Flags().BoolVar(&withKeys, "with-keys", false, "Also save the signing keys and authorities of the plane, sealed with a passphrase, as FILE"+snapshot.KeysSuffix+".")
	addPassphrase(cmd.Flags(), &passphraseFile)
	return cmd
}

// moveWait is how long a plane that is to move is waited for.
const moveWait = time.Minute

func planeMoveCommand() *cobra.Command {
	var r reached
	var to string
	var storage string
	cmd := &cobra.Command{
		Use:   "move NAME [--to SERVER] [--storage CLASS]",
		Short: "Move a plane to another server or another etcd, while it is used",
		Long: `Names the server that is to have a plane (spec.server of the Plane), or the
storage class that it is to lie in (spec.storageClass), and waits until it is
there. Requests wait meanwhile, watches end and go on there. 'kubectl get
planes -o wide' shows which server has which plane, and where it lies.

  kanzen plane move team-a --to 10.0.0.2:6443
  kanzen plane move team-a --storage fast

With --to="" any server may have it. With --storage="" it lies in the etcd of
the root. Its objects are copied while it is used: a large plane takes longer to
move, but its requests do not wait longer.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, class := cmd.Flags().Changed("to"), cmd.Flags().Changed("storage")
			if !server && !class {
				return errors.New("name where the plane is to go: --to SERVER, --storage CLASS")
			}
			c, err := r.planes()
			if err != nil {
				return err
			}
			if server {
				err = movePlane(cmd, c, args[0], to)
			}
			if class && err == nil {
				err = relocatePlane(cmd, c, args[0], storage)
			}
			return err
		},
	}
	r.addServer(cmd.Flags())
	cmd.Flags().StringVar(&to, "to", "", `The server, as status.server of planes names it; "": any.`)
	cmd.Flags().StringVar(&storage, "storage", "", `The storage class, one of the server's --planes-storage; "": the etcd of the root.`)
	return cmd
}

func relocatePlane(cmd *cobra.Command, c *planes.Client, name, class string) error {
	began := time.Now()
	if err := c.Relocate(cmd.Context(), name, class); err != nil {
		return ofPlane(err, name)
	}
	for {
		there, failure, err := c.Lies(cmd.Context(), name)
		switch {
		case err != nil:
			return ofPlane(err, name)
		case failure != "":
			return fmt.Errorf("plane %s: %s; the server goes on trying", name, failure)
		case there && class == "":
			tell(cmd.OutOrStdout(), "plane %s is in the etcd of the root, %v\n", name, time.Since(began).Round(time.Millisecond))
			return nil
		case there:
			tell(cmd.OutOrStdout(), "plane %s is in the storage class %s, %v\n", name, class, time.Since(began).Round(time.Millisecond))
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

func movePlane(cmd *cobra.Command, c *planes.Client, name, to string) error {
	began := time.Now()
	if err := c.Move(cmd.Context(), name, to); err != nil {
		return ofPlane(err, name)
	}
	for {
		server, awake, err := c.Server(cmd.Context(), name)
		switch {
		case err != nil:
			return ofPlane(err, name)
		case to == "":
			tell(cmd.OutOrStdout(), "any server may have plane %s\n", name)
			return nil
		case server == "" && awake:
			return errors.New("the server shares its etcd with no other: there is nowhere to move a plane to")
		case server == "":
			tell(cmd.OutOrStdout(), "plane %s is asleep, and wakes on %s if that runs\n", name, to)
			return nil
		case server == to:
			tell(cmd.OutOrStdout(), "plane %s is on %s, %v\n", name, to, time.Since(began).Round(time.Millisecond))
			return nil
		case time.Since(began) > moveWait:
			return fmt.Errorf("plane %s is still on %s: does a server %s run?", name, server, to)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		}
	}
}

func exportPlane(cmd *cobra.Command, c *planes.Client, name, file string) error {
	began := time.Now()
	from, err := c.Export(cmd.Context(), name)
	if err != nil {
		return ofPlane(err, name)
	}
	defer from.Close()
	if err := transfer.Save(cmd.Context(), from, file, time.Now()); err != nil {
		return err
	}
	f, err := snapshot.Open(cmd.Context(), file)
	if err != nil {
		return err
	}
	defer f.Close()
	tell(cmd.OutOrStdout(), "%s: %s, revision %d, %d keys, sha256 %s, %v\n", file, size(f.Bytes), f.Revision, len(f.Entries), f.SHA256,
		time.Since(began).Round(time.Millisecond))
	return nil
}

func saveKeys(cmd *cobra.Command, c *planes.Client, name, file, passphrase string) error {
	set, err := c.Keys(cmd.Context(), name)
	if err != nil {
		return fmt.Errorf("--with-keys: %w", err)
	}
	keys, err := keyfile.Of(set)
	if err != nil {
		return err
	}
	if err := keys.Seal(file, passphrase); err != nil {
		return err
	}
	tell(cmd.OutOrStdout(), "%s: %d files, sealed with the passphrase\n", file, keys.Len())
	return nil
}

func planeImportCommand() *cobra.Command {
	var r reached
	var what read
	var keysFile, passphraseFile string
	cmd := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Make a plane of a snapshot file",
		Long: `Makes a new plane of a snapshot: one of 'kanzen plane export', 'kanzen snapshot
save' or etcdctl. The plane is served once all objects are there. An import that
was cut off is completed by another one.

  kanzen plane import team-a team-a.db --keys team-a.db.keys --passphrase-file passphrase
  kanzen plane import old etcd-backup.db --etcd-prefix /registry

Users, tokens and certificates of before are valid in the plane only with --keys.
To give the plane limits, create it before, with spec.imported: true.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			signing, err := signingKeys(keysFile, passphraseFile)
			if err != nil {
				return err
			}
			k, done, err := what.kinds(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			c, err := r.planes()
			if err != nil {
				return err
			}
			return importPlane(cmd, c, args[0], args[1], k, what.prefix, signing)
		},
	}
	r.addServer(cmd.Flags())
	what.add(cmd.Flags(), false)
	cmd.Flags().StringVar(&keysFile, "keys", "", "Sealed keys to give the plane, from 'kanzen plane export --with-keys' or 'kanzen snapshot save --with-keys'.")
	addPassphrase(cmd.Flags(), &passphraseFile)
	return cmd
}

// signingKeys opens sealed keys; nil: none are named.
func signingKeys(file, passphraseFile string) (map[string][]byte, error) {
	if file == "" {
		if passphraseFile != "" {
			return nil, errors.New("--passphrase-file is for --keys")
		}
		return nil, nil
	}
	passphrase, err := passphraseIn(passphraseFile)
	if err != nil {
		return nil, err
	}
	k, err := keyfile.Open(file, passphrase)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	signing := k.Named(pki.SharedNames())
	if len(signing) != len(pki.SharedNames()) {
		return nil, fmt.Errorf("--keys: %s does not have all of %v", file, pki.SharedNames())
	}
	return signing, nil
}

func importPlane(cmd *cobra.Command, c *planes.Client, name, path string, k *snapshot.Kinds, prefix string, signing map[string][]byte) (err error) {
	began := time.Now()
	f, err := snapshot.Open(cmd.Context(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	send := func(to io.Writer) (transfer.Sent, error) {
		return transfer.Send(cmd.Context(), f, k, prefix, signing, to)
	}
	// Nothing is created of a file that cannot be a plane's.
	if _, err := send(io.Discard); err != nil {
		return err
	}
	var sent transfer.Sent
	made, err := c.Import(cmd.Context(), name, func(to io.Writer) (err error) {
		sent, err = send(to)
		return err
	})
	if err != nil {
		return ofPlane(err, name)
	}
	left := ""
	if sent.Left > 0 {
		left = fmt.Sprintf(", %d keys of other kinds left out", sent.Left)
	}
	tell(cmd.OutOrStdout(), "plane %s: %d objects, %s, revision %d%s, %v\n", name, made.Objects, size(made.Bytes), made.Revision, left,
		time.Since(began).Round(time.Millisecond))
	tell(cmd.OutOrStdout(), "kanzen kubeconfig --plane %s\n", shellWord(name))
	return nil
}
