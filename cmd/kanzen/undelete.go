package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	historyv1 "github.com/kanzen-io/kanzen/internal/engine/history/v1"
)

func undeleteCommand() *cobra.Command {
	var a asking
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "undelete KIND/NAME",
		Short: "Create again what was deleted",
		Long: `Creates an object again as it was before its deletion began. A namespace comes
back with all that it held, owners before what they own. The objects are new
ones, with other UIDs; references to owners and to service accounts follow them.
What exists already is left as it is, and pods that belong to a controller are
left to that controller.

  kanzen undelete configmap/settings -n shop
  kanzen undelete namespace/shop --dry-run
  kanzen undelete namespace/shop`,
		Args: cobra.ExactArgs(1),
	}
	a.add(cmd.Flags(), true)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only show what would be created.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, o, err := a.one(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		u := &undeletion{asker: s, dryRun: dryRun, resources: o.resources, uids: map[types.UID]types.UID{}}
		if err := u.object(cmd.Context(), o); err != nil {
			return err
		}
		if a.output == "json" {
			err = printJSON(cmd.OutOrStdout(), u.Done)
		} else {
			u.print(cmd.OutOrStdout())
		}
		if n := u.count(undeleteFailed); err == nil && n > 0 {
			return fmt.Errorf("objects that could not be created again: %d", n)
		}
		return err
	}
	return cmd
}

// What has become of an object that was to be created again.
const (
	undeleteCreated = "Created"
	undeleteExists  = "Exists"
	undeleteLeft    = "Left"
	undeleteFailed  = "Failed"
)

// undeleted is an object that was to be created again.
type undeleted struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Result     string `json:"result"`
	// Note says why, or what is different.
	Note string `json:"note,omitempty"`
}

// undeletion creates objects again.
type undeletion struct {
	*asker
	dryRun    bool
	Done      []undeleted
	resources []served
	// uids are the UIDs of objects now, by what they were.
	uids map[types.UID]types.UID
}

// object creates an object again, and what a namespace held.
func (u *undeletion) object(ctx context.Context, o *called) error {
	if now, err := u.maybe(ctx, o.path()); err != nil || now != nil {
		return cmp.Or(err, fmt.Errorf("%s exists", named(o.kind(), o.namespace, o.name)))
	}
	at, err := u.lastMoment(ctx, o)
	if err != nil {
		return err
	}
	o.at = at
	was, err := u.maybe(ctx, o.then())
	if err != nil || was == nil {
		return cmp.Or(err, fmt.Errorf("%s could not be read as it was at resourceVersion %s", named(o.kind(), o.namespace, o.name), at))
	}
	isNamespace := o.resource.group == "" && o.resource.Resource == "namespaces"
	held := []*former{}
	if isNamespace { // before anything is created: the moment may soon be too old
		if held, err = u.held(ctx, o, at); err != nil {
			return err
		}
	}
	if err := u.create(ctx, &former{o.resource, was}); err != nil {
		return err
	}
	for _, p := range ownersFirst(held) {
		if err := u.create(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// lastMoment returns the revision before the deletion of an object began.
func (u *undeletion) lastMoment(ctx context.Context, o *called) (string, error) {
	list, err := u.allRevisions(ctx, o)
	if err != nil {
		return "", err
	}
	if len(list.Items) == 0 || list.Items[0].Operation != historyv1.Deleted {
		return "", fmt.Errorf("nothing is known of a %s that was deleted; the history begins at resourceVersion %s", named(o.kind(), o.namespace, o.name), list.Since)
	}
	began := list.Items[0]
	for _, r := range list.Items[1:] {
		if r.UID != began.UID {
			break
		}
		if slices.ContainsFunc(r.Changes, func(c historyv1.FieldChange) bool { return c.Path == "metadata.deletionTimestamp" && c.Old == nil }) {
			return before(r.ResourceVersion)
		}
	}
	return before(began.ResourceVersion)
}

// former is an object as it was.
type former struct {
	resource *served
	*unstructured.Unstructured
}

// held returns what a namespace held at a moment.
func (u *undeletion) held(ctx context.Context, namespace *called, at string) (all []*former, err error) {
	for n := range namespace.resources {
		r := &namespace.resources[n]
		if r.Scope != apidiscoveryv2.ScopeNamespace || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "create") || r.group == "" && r.Resource == "endpoints" {
			continue // endpoints are made of services
		}
		err := u.list(ctx, r, namespace.name, at, func(o *listedObject) error {
			was, err := o.object()
			if err == nil {
				all = append(all, &former{r, was})
			}
			return err
		})
		var refused *refusedError
		if errors.As(err, &refused) && (refused.code == http.StatusGone || refused.code == http.StatusBadRequest) {
			u.Done = append(u.Done, undeleted{APIVersion: apiVersionOf(r), Kind: r.Resource, Namespace: namespace.name, Name: "*", Result: undeleteLeft, Note: refused.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func apiVersionOf(r *served) string {
	if r.group == "" {
		return r.version
	}
	return r.group + "/" + r.version
}

// ownersFirst sorts objects so that each comes after those that own it.
func ownersFirst(all []*former) []*former {
	byUID := map[types.UID]*former{}
	for _, p := range all {
		byUID[p.GetUID()] = p
	}
	depth := map[types.UID]int{}
	var depthOf func(p *former, below int) int
	depthOf = func(p *former, below int) int {
		if d, ok := depth[p.GetUID()]; ok || below > len(all) { // who owns himself is nobody's
			return d
		}
		d := 0
		for _, o := range p.GetOwnerReferences() {
			if owner := byUID[o.UID]; owner != nil {
				d = max(d, depthOf(owner, below+1)+1)
			}
		}
		depth[p.GetUID()] = d
		return d
	}
	for _, p := range all {
		depthOf(p, 0)
	}
	rank := func(p *former) int { // pods need their service account
		if p.resource.group == "" && p.resource.Resource == "serviceaccounts" {
			return -1
		}
		return depth[p.GetUID()]
	}
	slices.SortStableFunc(all, func(a, b *former) int { return rank(a) - rank(b) })
	return all
}

// create creates an object again.
func (u *undeletion) create(ctx context.Context, p *former) error {
	done := undeleted{APIVersion: p.GetAPIVersion(), Kind: p.GetKind(), Namespace: p.GetNamespace(), Name: p.GetName()}
	done.APIVersion, done.Kind = cmp.Or(done.APIVersion, apiVersionOf(p.resource)), cmp.Or(done.Kind, p.kind())
	p.SetAPIVersion(done.APIVersion)
	p.SetKind(done.Kind)
	uid := p.GetUID()
	if c := metav1.GetControllerOf(p); c != nil && p.resource.group == "" && p.resource.Resource == "pods" {
		done.Result, done.Note = undeleteLeft, fmt.Sprintf("%s %s makes its pods", c.Kind, c.Name)
		u.Done = append(u.Done, done)
		return nil
	}
	if u.dryRun {
		done.Result = undeleteCreated
		u.Done = append(u.Done, done)
		return nil
	}
	var err error
	if done.Note, err = u.renew(ctx, p); err != nil {
		return err
	}
	made, note, err := u.post(ctx, p)
	done.Note = joinNotes(done.Note, note)
	var refused *refusedError
	switch {
	case err == nil:
		done.Result = undeleteCreated
	case errors.As(err, &refused) && refused.code == http.StatusConflict:
		done.Result = undeleteExists
		if made, err = u.maybe(ctx, p.resource.path(p.GetNamespace(), p.GetName())); err != nil {
			return err
		}
	case errors.As(err, &refused):
		done.Result, done.Note = undeleteFailed, refused.Error()
	default:
		return err
	}
	if made != nil {
		u.uids[uid] = made.GetUID()
	}
	u.Done = append(u.Done, done)
	return nil
}

func (p *former) kind() string {
	if p.resource.ResponseKind != nil {
		return p.resource.ResponseKind.Kind
	}
	return ""
}

func joinNotes(a, b string) string {
	if a != "" && b != "" {
		return a + "; " + b
	}
	return a + b
}

// tokenOf is the annotation of a secret with a token: the UID of its service account.
const tokenOf = "kubernetes.io/service-account.uid"

// renew makes an object what can be created: the server's own fields go, and it refers to what there is now.
func (u *undeletion) renew(ctx context.Context, p *former) (note string, err error) {
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(p.Object, "metadata", field)
	}
	var owners []metav1.OwnerReference
	for _, o := range p.GetOwnerReferences() {
		now, err := u.uidNow(ctx, &o, p.GetNamespace())
		if err != nil {
			return "", err
		}
		if now == "" {
			note = joinNotes(note, fmt.Sprintf("its owner %s %s is gone", o.Kind, o.Name)) // with that owner it would be collected at once
			continue
		}
		o.UID = now
		owners = append(owners, o)
	}
	p.SetOwnerReferences(owners)
	if annotations := p.GetAnnotations(); annotations[tokenOf] != "" {
		if now, ok := u.uids[types.UID(annotations[tokenOf])]; ok {
			annotations[tokenOf] = string(now)
			p.SetAnnotations(annotations)
		}
	}
	if p.resource.group == "" && p.resource.Resource == "pods" {
		unstructured.RemoveNestedField(p.Object, "spec", "nodeName")
	}
	return note, nil
}

// uidNow is the UID of an owner now; "": there is none.
func (u *undeletion) uidNow(ctx context.Context, o *metav1.OwnerReference, namespace string) (types.UID, error) {
	if now, ok := u.uids[o.UID]; ok {
		return now, nil
	}
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return "", nil // nobody can own by that
	}
	for n := range u.resources {
		r := &u.resources[n]
		if r.group != gv.Group || r.ResponseKind == nil || r.ResponseKind.Kind != o.Kind {
			continue
		}
		owner, err := u.maybe(ctx, r.path(namespace, o.Name))
		if owner == nil || err != nil {
			return "", err
		}
		return owner.GetUID(), nil
	}
	return "", nil
}

// post sends an object. A service that cannot have its addresses and ports back gets others.
func (u *undeletion) post(ctx context.Context, p *former) (made *unstructured.Unstructured, note string, err error) {
	path := p.resource.path(p.GetNamespace(), "") + "?fieldManager=kanzen-undelete"
	made = &unstructured.Unstructured{}
	err = u.ask(ctx, http.MethodPost, path, "", p.Object, &made.Object)
	var refused *refusedError
	if errors.As(err, &refused) && refused.code == http.StatusUnprocessableEntity && p.resource.group == "" && p.resource.Resource == "services" {
		unstructured.RemoveNestedField(p.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(p.Object, "spec", "clusterIPs")
		unstructured.RemoveNestedField(p.Object, "spec", "healthCheckNodePort")
		ports, _, _ := unstructured.NestedSlice(p.Object, "spec", "ports")
		for _, port := range ports {
			if port, ok := port.(map[string]any); ok {
				delete(port, "nodePort")
			}
		}
		if err := unstructured.SetNestedSlice(p.Object, ports, "spec", "ports"); err != nil {
			return nil, "", err
		}
		made = &unstructured.Unstructured{}
		return made, "with other addresses and ports: " + refused.Error(), u.ask(ctx, http.MethodPost, path, "", p.Object, &made.Object)
	}
	return made, "", err
}

func (u *undeletion) count(result string) (n int) {
	for _, d := range u.Done {
		if d.Result == result {
			n++
		}
	}
	return n
}

func (u *undeletion) print(w io.Writer) {
	signs := map[string]string{undeleteCreated: "+", undeleteExists: "=", undeleteLeft: " ", undeleteFailed: "!"}
	for _, d := range u.Done {
		tell(w, "%s %s", signs[d.Result], named(d.Kind, d.Namespace, d.Name))
		switch {
		case d.Result == undeleteExists:
			tell(w, ": it exists")
		case d.Note != "":
			tell(w, ": %s", d.Note)
		}
		tell(w, "\n")
	}
	would := ""
	if u.dryRun {
		would = " would be"
	}
	tell(w, "\n%d%s created, %d existed, %d left out, %d failed.\n", u.count(undeleteCreated), would, u.count(undeleteExists), u.count(undeleteLeft), u.count(undeleteFailed))
}
