package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SiteSpec defines the desired state of Site.
type SiteSpec struct {
	// +kubebuilder:validation:MinLength=1
	Title string `json:"title"`
	// +optional
	Theme string `json:"theme,omitempty"`
}

// SiteStatus defines the observed state of Site.
type SiteStatus struct {
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Site is the Schema for the sites API.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
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

// Hub marks this version as the one through which all others are converted.
func (*Site) Hub() {}
