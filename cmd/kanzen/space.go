package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
)

func spaceCommand() *cobra.Command {
	var from reached
	var prefix, output string
	cmd := &cobra.Command{
		Use:   "space [FILE]",
		Short: "Show what takes the room of a database",
		Long: `Shows how many objects there are of each kind and in each namespace and how much
room they take, what is history that the next compaction drops, how much of the
files is free, and which objects are the largest. It looks at a running server,
at the data directory of a server that is stopped, or at a snapshot.

  kanzen space
  kanzen space --data-dir /var/lib/kanzen
  kanzen space backup.db -o json

Bytes are those of keys, values and their revisions before the database
compresses them. A running server needs the right to post to /kanzen/space.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("--output: %q is not json", output)
			}
			k := snapshot.NewKinds(prefix, builtin.Resources(builtin.Deps{}), nil)
			if len(args) == 1 {
				found, err := k.Inspect(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if output == "json" {
					return printJSON(cmd.OutOrStdout(), found)
				}
				return printInspection(cmd.OutOrStdout(), found)
			}
			found, err := from.space(cmd.Context(), k)
			if err != nil {
				return err
			}
			if output == "json" {
				return printJSON(cmd.OutOrStdout(), found)
			}
			return printSpace(cmd.OutOrStdout(), found)
		},
	}
	from.addServer(cmd.Flags())
	cmd.Flags().StringVar(&prefix, "etcd-prefix", "/registry", "Prefix of all keys in the database; a running server knows its own.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format: json, or empty for text.")
	return cmd
}

// space looks at the database of a server that is stopped, or asks one that runs.
func (r *reached) space(ctx context.Context, k *snapshot.Kinds) (*snapshot.Space, error) {
	if r.kubeconfig == "" && len(config.EnginesIn(r.dataDir)) > 0 {
		if found, err := k.SpaceOf(ctx, r.dataDir); !errors.Is(err, datadir.ErrInUse) {
			return found, err
		}
	}
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	return s.Space(ctx)
}

// spaceRows bounds the namespaces, planes and large objects that the text has; -o json has them all.
const spaceRows = 10

func printSpace(out io.Writer, s *snapshot.Space) error {
	all := &s.Records
	tell(out, "revision:  %d (history from %d)\nkeys:      %d\n", s.Revision, s.Compacted, s.Keys)
	tell(out, "current:   %s\nold:       %s in %d earlier revisions and deletions, which the next compaction drops\n", size(all.Bytes), size(all.OldBytes), all.OldRecords)
	if s.Disk != nil {
		tell(out, "disk:      %s, of which %s are free for further writes\n", size(s.Disk.Bytes), size(s.Disk.Free))
	}
	if s.History != nil {
		tell(out, "history:   %s on the disk, kept by --history\n", size(s.History.Disk))
	}
	tell(out, "looked:    %v\n", time.Duration(s.Seconds*float64(time.Second)).Round(time.Millisecond))
	rows := s.Resources
	if s.Other.Objects+s.Other.OldRecords > 0 {
		other := s.Other
		other.Name = "(other keys)"
		rows = append(slices.Clone(rows), other)
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	printAmounts(w, "RESOURCE", rows, len(rows))
	printAmounts(w, "NAMESPACE", s.Namespaces, spaceRows)
	printAmounts(w, "PLANE", s.Planes, spaceRows)
	printAmounts(w, "OTHER KEYS", s.Outside, spaceRows)
	if len(s.Largest) > 0 {
		tell(w, "\nLARGEST\tBYTES\n")
	}
	for _, l := range s.Largest[:min(len(s.Largest), spaceRows)] {
		name := strings.TrimPrefix(l.Namespace+"/"+l.Name, "/")
		if l.Resource == "" {
			name = l.Key
		}
		tell(w, "%s\t%d\n", strings.TrimSpace(l.Resource+" "+name), l.Bytes)
	}
	return w.Flush()
}

// printAmounts prints the first rows of some amounts, and how much all others have.
func printAmounts(w io.Writer, of string, rows []snapshot.Amount, most int) {
	if len(rows) == 0 {
		return
	}
	if len(rows) > most {
		others := snapshot.Amount{Name: fmt.Sprintf("(%d others)", len(rows)-most)}
		for _, a := range rows[most:] {
			others.Objects, others.Bytes, others.OldRecords, others.OldBytes = others.Objects+a.Objects, others.Bytes+a.Bytes, others.OldRecords+a.OldRecords, others.OldBytes+a.OldBytes
		}
		rows = append(slices.Clone(rows[:most]), others)
	}
	tell(w, "\n%s\tOBJECTS\tBYTES\tOLD\tOLD BYTES\tENCRYPTED BY\n", of)
	for _, a := range rows {
		var by []string
		for _, provider := range slices.Sorted(maps.Keys(a.Encryption)) {
			by = append(by, fmt.Sprintf("%s (%d)", provider, a.Encryption[provider]))
		}
		tell(w, "%s\t%d\t%d\t%d\t%d\t%s\n", cmp.Or(a.Name, "(no name)"), a.Objects, a.Bytes, a.OldRecords, a.OldBytes, strings.Join(by, ", "))
	}
}
