package exports

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// The API of exports, as definitions.yaml describes it.
const (
	// Group is its API group, Version its version.
	Group, Version = "planes.kanzen.io", "v1"
	// PlaneAnnotation of an object in a provider's view names the plane that the object is in.
	PlaneAnnotation = Group + "/plane"
	// exportAnnotation of a definition in a consumer names the export that it comes from, as PLANE/NAME.
	exportAnnotation = Group + "/export"
	// finalizer keeps a Binding until the kinds that it brought are gone.
	finalizer = Group + "/binding"
)

// The conditions of Bindings and Exports.
const (
	// Bound says that the kinds are served, and that the provider sees their objects.
	Bound = "Bound"
	// ConsumerAllowed says that the export is there for this plane.
	ConsumerAllowed = "ConsumerAllowed"
	// SchemasFit says that the newest schemas of the provider are served: that all stored objects are valid by them.
	SchemasFit = "SchemasFit"
	// ClaimsAccepted says that all claims of the export are accepted as they were made.
	ClaimsAccepted = "ClaimsAccepted"
	// heldBack is the reason for SchemasFit to be False while objects do not fit.
	heldBack = "HeldBack"
	// Offered says of an export that all its kinds can be bound.
	Offered = "Offered"
)

// Export offers kinds of its plane to others.
type Export struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ExportSpec   `json:"spec,omitempty"`
	Status            ExportStatus `json:"status,omitempty"`
}

// ExportSpec is what an export offers.
type ExportSpec struct {
	// Resources are the kinds, which the plane has definitions of.
	Resources []GroupResource `json:"resources,omitempty"`
	// Consumers are the planes that may bind.
	Consumers Consumers `json:"consumers,omitempty"`
	// Claims are other kinds of a consumer that the provider asks for.
	Claims []Claim `json:"claims,omitempty"`
}

// GroupResource names a kind.
type GroupResource struct {
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
}

// String returns the name of the kind's definition, or of a kind of the core group its plural.
func (g GroupResource) String() string {
	if g.Group == "" {
		return g.Resource
	}
	return g.Resource + "." + g.Group
}

// Consumers says which planes may bind an export: those that one of the fields names.
type Consumers struct {
	Planes []string `json:"planes,omitempty"`
	// Selector selects Planes by their labels.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	All      bool                  `json:"all,omitempty"`
}

// Claim is a right to objects of a kind in a consumer's plane.
type Claim struct {
	GroupResource `json:",inline"`
	Verbs         []string              `json:"verbs"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// ExportStatus is how an export is.
type ExportStatus struct {
	// Bindings is how many planes have bound it.
	Bindings int64 `json:"bindings"`
	// Schema identifies the schemas that are offered.
	Schema     string             `json:"schema,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Binding takes an export.
type Binding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              BindingSpec   `json:"spec,omitempty"`
	Status            BindingStatus `json:"status,omitempty"`
}

// BindingSpec says which export is taken, and what its provider may do.
type BindingSpec struct {
	Export ExportReference `json:"export"`
	// Accept are the claims that are granted: of what the export asks for, what is named here too.
	Accept []Claim `json:"accept,omitempty"`
}

// ExportReference names an export.
type ExportReference struct {
	Plane string `json:"plane"`
	Name  string `json:"name"`
}

// BindingStatus is how a binding is.
type BindingStatus struct {
	// ExportUID is the export that was bound first: another one of the same name does not take its place.
	ExportUID types.UID `json:"exportUID,omitempty"`
	// Schema identifies the schemas that are served here.
	Schema     string             `json:"schema,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

//go:embed definitions.yaml
var definitions []byte

// Definitions are the kinds of this package, which each plane has. All planes share them: they must not be changed.
var Definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	for document := range slices.Values(bytes.Split(definitions, []byte("\n---\n"))) {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(document, d); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
})
