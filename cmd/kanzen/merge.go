package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	forksv1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
)

func forkMergeCommand() *cobra.Command {
	var a asking
	var force, dryRun bool
	cmd := &cobra.Command{
		Use:   "merge NAME",
		Short: "Bring what was changed in a fork back into the server",
		Long: `Writes what was changed in a fork into the server, in one transaction and as
requests of yours. Fields that only the fork has changed are written, fields that
only the server has changed stay. If both have changed a field, nothing is
written, and all such fields are named with their owners.

  kanzen fork merge try --dry-run
  kanzen fork merge try
  kanzen fork merge try --force     in conflicts, the fork is right`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), false)
	cmd.Flags().BoolVar(&force, "force", false, "Where both have changed a field, take the value of the fork.")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only show what would be written.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open()
		if err != nil {
			return err
		}
		m, refused := s.merge(cmd.Context(), args[0], force, dryRun)
		p := refusedMerge(refused)
		switch {
		case p == nil && refused != nil:
			return refused
		case p == nil:
			if p, err = s.merged(cmd.Context(), m, dryRun); err != nil {
				return err
			}
		}
		if a.output == "json" {
			return errors.Join(printJSON(cmd.OutOrStdout(), p), refused)
		}
		p.print(cmd.OutOrStdout())
		return refused
	}
	return cmd
}

// merge has the server merge a fork.
func (a *asker) merge(ctx context.Context, name string, force, dryRun bool) (*forksv1.Merge, error) {
	m := &forksv1.Merge{Spec: forksv1.MergeSpec{Fork: name, Force: force}}
	m.SetGroupVersionKind(forksv1.GroupVersion().WithKind("Merge"))
	path := "/apis/" + forksv1.GroupVersion().String() + "/merges"
	if dryRun {
		path += "?dryRun=All"
	}
	err := a.ask(ctx, http.MethodPost, path, "", m, m)
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Code == http.StatusNotFound && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Name != name) {
		return nil, errors.New("the server has no forks (--extensions)")
	}
	return m, err
}

// mergedFork is what a merge has done, or would do.
type mergedFork struct {
	ResourceVersion string             `json:"resourceVersion,omitempty"`
	Objects         []plannedObject    `json:"objects"`
	Others          []bundlev1.Other   `json:"others,omitempty"`
	Overwritten     []forksv1.Conflict `json:"overwritten,omitempty"`
	Left            []forksv1.Left     `json:"left,omitempty"`
	// Refused are the conflicts, or other reasons why nothing was written.
	Refused []refusedObject `json:"refused,omitempty"`
}

// refusedMerge is a merge that is refused for reasons of its objects; nil: that is not the reason of an error.
func refusedMerge(err error) *mergedFork {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return nil
	}
	m := &mergedFork{Objects: []plannedObject{}}
	for _, c := range status.ErrStatus.Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict && c.Field != "spec.fork" {
			return nil
		}
		m.Refused = append(m.Refused, refusedObject{Item: c.Field, Reason: string(c.Type), Message: c.Message})
	}
	return m
}

// merged reads the answer to a merge. Of a dry run it compares the objects with those that the server has.
func (a *asker) merged(ctx context.Context, m *forksv1.Merge, dryRun bool) (*mergedFork, error) {
	out := &mergedFork{ResourceVersion: m.Status.ResourceVersion, Objects: []plannedObject{}, Others: m.Status.Others, Overwritten: m.Status.Overwritten, Left: m.Status.Left}
	resources, err := a.resources(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range m.Status.Objects {
		p := plannedObject{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Result: o.Result, Warnings: o.Warnings}
		if dryRun && o.Result == bundlev1.Changed {
			after, err := objectOf(o.Object.Raw)
			if err != nil {
				return nil, err
			}
			before, err := a.object(ctx, resources, after)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", calledObject(after), err)
			}
			p.Fields = changedFields(before, after)
		}
		out.Objects = append(out.Objects, p)
	}
	return out, nil
}

func (m *mergedFork) print(w io.Writer) {
	for _, r := range m.Refused {
		tell(w, "! %s\n", r.Message)
	}
	if len(m.Refused) > 0 {
		tell(w, "\n%d refused; nothing was written.\n", len(m.Refused))
		return
	}
	counts := map[string]int{}
	for _, o := range m.Objects {
		counts[o.Result]++
		o.print(w)
	}
	if len(m.Others) > 0 {
		tell(w, "\nWritten besides:\n")
	}
	for _, o := range m.Others {
		tell(w, "%s %s\n", cmp.Or(signs[o.Result], "?"), named(o.Resource, o.Namespace, o.Name))
	}
	if len(m.Overwritten) > 0 {
		tell(w, "\nThe fork was right:\n")
	}
	for _, c := range m.Overwritten {
		tell(w, "! %s: %s: %s, and not %s\n", named(c.Kind, c.Namespace, c.Name), cmp.Or(c.Field, "all of it"), cmp.Or(c.Fork, "(none)"), cmp.Or(c.Server, "(none)"))
	}
	if len(m.Left) > 0 {
		tell(w, "\nLeft to their controllers:\n")
	}
	for _, l := range m.Left {
		tell(w, "  %s: %s\n", named(l.Kind, l.Namespace, l.Name), l.Controller)
	}
	tell(w, "\n%d created, %d changed, %d deleted, %d unchanged.\n", counts[bundlev1.Created], counts[bundlev1.Changed], counts[bundlev1.Deleted], counts[bundlev1.Unchanged])
}
