package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	webv1 "example.com/sites/api/v1"
)

// SiteSpec defines the desired state of Site.
type SiteSpec struct {
	// Name is what v1 calls the title.
	Name string `json:"name"`
	// +optional
	Theme string `json:"theme,omitempty"`
}

// SiteStatus defines the observed state of Site.
type SiteStatus struct {
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Site is the Schema for the sites API.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteList contains a list of Site.
// +kubebuilder:object:root=true
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

// ConvertTo converts this Site to the hub version.
func (in *Site) ConvertTo(hub conversion.Hub) error {
	out := hub.(*webv1.Site)
	out.ObjectMeta = in.ObjectMeta
	out.Spec = webv1.SiteSpec{Title: in.Spec.Name, Theme: in.Spec.Theme}
	out.Status.Conditions = in.Status.Conditions
	return nil
}

// ConvertFrom converts the hub version to this Site.
func (in *Site) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*webv1.Site)
	in.ObjectMeta = from.ObjectMeta
	in.Spec = SiteSpec{Name: from.Spec.Title, Theme: from.Spec.Theme}
	in.Status.Conditions = from.Status.Conditions
	return nil
}
