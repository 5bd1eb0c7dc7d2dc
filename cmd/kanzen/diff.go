package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
)

func diffCommand() *cobra.Command {
	var a asking
	var with string
	var moments, copies []string
	var everywhere bool
	cmd := &cobra.Command{
		Use:   "diff [KIND | KIND/NAME[@MOMENT] [KIND/NAME[@MOMENT]]]",
		Short: "Compare moments, forks and servers, object by object",
		Long: `Shows the objects that differ between two sides, with their fields. A side is
what the server holds now, what it held at a moment (a time, a duration: so long
ago, or a resourceVersion), a fork, or another server. Arguments say what is
compared; none: everything but events and leases.

  kanzen diff deployment/web@2h -n shop      what has become of an object
  kanzen diff deployment/web@2h deployment/web@1h -n shop
  kanzen diff --at 2h                        what has changed in two hours
  kanzen diff deployments --at 2h --at 1h -A
  kanzen diff --fork try                     what was written in a fork
  kanzen diff --fork one --fork other
  kanzen diff --context here --with-context there

How manifests differ from the server is what kanzen plan shows.`,
		Args: cobra.MaximumNArgs(2),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().StringSliceVar(&moments, "at", nil, "Compare with a moment, or two moments with each other.")
	cmd.Flags().StringSliceVar(&copies, "fork", nil, "Compare with a fork, or two forks with each other.")
	cmd.Flags().StringVar(&a.context, "context", "", "Context of the kubeconfig. (default the current one)")
	cmd.Flags().StringVar(&with, "with-context", "", "Compare with the server of another context.")
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Of all namespaces.")
	cmd.MarkFlagsMutuallyExclusive("at", "fork", "with-context")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := &comparison{namespace: a.namespace}
		if err := c.between(&a, moments, copies, with); err != nil {
			return err
		}
		if len(args) < 2 && len(moments)+len(copies) == 0 && with == "" && !strings.Contains(strings.Join(args, ""), "@") {
			return errors.New("name an object and a moment, as KIND/NAME@2h, or say what to compare with: --at, --fork or --with-context")
		}
		p, err := c.compare(cmd.Context(), &a, args, everywhere)
		if err != nil {
			return err
		}
		return p.show(cmd.OutOrStdout(), a.output)
	}
	return cmd
}

// side is one of two sides that are compared.
type side struct {
	*asker
	// fork is the name of the fork that it is; "": it is a server.
	fork string
	// at is the moment; "": now.
	at string
}

// forkSide is a fork as a side.
func (a *asker) forkSide(name string) side {
	there := *a
	there.url += forkPath(name)
	return side{asker: &there, fork: name}
}

// comparison compares two sides.
type comparison struct {
	server    *asker // of the first side, and of the forks
	sides     [2]side
	resources [2][]served // of the sides
	// kind and namespace say what is compared; nil and "": all.
	kind      *served
	namespace string
	// apart are sides of two servers: what only distinguishes objects of the same name is no difference, and neither is their status.
	apart bool
}

// between sets the sides: with one moment or fork, the second side is now or the fork.
func (c *comparison) between(a *asking, moments, copies []string, with string) (err error) {
	if c.server, err = a.open(); err != nil {
		return err
	}
	if len(moments) > 2 || len(copies) > 2 {
		return errors.New("--at, --fork: two of them can be compared")
	}
	c.sides = [2]side{{asker: c.server}, {asker: c.server}}
	for n, at := range moments {
		c.sides[n].at = at
	}
	for n, name := range copies {
		c.sides[n+2-len(copies)] = c.server.forkSide(name)
	}
	if with != "" {
		other := *a
		other.context = with
		c.apart = true
		c.sides[1].asker, err = other.open()
	}
	return err
}

// compare compares what the arguments name.
func (c *comparison) compare(ctx context.Context, a *asking, args []string, everywhere bool) (*plan, error) {
	for n := range c.sides {
		var err error
		if c.resources[n], err = c.sides[n].resources(ctx); err != nil {
			return nil, err
		}
	}
	var of [2]*called
	for n, arg := range args {
		var err error
		if of[n], err = a.among(c.resources[n], arg, everywhere); err != nil {
			return nil, err
		}
	}
	switch {
	case len(args) > 0 && of[0].name != "":
		return c.object(ctx, of)
	case len(args) > 1 || len(args) > 0 && of[0].at != "":
		return nil, errOne
	case len(args) > 0:
		c.kind, c.namespace = of[0].resource, of[0].namespace
	case everywhere:
		c.namespace = ""
	}
	if c.sides[1].fork != "" {
		return c.written(ctx)
	}
	return c.all(ctx)
}

// object compares one object with itself on the other side, or two.
func (c *comparison) object(ctx context.Context, of [2]*called) (*plan, error) {
	if of[1] == nil {
		of[1] = &called{resource: of[0].resource, namespace: of[0].namespace, name: of[0].name}
	}
	if of[1].name == "" {
		return nil, errOne
	}
	var sides [2]*unstructured.Unstructured
	for n, o := range of {
		o.at = cmp.Or(o.at, c.sides[n].at)
		var err error
		if sides[n], err = c.sides[n].maybe(ctx, o.then()); err != nil {
			return nil, err
		}
	}
	p := &plan{Objects: []plannedObject{}}
	c.add(p, sides[0], sides[1])
	return p, nil
}

// add adds an object to a plan if it differs.
func (c *comparison) add(p *plan, before, after *unstructured.Unstructured) {
	if c.apart {
		withoutIdentity(before)
		withoutIdentity(after)
	}
	if o, differs := compared(before, after); differs {
		p.Objects = append(p.Objects, o)
	}
}

// withoutIdentity takes away what distinguishes an object from one of the same name elsewhere, and its status.
func withoutIdentity(o *unstructured.Unstructured) {
	if o == nil {
		return
	}
	delete(o.Object, "status")
	meta, _ := o.Object["metadata"].(map[string]any)
	for _, name := range []string{"uid", "creationTimestamp", "selfLink"} {
		delete(meta, name)
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, owner := range owners {
		if fields, ok := owner.(map[string]any); ok {
			delete(fields, "uid")
		}
	}
}

// written compares the objects that were written in the forks among the sides.
func (c *comparison) written(ctx context.Context) (*plan, error) {
	p := &plan{Objects: []plannedObject{}}
	seen := map[bundlev1.Other]bool{}
	for _, s := range c.sides {
		if s.fork == "" {
			continue
		}
		var info forks.Info
		if err := c.server.askForks(ctx, http.MethodGet, forkPath(s.fork), &info); err != nil {
			return nil, err
		}
		for _, o := range info.Changes {
			of := o
			of.Result = ""
			if seen[of] || c.kind != nil && (o.Group != c.kind.group || o.Resource != c.kind.Resource) || c.namespace != "" && o.Namespace != c.namespace {
				continue
			}
			seen[of] = true
			if err := c.change(ctx, p, o); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// change compares an object that was written in a fork.
func (c *comparison) change(ctx context.Context, p *plan, of bundlev1.Other) error {
	r := cmp.Or(resourceOf(c.resources[1], of), resourceOf(c.resources[0], of))
	if r == nil { // its kind is not listed, so that only this is known of it
		p.Objects = append(p.Objects, plannedObject{Kind: of.Resource, Namespace: of.Namespace, Name: of.Name, Result: of.Result})
		return nil
	}
	var sides [2]*unstructured.Unstructured
	for n := range c.sides {
		var err error
		if sides[n], err = c.sides[n].maybe(ctx, r.path(of.Namespace, of.Name)); err != nil {
			return err
		}
	}
	c.add(p, sides[0], sides[1])
	return nil
}

// passing are resources whose objects only tell what has happened, or who is alive. They are compared if they are named.
var passing = []string{"/events", "events.k8s.io/events", "coordination.k8s.io/leases"}

// all compares all objects, or those of a kind.
func (c *comparison) all(ctx context.Context) (*plan, error) {
	p := &plan{Objects: []plannedObject{}}
	some, first := false, (*refusedError)(nil)
	for _, of := range c.kinds() {
		objects, err := c.each(ctx, of)
		var refused *refusedError
		if errors.As(err, &refused) && c.kind == nil {
			if refused.code == http.StatusBadRequest { // it is computed when it is asked for, and was nothing before
				continue
			}
			r := cmp.Or(of[0], of[1]) // its past is not kept, or the user may not list it
			first = cmp.Or(first, refused)
			p.Skipped = append(p.Skipped, skippedKind{r.group, r.Resource, refused.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		some = true
		p.Objects = append(p.Objects, objects...)
	}
	if !some && first != nil {
		return nil, first
	}
	return p, nil
}

// each compares all objects of a kind, on each side in its version; nil: there the kind is not served. Only the first side is kept in
// memory, as text: most objects are the same on both.
func (c *comparison) each(ctx context.Context, of [2]*served) ([]plannedObject, error) {
	var p plan
	before := map[string]*listedObject{}
	err := c.sides[0].list(ctx, of[0], c.namespace, func(o *listedObject) error {
		before[o.key()] = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	add := func(was, is *listedObject) error {
		a, err := was.object()
		if err != nil {
			return err
		}
		b, err := is.object()
		if err == nil {
			c.add(&p, a, b)
		}
		return err
	}
	err = c.sides[1].list(ctx, of[1], c.namespace, func(o *listedObject) error {
		was := before[o.key()]
		delete(before, o.key())
		if was != nil && was.UID == o.UID && was.ResourceVersion == o.ResourceVersion {
			return nil
		}
		return add(was, o)
	})
	for _, was := range before {
		if err == nil {
			err = add(was, nil)
		}
	}
	slices.SortFunc(p.Objects, func(a, b plannedObject) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return p.Objects, err
}

// list passes on all objects of a kind that the side has; nil: the kind is not served.
func (s *side) list(ctx context.Context, r *served, namespace string, yield func(*listedObject) error) error {
	if r == nil {
		return nil
	}
	return s.asker.list(ctx, r, namespace, s.at, yield)
}

// kinds are the resources to compare, on both sides in the same version if both have it; nil where a side has none.
func (c *comparison) kinds() (out [][2]*served) {
	listed := func(r *served) bool {
		return slices.Contains(r.Verbs, "list") && (c.kind == nil && !slices.Contains(passing, r.group+"/"+r.Resource) || c.kind != nil && r.group == c.kind.group && r.Resource == c.kind.Resource) &&
			(c.namespace == "" || r.Scope == apidiscoveryv2.ScopeNamespace)
	}
	for n := range c.resources[0] {
		r := &c.resources[0][n]
		if !listed(r) {
			continue
		}
		other := resourceOf(c.resources[1], bundlev1.Other{Group: r.group, Resource: r.Resource})
		if other != nil && slices.Contains(other.others, r.version) {
			other = other.in(r.version)
		}
		out = append(out, [2]*served{r, other})
	}
	for n := range c.resources[1] {
		if r := &c.resources[1][n]; listed(r) && resourceOf(c.resources[0], bundlev1.Other{Group: r.group, Resource: r.Resource}) == nil {
			out = append(out, [2]*served{nil, r})
		}
	}
	return out
}

// show prints a plan.
func (p *plan) show(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, p)
	}
	p.print(w)
	return nil
}

// compared tells what has become of an object, nil being none; differs is false if nothing has.
func compared(before, after *unstructured.Unstructured) (o plannedObject, differs bool) {
	is := after
	switch {
	case before != nil && after != nil:
		if o.Fields = changedFields(before, after); len(o.Fields) == 0 {
			return o, false
		}
		o.Result = bundlev1.Changed
	case after != nil:
		o.Result = bundlev1.Created
	case before != nil:
		is, o.Result = before, bundlev1.Deleted
	default:
		return o, false
	}
	o.APIVersion, o.Kind, o.Namespace, o.Name = is.GetAPIVersion(), is.GetKind(), is.GetNamespace(), is.GetName()
	return o, true
}

// resourceOf returns the resource of a change; nil: it is not listed.
func resourceOf(all []served, c bundlev1.Other) *served {
	for n := range all {
		if all[n].group == c.Group && all[n].Resource == c.Resource {
			return &all[n]
		}
	}
	return nil
}

// maybe returns an object, nil if there is none or its kind is not served.
func (a *asker) maybe(ctx context.Context, path string) (*unstructured.Unstructured, error) {
	out, err := a.read(ctx, path)
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return nil, nil
	}
	return out, err
}
