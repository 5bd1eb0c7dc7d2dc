package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
)

func historyCommand() *cobra.Command {
	var a asking
	var limit int
	var at string
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "history KIND/NAME | KIND",
		Short: "Show what became of an object: who changed which fields, and when",
		Long: `Shows the changes of an object, the newest first, or those of all objects of a
kind. It also works for deleted objects. The server keeps changes for a day
(--history), and has none from before it was started with that flag.

  kanzen history deployment/web -n shop
  kanzen history deployments -n shop --limit 20`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().IntVar(&limit, "limit", 100, "How many changes to show.")
	cmd.Flags().StringVar(&at, "at", "", "Show changes up to a moment: a time (2026-01-02T15:04:05Z), a duration (2h: so long ago) or a resourceVersion.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Of all namespaces.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, of, err := a.object(cmd.Context(), args[0], everywhere)
		if err != nil {
			return err
		}
		list, err := s.revisions(cmd.Context(), of, at, limit)
		if err != nil {
			return err
		}
		if a.output == "json" {
			return printJSON(cmd.OutOrStdout(), list)
		}
		printRevisions(cmd.OutOrStdout(), of, list)
		return nil
	}
	return cmd
}

// called is an object, or all of a kind, as the arguments of a command name it.
type called struct {
	resources       []served
	resource        *served
	namespace, name string // name "": all
	// at is the moment that is asked for; "": now.
	at string
}

func (o *called) path() string { return o.resource.path(o.namespace, o.name) }

// kind is what the objects are called.
func (o *called) kind() string {
	if o.resource.ResponseKind != nil {
		return o.resource.ResponseKind.Kind
	}
	return o.resource.Resource
}

// object opens the server and finds the object that an argument names: KIND, KIND/NAME or KIND/NAME@MOMENT.
func (a *asking) object(ctx context.Context, argument string, everywhere bool) (*asker, *called, error) {
	s, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	resources, err := s.resources(ctx)
	if err != nil {
		return nil, nil, err
	}
	o, err := a.among(resources, argument, everywhere)
	return s, o, err
}

// among is object, of the resources that the server has.
func (a *asking) among(resources []served, argument string, everywhere bool) (*called, error) {
	o := &called{resources: resources, namespace: a.namespace}
	argument, o.at, _ = strings.Cut(argument, "@")
	kind, name, named := strings.Cut(argument, "/")
	if kind == "" || named && name == "" {
		return nil, fmt.Errorf("%q names no object: it is KIND/NAME", argument)
	}
	var err error
	if o.resource, err = find(resources, kind); err != nil {
		return nil, err
	}
	o.name = name
	if everywhere || o.resource.Scope != apidiscoveryv2.ScopeNamespace {
		o.namespace = ""
	}
	return o, nil
}

// one is object, for commands that are about one object.
func (a *asking) one(ctx context.Context, argument string) (*asker, *called, error) {
	s, o, err := a.object(ctx, argument, false)
	if err == nil && o.name == "" {
		err = errOne
	}
	return s, o, err
}

var errOne = errors.New("name one object, as KIND/NAME")

// revisions asks for changes, up to a moment. The values of secrets are not in them.
func (a *asker) revisions(ctx context.Context, o *called, at string, limit int) (*historyv1.RevisionList, error) {
	query := url.Values{"revisions": {"true"}, "limit": {strconv.Itoa(limit)}}
	if at != "" {
		query.Set("at", at)
	}
	var list historyv1.RevisionList
	if err := a.get(ctx, o.path()+"?"+query.Encode(), &list); err != nil {
		var refused *refusedError
		if o.name != "" && errors.As(err, &refused) && refused.code == http.StatusNotFound {
			return nil, errNoHistory
		}
		return nil, err
	}
	if list.Kind != "RevisionList" { // it does not know the parameter
		return nil, errNoHistory
	}
	for _, r := range list.Items {
		for n := range r.Changes {
			c := &r.Changes[n]
			c.Old, c.New = unlessSecret(o.kind(), c.Old), unlessSecret(o.kind(), c.New)
		}
	}
	return &list, nil
}

var errNoHistory = errors.New("the server keeps no history (--history, --extensions)")

// allRevisions asks for all changes that are known.
func (a *asker) allRevisions(ctx context.Context, o *called) (*historyv1.RevisionList, error) {
	var all *historyv1.RevisionList
	for at := o.at; ; {
		list, err := a.revisions(ctx, o, at, 1000)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = list
		} else {
			all.Items = append(all.Items, list.Items...)
		}
		if !list.More || len(list.Items) == 0 {
			return all, nil
		}
		if at, err = before(list.Items[len(list.Items)-1].ResourceVersion); err != nil {
			return nil, err
		}
	}
}

// before is the revision before one.
func before(resourceVersion string) (string, error) {
	rev, err := strconv.ParseInt(resourceVersion, 10, 64)
	return strconv.FormatInt(rev-1, 10), err
}

func printRevisions(w io.Writer, of *called, list *historyv1.RevisionList) {
	for n := range list.Items {
		r := &list.Items[n]
		what := strings.ToLower(r.Operation)
		if of.name == "" {
			what += " " + named(of.kind(), r.Namespace, r.Name)
		}
		tell(w, "%s  %s  %s%s\n", r.Time.Local().Format(time.DateTime), r.ResourceVersion, what, byWhom(r))
		for _, c := range r.Changes {
			tell(w, "    %s: %s → %s\n", c.Path, shownValue(c.Old), shownValue(c.New))
		}
		if r.MoreChanges {
			tell(w, "    and more\n")
		}
		if r.Unreadable != "" {
			tell(w, "    cannot be read: %s\n", r.Unreadable)
		}
	}
	switch {
	case list.More:
		tell(w, "There are older changes (--limit, --at).\n")
	case len(list.Items) == 0:
		tell(w, "Nothing has changed since resourceVersion %s, where the history begins.\n", list.Since)
	}
}

// byWhom tells who made a change, as far as it is known.
func byWhom(r *historyv1.Revision) string {
	manager := strings.Join(r.Managers, ", ")
	who := cmp.Or(r.User, manager)
	if who == "" {
		return ""
	}
	text := " by " + who
	if r.User != "" && manager != "" {
		text += " (" + manager + ")"
	}
	if r.Subresource != "" {
		text += " through " + r.Subresource
	}
	return text
}

func forgetCommand() *cobra.Command {
	var a asking
	cmd := &cobra.Command{
		Use:   "forget KIND/NAME",
		Short: "Delete the history of an object for good",
		Long: `Deletes what the server knows of the past of an object, for example because it
held a password. What the object is now stays, and so do backups, audit logs and
the log of etcd up to its next compaction, which is some minutes away.`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, o, err := a.one(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		f := &historyv1.Forgotten{Spec: historyv1.ForgottenSpec{Group: o.resource.group, Resource: o.resource.Resource, Namespace: o.namespace, Name: o.name}}
		f.SetGroupVersionKind(historyv1.GroupVersion.WithKind("Forgotten"))
		err = s.ask(cmd.Context(), http.MethodPost, "/apis/"+historyv1.GroupVersion.String()+"/forgotten", "", f, f)
		var refused *refusedError
		switch {
		case errors.As(err, &refused) && refused.code == http.StatusNotFound:
			return errNoHistory
		case err != nil:
			return err
		case a.output == "json":
			return printJSON(cmd.OutOrStdout(), f)
		case f.Status.Found:
			tell(cmd.OutOrStdout(), "The history of %s is gone.\n", named(o.kind(), o.namespace, o.name))
		default:
			tell(cmd.OutOrStdout(), "There was no history of %s.\n", named(o.kind(), o.namespace, o.name))
		}
		return nil
	}
	return cmd
}
