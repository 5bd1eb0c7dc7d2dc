package crd

import (
	"cmp"
	"encoding/json"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/store"
)

// withoutSchemas returns a stored definition, in either stored version, without its schemas, which are most of its
// bytes and seldom needed.
func withoutSchemas(i *store.Item) []byte {
	return jsonobject.Cut(i.Value(), "metadata.managedFields", "metadata.annotations", "spec.versions.*.schema", "spec.validation")
}

// outline is the part of a stored definition that the index needs, in either stored version.
type outline struct {
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name              string       `json:"name"`
		UID               types.UID    `json:"uid"`
		Generation        int64        `json:"generation"`
		CreationTimestamp metav1.Time  `json:"creationTimestamp"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Group                 string                                        `json:"group"`
		Scope                 apiextensionsv1.ResourceScope                 `json:"scope"`
		Names                 apiextensionsv1.CustomResourceDefinitionNames `json:"names"`
		PreserveUnknownFields *bool                                         `json:"preserveUnknownFields"`
		Versions              []outlineVersion                              `json:"versions"`
		// Of v1beta1, for all versions.
		Version      string               `json:"version"`
		Subresources *outlineSubresources `json:"subresources"`
	} `json:"spec"`
	Status struct {
		Conditions    []condition                                   `json:"conditions"`
		AcceptedNames apiextensionsv1.CustomResourceDefinitionNames `json:"acceptedNames"`
	} `json:"status"`
}

type outlineVersion struct {
	Name         string               `json:"name"`
	Served       bool                 `json:"served"`
	Storage      bool                 `json:"storage"`
	Subresources *outlineSubresources `json:"subresources"`
}

type outlineSubresources struct {
	Status *struct{} `json:"status"`
	Scale  *struct{} `json:"scale"`
}

// newDefinition decodes the index entry from a stored definition.
func newDefinition(i *store.Item) (*definition, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	var o outline
	if err := json.Unmarshal(withoutSchemas(i), &o); err != nil {
		return nil, err
	}
	d := &definition{
		name: o.Metadata.Name, uid: o.Metadata.UID, generation: o.Metadata.Generation,
		created: o.Metadata.CreationTimestamp.Time,
		group:   o.Spec.Group, namespaced: o.Spec.Scope == apiextensionsv1.NamespaceScoped,
		accepted: o.Status.AcceptedNames, item: i,
		hidden: annotation(i, hiddenAnnotation) == "hidden", indexed: indexedFields(annotation(i, indexAnnotation)),
	}
	for _, c := range o.Status.Conditions {
		yes := c.Status == apiextensionsv1.ConditionTrue
		switch c.Type {
		case apiextensionsv1.NamesAccepted:
			d.namesAccepted = yes
		case apiextensionsv1.Established:
			d.established = yes
		case apiextensionsv1.Terminating:
			d.terminating = yes
		case apiextensionsv1.NonStructuralSchema:
			d.statusStale = true // until the definition is corrected
		}
	}
	d.versions = o.versions()
	d.statusStale = d.statusStale || o.statusStale(d)
	return d, nil
}

func (o *outline) beta() bool {
	return o.APIVersion == apiextensionsv1beta1.SchemeGroupVersion.String()
}

func (o *outline) versions() []version {
	vs := o.Spec.Versions
	if len(vs) == 0 && o.Spec.Version != "" {
		vs = []outlineVersion{{Name: o.Spec.Version, Served: true, Storage: true}}
	}
	var out []version
	for _, v := range vs {
		sub := v.Subresources
		if sub == nil && o.beta() {
			sub = o.Spec.Subresources
		}
		out = append(out, version{
			name: v.Name, served: v.Served, storage: v.Storage,
			status: sub != nil && sub.Status != nil, scale: sub != nil && sub.Scale != nil,
		})
	}
	return out
}

// statusStale reports whether the controller may have to change the status.
func (o *outline) statusStale(d *definition) bool {
	names := o.Spec.Names
	names.Singular = cmp.Or(names.Singular, strings.ToLower(names.Kind))
	names.ListKind = cmp.Or(names.ListKind, names.Kind+"List")
	preserves := o.Spec.PreserveUnknownFields
	return o.Metadata.DeletionTimestamp != nil || !d.namesAccepted || !d.established ||
		!equality.Semantic.DeepEqual(names, d.accepted) ||
		preserves != nil && *preserves || preserves == nil && o.beta() ||
		isProtected(d.group)
}

// annotation reads an annotation of a stored definition.
func annotation(i *store.Item, name string) string {
	var value string
	if raw := jsonobject.Find(i.Value(), "metadata", "annotations", name); raw == nil || json.Unmarshal(raw, &value) != nil {
		return ""
	}
	return value
}
