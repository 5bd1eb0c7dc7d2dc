package engine

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/request/route"
)

// Object is an API object with metadata: a built-in Go type or an unstructured.
type Object = admission.Object

// Resource is one kind of object that the server serves: its names, the
// versions it is served in, the rules for writing it and how it is printed.
// Built-in kinds, custom resources and extensions all produce Resources; the
// engine serves any of them with the same code. A Resource is immutable once
// it is handed to the engine.
type Resource struct {
	Plural     string // as in the path: "deployments"
	Singular   string // "deployment"
	Kind       string // "Deployment"
	ListKind   string // "DeploymentList"; empty: Kind followed by "List"
	ShortNames []string
	Categories []string
	Namespaced bool

	// Prefix is the prefix of the objects' keys in etcd, below /registry/:
	// "deployments". Empty: the resource is virtual; it has a Create (or Get and
	// List) func, and nothing is stored.
	Prefix string
	// Versions lists what is served, the preferred one first. The rules below
	// see objects of the hub version; the others convert to it and back.
	Versions []*Version
	// Hub is the storage version.
	Hub schema.GroupVersion
	// Stored says how objects are written to etcd, if not as protobuf of the hub
	// version. Bytes of the hub version can still be read.
	Stored *Stored
	// Former is a version in which older servers have stored the kind. Optional.
	Former *Former
	// Codec encodes and decodes stored objects without a Go type (custom
	// resources). Nil: as the Go type's protobuf, or as Stored says.
	Codec Codec
	// Types describes the fields of the kind to field management. Nil: the
	// engine's types of the built-in kinds.
	Types func() (fieldmanager.Types, error)
	// Verbs of the main resource, sorted. Empty means all eight.
	Verbs []string
	// Namesakes says that several objects may have the same namespace and name, so that no key follows from them. Such a resource
	// has only the verbs list and watch.
	Namesakes bool

	// Rules decides what a write to the object itself may do.
	Rules Rules
	// Subresources by name: "status", "scale", ...
	Subresources []*Subresource

	// Fields returns the fields that field selectors can name beside
	// metadata.name and metadata.namespace. It returns the same set of keys for
	// every object.
	Fields func(obj Object) fields.Set
	// FieldAliases are further names for keys of Fields, and further terms, as a=b, for others.
	FieldAliases map[string]string
	// Terms are further terms of the field selectors of a virtual resource, which ask something else of an object than that a field has
	// a value (since=10m). A func returns what a value asks, or an error if it is none.
	Terms map[string]func(value string) (func(obj Object) bool, error)
	// Trigger names a key of Fields by which most watchers of the kind select
	// (spec.nodeName). Events of objects with other values do not wake them.
	Trigger string
	// Indexed are keys of Fields by which lists find objects without looking at all of them.
	Indexed []string
	// Table prints the object for humans. Nil: name and age.
	Table *Table
	// LateDefaults says that writes leave out what Default then fills in for readers: the labels of a job's template, which
	// its creation adds, become the job's own.
	LateDefaults bool
	// HiddenAnnotations are annotations that metadata-only answers leave out.
	HiddenAnnotations []string
	// ReturnDeleted answers a deletion with the object instead of a Status.
	ReturnDeleted bool
	// NoGarbageCollection ignores propagation policies (events).
	NoGarbageCollection bool
	// UnknownField returns the error for a field that is none of Fields, for kinds that have words of their own. Nil: the
	// usual ones.
	UnknownField func(label string) error
	// AwaitSeen answers a write only after this server has observed it. It is set for the resources that configure
	// the server (admission webhooks and policies), so that the client's next request finds the change in force.
	AwaitSeen bool
	// Secret says that the values of the objects' fields are nobody's business
	// who may not read the objects.
	Secret bool
	// TTL makes objects expire (events). Nil or zero: they do not.
	TTL func(obj Object) time.Duration

	// Create serves POST of a virtual resource (a review). Its result is the
	// answer, or a Status of success if it is nil; nothing is stored.
	Create func(ctx context.Context, obj Object, check Check, options *metav1.CreateOptions) (Object, error)
	// Get and List serve a virtual resource that is computed. List gives the objects that come after the one of a page's
	// token, in an order in which pages follow one another.
	Get  func(ctx context.Context, name string) (Object, error)
	List func(ctx context.Context, p Page) (iter.Seq[Object], error)
	// Revision is the resourceVersion of a list of a virtual resource. Watch sends
	// what came after a resourceVersion ("": everything there is) until ctx ends,
	// or returns an API error. Optional.
	Revision func() string
	Watch    func(ctx context.Context, after string, send func(t watch.EventType, objs ...Object) error) error
}

// Page is what a list of a virtual resource asks for: what comes after an object, "" for all, and how many of those that
// the selectors match, 0 for all. List need not count: what follows a full page is not asked for.
type Page struct {
	After string
	Limit int64
	// Selects says which objects the selectors match. They are asked again for what List gives; nil: all are matched.
	Selects func(Object) bool
	// Selector is the field selector, for a List that need not look at all objects; nil: there is none.
	Selector fields.Selector
}

// Declared returns what the resource serves, for discovery and routing.
func (r *Resource) Declared() *route.Declared {
	d := &route.Declared{Namespaced: r.Namespaced, Verbs: r.Verbs, Head: r.Codec != nil}
	if len(d.Verbs) == 0 {
		d.Verbs = route.AllVerbs()
	}
	for _, s := range r.Subresources {
		d.Subresources = append(d.Subresources, route.Subresource{Name: s.Name, Verbs: s.Verbs, Proxy: s.Connect == "proxy" || s.Behind})
	}
	return d
}

func (r *Resource) subresource(name string) *Subresource {
	for _, s := range r.Subresources {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Stored is the form in which kube-apiserver stores a kind, so that either
// server can read what the other has written.
type Stored struct {
	schema.GroupVersion      // written into the bytes
	JSON                bool // and not protobuf
	// New, Encode and Decode are needed if the stored version has another Go
	// type than the hub.
	New    func() Object
	Encode func(hub Object) (Object, error)
	Decode func(stored Object) (Object, error)
}

// Former is a version that nobody serves any more, whose objects have the fields of the hub version, some with another meaning.
// Read makes an object of the hub version out of what was stored. Nothing is stored in it again.
type Former struct {
	schema.GroupVersion
	Read func(obj Object)
}

// Codec reads and writes the stored form of untyped objects. Another server may convert them between versions: that ends with
// ctx, the context of the request or of the background work that needs the object.
type Codec interface {
	// Decode makes the object of stored bytes, of any version, in the hub
	// version, with defaults set and unknown fields pruned.
	Decode(ctx context.Context, value []byte) (Object, error)
	// Encode makes the stored bytes of a hub object.
	Encode(ctx context.Context, obj Object) ([]byte, error)
}

// BatchCodec is a Codec that decodes many objects for little more than the cost
// of one, because another server converts them.
type BatchCodec interface {
	Codec
	// DecodeAll is Decode of each value. It gives up when ctx ends.
	DecodeAll(ctx context.Context, values [][]byte) ([]Object, error)
}

// CanonicalCodec is a Codec of objects whose stored bytes are often canonical: the bytes that are served.
type CanonicalCodec interface {
	Codec
	// Canonical reports whether decoding and encoding stored bytes would give the same bytes, except for the
	// resourceVersion and a comma to insert at an offset.
	Canonical(value []byte) (at int, ok bool)
}

// Version is one group and version that a resource is served in.
type Version struct {
	schema.GroupVersion
	// New and NewList make empty Go values of this version.
	New     func() Object
	NewList func() runtime.Object
	// Default fills in what a client left out, after each decoding of this version.
	Default func(obj Object)
	// Prune drops the fields that are not in the version's schema from an object
	// sent by a client, and returns their paths. An error refuses the object.
	// Nil for Go types, because decoding drops unknown fields.
	Prune func(obj Object) (unknown []string, err error)
	// ToHub and FromHub convert between this version and the hub version; nil if
	// this is the hub, or differs from it only in name. The hub may have a ToHub
	// that completes objects sent by clients. They may reuse parts of their
	// argument, and ask another server, until ctx ends.
	ToHub   func(ctx context.Context, obj Object) (Object, error)
	FromHub func(ctx context.Context, obj Object) (Object, error)
	// FieldLabels maps the fields that selectors of this version may name, beside metadata.name, to
	// keys of Resource.Fields; nil: the names are the same, and there is metadata.namespace.
	FieldLabels map[string]string
	// Lenient keeps two habits that newer versions of the resource no longer have: an update needs no resourceVersion, whatever
	// the rules say, and a deletion is answered with the object.
	Lenient bool
	// Deprecation says that the version is deprecated; nil: it is not.
	Deprecation *Deprecation
	// Kind is this version's kind if it differs from the resource's.
	Kind string
}

// Rules are a kind's rules, beside those for the metadata of every object. Any
// func may be nil. A func must not keep its arguments, and only the Prepare and
// Begin ones may change obj; old is never changed.
type Rules struct {
	// PrepareCreate drops what a client may not set (status) and sets what
	// the server decides (generation). It runs before admission's validation.
	PrepareCreate func(ctx context.Context, obj Object)
	// Validate reports everything that is wrong with a new object; it must also
	// check the metadata with ObjectMeta rules, which the engine does not do.
	Validate func(ctx context.Context, obj Object) field.ErrorList
	// Warn returns warnings for an object that passed Validate (old is nil) or
	// ValidateUpdate.
	Warn func(ctx context.Context, obj, old Object) []string

	// PrepareUpdate copies from old the fields that an update may not change,
	// and raises the generation if the spec changed.
	PrepareUpdate  func(ctx context.Context, obj, old Object)
	ValidateUpdate func(ctx context.Context, obj, old Object) field.ErrorList

	// CreateOnUpdate lets PUT and apply-less PATCH create a missing object.
	CreateOnUpdate bool
	// NeedsResourceVersion refuses updates without a resourceVersion.
	NeedsResourceVersion bool

	// BeginCreate and BeginUpdate allocate what the object needs outside of itself (addresses,
	// ports), before it is prepared and validated; end is called with whether the write was stored.
	// On dry runs they only choose values.
	BeginCreate func(ctx context.Context, obj Object, dryRun bool) (end func(stored bool), err error)
	BeginUpdate func(ctx context.Context, obj, old Object, dryRun bool) (end func(stored bool), err error)
	// Deleted releases the allocations, after the object was removed from the
	// store.
	Deleted func(ctx context.Context, obj Object, dryRun bool)
	// Present decorates an object for an answer (never stored).
	Present func(obj Object)
	// Held says that something beside metadata.finalizers holds an object: that its deletion has yet to begin, or a namespace's
	// spec.finalizers. Terminating marks such an object when its deletion begins; further deletions change nothing while it is held. With
	// HeldAlone its propagation policy is ignored.
	Held        func(obj Object) bool
	Terminating func(obj Object)
	HeldAlone   bool

	// CheckDelete refuses the deletion of an object by its name. As in kube-apiserver, it is not asked about a collection.
	CheckDelete func(ctx context.Context, obj Object) error
	// Grace decides how long a graceful deletion takes, in seconds; zero
	// deletes at once. It may change options. Nil: not graceful.
	Grace func(ctx context.Context, obj Object, options *metav1.DeleteOptions) int64
	// WarnDelete returns a warning for a deletion, "" for none.
	WarnDelete func(options *metav1.DeleteOptions) string
	// DefaultOrphan orphans dependents if a deletion does not name a propagation
	// policy.
	DefaultOrphan bool

	// Reset are the fields that these writes never change; field management does
	// not record them for the writer.
	Reset *fieldpath.Set
}

// Subresource is a further path below an object's.
type Subresource struct {
	Name string
	// Verbs as in discovery, sorted: "get", "patch", "update", "create", ...
	Verbs []string
	// Kind of the bodies, with group and version if they differ from the
	// resource's: autoscaling/v1 Scale.
	Kind schema.GroupVersionKind
	// Alike are further versions of which bodies may be that Create gets: they have the same fields.
	Alike []schema.GroupVersion

	// Exactly one of the following is set.

	// Rules makes it the same object under other rules (status, resize, ...).
	Rules *Rules
	// Table: it is printed as the object is. Status says so; of the others, and of some statuses, kube-apiserver has no tables.
	Table bool
	// Scale makes it a scale.
	Scale *Scale
	// Create answers POST (eviction, binding, token). New makes the empty body.
	Create func(ctx context.Context, name string, body Object, check Check, options *metav1.CreateOptions) (runtime.Object, error)
	// Connect marks a stream or proxy to a kubelet, pod or service: the value
	// is the method of access ("exec", "log", ...).
	Connect string
	// MustCreate says that a Connect needs the verb create whatever its method: a
	// websocket is opened by GET, but permission to read must not give a shell.
	MustCreate bool
	// Options reads the options of a Connect, for admission, from the query and the
	// path after the subresource. Nil: admission is not asked.
	Options func(query url.Values, path string) (runtime.Object, error)
	// Answer answers requests by itself, for an object that exists.
	Answer func(w http.ResponseWriter, r *http.Request, obj Object) error
	// Behind: Answer also takes the paths below the subresource's.
	Behind bool

	New func() Object
}

// Scale reads and writes an object's replica count.
type Scale struct {
	// Get returns the spec, status and selector of the scale of obj. With an error
	// of type NoReplicas the other results are valid.
	Get func(obj Object) (replicas, statusReplicas int32, selector string, err error)
	// Set writes spec.replicas.
	Set func(obj Object, replicas int32) error
	// Path of spec.replicas, for field management.
	Path fieldpath.Path
}

// NoReplicas is the error of a scale whose object has no replica count; the text is
// the path where it is missing.
type NoReplicas string

// Error says where it is missing.
func (e NoReplicas) Error() string {
	return fmt.Sprintf("the spec replicas field %q does not exist", string(e))
}

// Table is how a kind is printed.
type Table struct {
	Columns []metav1.TableColumnDefinition
	// Row gives the cells of one object, one for each column, and its
	// conditions (a pod that has ended), usually none.
	Row func(obj Object) (cells []any, conditions []metav1.TableRowCondition)
	// NullRows says that an empty table has no list of rows, as that of some kinds in kube-apiserver.
	NullRows bool
}

// Typed is Rules, Fields and Table written for one Go type. See Builtin.
type Typed[T Object] struct {
	PrepareCreate  func(ctx context.Context, obj T)
	Validate       func(ctx context.Context, obj T) field.ErrorList
	Warn           func(ctx context.Context, obj, old T) []string
	PrepareUpdate  func(ctx context.Context, obj, old T)
	ValidateUpdate func(ctx context.Context, obj, old T) field.ErrorList

	// StatusApart says that these writes do not reach the status: a new object has an empty one, and an update leaves it as it
	// is. Reset need not say so. PrepareCreate and PrepareUpdate come afterwards.
	StatusApart bool
	// CountsSpec counts in metadata.generation: a new object has the generation 1, and each change of the spec that is left after
	// PrepareUpdate raises it.
	CountsSpec bool

	CreateOnUpdate       bool
	NeedsResourceVersion bool
	DefaultOrphan        bool
	WarnDelete           func(options *metav1.DeleteOptions) string

	BeginCreate func(ctx context.Context, obj T, dryRun bool) (end func(stored bool), err error)
	BeginUpdate func(ctx context.Context, obj, old T, dryRun bool) (end func(stored bool), err error)
	Deleted     func(ctx context.Context, obj T, dryRun bool)
	Present     func(obj T)
	CheckDelete func(ctx context.Context, obj T) error
	Grace       func(ctx context.Context, obj T, options *metav1.DeleteOptions) int64
	Held        func(obj T) bool
	Terminating func(obj T)
	HeldAlone   bool
	Reset       *fieldpath.Set
}

// Rules returns the rules of t for objects of any type; they must be T.
func (t Typed[T]) Rules() Rules {
	if t.CountsSpec {
		t = counted(t)
	}
	if t.StatusApart {
		t = statusApart(t)
	}
	r := Rules{
		CreateOnUpdate:       t.CreateOnUpdate,
		NeedsResourceVersion: t.NeedsResourceVersion,
		DefaultOrphan:        t.DefaultOrphan,
		HeldAlone:            t.HeldAlone,
		WarnDelete:           t.WarnDelete,
		Reset:                t.Reset,
	}
	if f := t.PrepareCreate; f != nil {
		r.PrepareCreate = func(ctx context.Context, obj Object) { f(ctx, obj.(T)) }
	}
	if f := t.Validate; f != nil {
		r.Validate = func(ctx context.Context, obj Object) field.ErrorList { return f(ctx, obj.(T)) }
	}
	if f := t.Warn; f != nil {
		r.Warn = func(ctx context.Context, obj, old Object) []string {
			o, _ := old.(T)
			return f(ctx, obj.(T), o)
		}
	}
	if f := t.PrepareUpdate; f != nil {
		r.PrepareUpdate = func(ctx context.Context, obj, old Object) { f(ctx, obj.(T), old.(T)) }
	}
	if f := t.ValidateUpdate; f != nil {
		r.ValidateUpdate = func(ctx context.Context, obj, old Object) field.ErrorList {
			return f(ctx, obj.(T), old.(T))
		}
	}
	if f := t.BeginCreate; f != nil {
		r.BeginCreate = func(ctx context.Context, obj Object, dryRun bool) (func(bool), error) {
			return f(ctx, obj.(T), dryRun)
		}
	}
	if f := t.BeginUpdate; f != nil {
		r.BeginUpdate = func(ctx context.Context, obj, old Object, dryRun bool) (func(bool), error) {
			return f(ctx, obj.(T), old.(T), dryRun)
		}
	}
	if f := t.Deleted; f != nil {
		r.Deleted = func(ctx context.Context, obj Object, dryRun bool) { f(ctx, obj.(T), dryRun) }
	}
	if f := t.Present; f != nil {
		r.Present = func(obj Object) { f(obj.(T)) }
	}
	if f := t.CheckDelete; f != nil {
		r.CheckDelete = func(ctx context.Context, obj Object) error { return f(ctx, obj.(T)) }
	}
	if f := t.Held; f != nil {
		r.Held = func(obj Object) bool { return f(obj.(T)) }
	}
	if f := t.Terminating; f != nil {
		r.Terminating = func(obj Object) { f(obj.(T)) }
	}
	if f := t.Grace; f != nil {
		r.Grace = func(ctx context.Context, obj Object, options *metav1.DeleteOptions) int64 {
			return f(ctx, obj.(T), options)
		}
	}
	return r
}

// Fields adapts a typed selectable-fields func for Resource.Fields.
func Fields[T Object](f func(obj T) fields.Set) func(obj Object) fields.Set {
	return func(obj Object) fields.Set { return f(obj.(T)) }
}

// Row adapts a typed printing func for Table.Row.
func Row[T Object](f func(obj T) []any) func(obj Object) ([]any, []metav1.TableRowCondition) {
	return func(obj Object) ([]any, []metav1.TableRowCondition) { return f(obj.(T)), nil }
}

// TableOf is a table with these columns, whose cells a typed func gives.
func TableOf[T Object](row func(obj T) []any, columns ...metav1.TableColumnDefinition) *Table {
	return &Table{Columns: columns, Row: Row(row)}
}

// ResetFields makes a Reset set of dotted field paths: "spec", "metadata.deletionTimestamp".
func ResetFields(paths ...[]string) *fieldpath.Set {
	s := fieldpath.NewSet()
	for _, p := range paths {
		var fp fieldpath.Path
		for i := range p {
			fp = append(fp, fieldpath.PathElement{FieldName: &p[i]})
		}
		s.Insert(fp)
	}
	return s
}

// Reset sets that many kinds share. Most kinds with a status let their main path
// change everything else, and the status subresource nothing else; newer kinds also
// exclude metadata from the status subresource.
var (
	ResetStatus          = ResetFields([]string{"status"})
	ResetSpec            = ResetFields([]string{"spec"})
	ResetSpecAndMetadata = ResetFields([]string{"metadata"}, []string{"spec"})
)

// Check is admission's validation of what a client creates without storing it. Who answers calls it once, before anything is done: when the
// object is known to be well-formed, and completed.
type Check func(ctx context.Context, obj Object) error

// Answer adapts a typed func that answers a review for Resource.Create.
func Answer[T Object](f func(ctx context.Context, in T) (T, error)) func(ctx context.Context, obj Object, check Check, _ *metav1.CreateOptions) (Object, error) {
	return func(ctx context.Context, obj Object, check Check, _ *metav1.CreateOptions) (Object, error) {
		if err := check(ctx, obj); err != nil {
			return nil, err
		}
		out, err := f(ctx, obj.(T))
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// VersionOf makes the Version of a Go type and its list type, with a typed
// defaulting func (nil: none).
func VersionOf[T, L any, PT interface {
	*T
	Object
}, PL interface {
	*L
	runtime.Object
}](gv schema.GroupVersion, def func(obj PT)) *Version {
	v := &Version{
		GroupVersion: gv,
		New:          func() Object { return PT(new(T)) },
		NewList:      func() runtime.Object { return PL(new(L)) },
		Deprecation:  deprecationOf(gv, new(T)),
	}
	if def != nil {
		v.Default = func(obj Object) { def(obj.(PT)) }
	}
	return v
}

// Lenient returns a version that keeps the habits of old versions.
func Lenient(v *Version) *Version {
	v.Lenient = true
	return v
}
