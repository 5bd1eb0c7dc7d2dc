package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Outcome is what became of an object that was to be restored.
type Outcome string

// The outcomes. With a dry run they are what would become of the object.
const (
	Created   Outcome = "created"
	Updated   Outcome = "updated"
	Unchanged Outcome = "unchanged"
	Differs   Outcome = "differs" // and was left as it is
	Skipped   Outcome = "skipped"
	Failed    Outcome = "failed"
)

// Result is the outcome of one object.
type Result struct {
	ID
	Outcome Outcome
	// Reason says why an object was skipped, or which fields differ.
	Reason string
	Err    error
}

// String is one line for a Result.
func (r Result) String() string {
	line := r.ID.String() + " " + string(r.Outcome)
	if r.Reason != "" {
		line += ": " + r.Reason
	}
	if r.Err != nil {
		line += ": " + r.Err.Error()
	}
	return line
}

// ApplyOptions say how objects are restored into a server.
type ApplyOptions struct {
	// Overwrite updates objects that differ from the snapshot.
	Overwrite bool
	// DryRun changes nothing. Objects are sent to the server all the same, unless what they need is missing, too.
	DryRun bool
	Clock  clock.Clock
}

// Apply restores the selected objects of a snapshot into a running server: it creates those that are missing and, if
// asked to, updates those that differ. It deletes nothing. Owners come before what they own, and references to them get
// their new UIDs. Objects that were being deleted, and objects whose owner is gone, are left out: the garbage collector
// would delete them. told is called for each object.
func (k *Kinds) Apply(ctx context.Context, f *File, s *Server, filter *Filter, o ApplyOptions, told func(Result)) error {
	var objects []*Object
	damaged, err := k.Objects(ctx, f, filter, func(obj *Object) error {
		objects = append(objects, obj)
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range damaged {
		told(Result{ID: d.ID, Outcome: Failed, Err: d.Err})
	}
	a := &applying{server: s, options: o, uids: map[types.UID]types.UID{}, pending: map[string]bool{}}
	for _, obj := range order(objects) {
		if err := ctx.Err(); err != nil {
			return err
		}
		result := a.apply(ctx, obj)
		if errors.Is(result.Err, syscall.ECONNREFUSED) { // nor would it answer for the others
			return result.Err
		}
		told(result)
	}
	return nil
}

// order puts what others need first: definitions, namespaces, owners. Otherwise the order stays.
func order(objects []*Object) []*Object {
	first := map[string]int{"customresourcedefinitions.apiextensions.k8s.io": -3, "namespaces": -2, "serviceaccounts": -1}
	slices.SortStableFunc(objects, func(a, b *Object) int { return first[a.GroupResource.String()] - first[b.GroupResource.String()] })
	byUID := map[types.UID]*Object{}
	for _, o := range objects {
		byUID[o.GetUID()] = o
	}
	out, placed := make([]*Object, 0, len(objects)), map[*Object]bool{}
	var place func(o *Object)
	place = func(o *Object) {
		if placed[o] {
			return
		}
		placed[o] = true // before the owners, which may own one another in a circle
		for _, owner := range o.GetOwnerReferences() {
			if above := byUID[owner.UID]; above != nil {
				place(above)
			}
		}
		out = append(out, o)
	}
	for _, o := range objects {
		place(o)
	}
	return out
}

// applying is the state of one Apply.
type applying struct {
	server  *Server
	options ApplyOptions
	uids    map[types.UID]types.UID // of objects in the snapshot, to those that they have in the server
	pending map[string]bool         // with a dry run: namespaces and definitions' resources that would be there
}

func (a *applying) apply(ctx context.Context, o *Object) Result {
	r := Result{ID: o.ID}
	outcome, reason, err := a.one(ctx, o)
	if apierrors.IsAlreadyExists(err) { // a controller has made it meanwhile
		outcome, reason, err = a.one(ctx, o)
	}
	if r.Outcome, r.Reason, r.Err = outcome, reason, err; err != nil {
		r.Outcome = Failed
	}
	return r
}

func (a *applying) one(ctx context.Context, o *Object) (Outcome, string, error) {
	if o.GetDeletionTimestamp() != nil {
		return Skipped, "it was being deleted", nil
	}
	live, err := a.server.get(ctx, o.Resource(), o.GetNamespace(), o.GetName())
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return Failed, "", err
	}
	want := o.Unstructured.DeepCopy()
	if reason, err := a.adopt(ctx, want); reason != "" || err != nil {
		return Skipped, reason, err
	}
	if missing {
		return a.create(ctx, o, want)
	}
	a.uids[o.GetUID()] = live.GetUID()
	fields := differing(want, live)
	switch {
	case len(fields) == 0:
		return Unchanged, "", nil
	case !a.options.Overwrite:
		return Differs, strings.Join(fields, " "), nil
	case live.GetDeletionTimestamp() != nil:
		return Skipped, "it is being deleted in the server", nil
	}
	want.SetUID(live.GetUID())
	want.SetResourceVersion(live.GetResourceVersion())
	want.SetCreationTimestamp(live.GetCreationTimestamp())
	want.SetGeneration(live.GetGeneration())
	want.SetManagedFields(live.GetManagedFields()) // the server records who changes what, as with every update
	if _, err := a.server.update(ctx, o.Resource(), want, a.options.DryRun); err != nil {
		return Failed, "", err
	}
	return Updated, strings.Join(fields, " "), nil
}

func (a *applying) create(ctx context.Context, o *Object, want *unstructured.Unstructured) (Outcome, string, error) {
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"} {
		unstructured.RemoveNestedField(want.Object, "metadata", field)
	}
	if a.options.DryRun && (a.pending["namespaces "+o.GetNamespace()] || a.pending[o.GroupResource.String()]) {
		a.uids[o.GetUID()] = o.GetUID() // it would have another one
		return Created, "", nil         // its namespace or definition is missing, so that the server cannot say
	}
	made, err := a.server.create(ctx, o.Resource(), want, a.options.DryRun)
	if err != nil {
		return Failed, "", err
	}
	a.uids[o.GetUID()] = made.GetUID()
	switch {
	case o.GroupResource == definitions.GroupResource() && a.options.DryRun:
		a.pending[o.GetName()] = true // the name is "<plural>.<group>"
	case o.GroupResource == definitions.GroupResource():
		return Created, "", a.established(ctx, o)
	case o.GroupResource == (schema.GroupResource{Resource: "namespaces"}):
		a.pending["namespaces "+o.GetName()] = a.options.DryRun
	}
	return Created, "", nil
}

// establishing is how long a new definition may take until its resources are served.
const establishing = 30 * time.Second

// established waits until the resources of a definition are served.
func (a *applying) established(ctx context.Context, o *Object) error {
	ctx, cancel := context.WithTimeout(ctx, establishing)
	defer cancel()
	for {
		live, err := a.server.get(ctx, o.Resource(), "", o.GetName())
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
		}
		select {
		case <-a.options.Clock.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("it was created, but is not established yet")
		}
	}
}

// tokenOf is the annotation by which a secret with a token names the UID of its service account.
const tokenOf = "kubernetes.io/service-account.uid"

// adopt puts the UIDs that owners have now into an object. It returns a reason not to restore the object: an owner is gone.
func (a *applying) adopt(ctx context.Context, want *unstructured.Unstructured) (string, error) {
	if uid, ok := want.GetAnnotations()[tokenOf]; ok && a.uids[types.UID(uid)] != "" {
		annotations := want.GetAnnotations()
		annotations[tokenOf] = string(a.uids[types.UID(uid)])
		want.SetAnnotations(annotations)
	}
	owners := want.GetOwnerReferences()
	for n, owner := range owners {
		uid, err := a.ownerUID(ctx, owner, want.GetNamespace())
		if apierrors.IsNotFound(err) || err == nil && uid == "" {
			return fmt.Sprintf("its owner, the %s %s, is not there", owner.Kind, owner.Name), nil
		}
		if err != nil {
			return "", fmt.Errorf("find the owner %s %s: %w", owner.Kind, owner.Name, err)
		}
		owners[n].UID = uid
	}
	if len(owners) > 0 {
		want.SetOwnerReferences(owners)
	}
	return "", nil
}

// ownerUID is the UID of an owner in the server: of one that was restored before, or of the one with its name.
func (a *applying) ownerUID(ctx context.Context, owner metav1.OwnerReference, namespace string) (types.UID, error) {
	if uid := a.uids[owner.UID]; uid != "" {
		return uid, nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "", err
	}
	r, namespaced, err := a.server.resourceOf(ctx, gv.WithKind(owner.Kind))
	if err != nil {
		return "", err
	}
	if !namespaced {
		namespace = ""
	}
	live, err := a.server.get(ctx, r, namespace, owner.Name)
	if err != nil {
		return "", err
	}
	a.uids[owner.UID] = live.GetUID()
	return live.GetUID(), nil
}
