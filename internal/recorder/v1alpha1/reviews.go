package v1alpha1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectHistory asks what was done to an object. Only who may get the object is told.
type ObjectHistory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   ObjectReference     `json:"spec"`
	Status ObjectHistoryStatus `json:"status"`
}

// ObjectReference names an object.
type ObjectReference struct {
	Group     string `json:"group,omitempty"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// ObjectHistoryStatus is the answer.
type ObjectHistoryStatus struct {
	// Entries are in order of time, oldest first. Older ones may be forgotten.
	Entries []HistoryEntry `json:"entries"`
	// Forgotten counts entries that were dropped.
	Forgotten int64 `json:"forgotten,omitempty"`
}

// HistoryEntry is a write to an object or the refusal of one. Entries that differ in nothing but their values follow one
// another as one, with Count.
type HistoryEntry struct {
	First metav1.MicroTime `json:"first"`
	Last  metav1.MicroTime `json:"last"`
	Count int64            `json:"count"`

	User         string `json:"user,omitempty"`
	Impersonated string `json:"impersonated,omitempty"`
	UserAgent    string `json:"userAgent,omitempty"`
	SourceIP     string `json:"sourceIP,omitempty"`
	Verb         string `json:"verb"`
	Subresource  string `json:"subresource,omitempty"`
	Code         int32  `json:"code"`
	Reason       string `json:"reason,omitempty"`
	// RefusedFields are those that a refusal names.
	RefusedFields []string `json:"refusedFields,omitempty"`
	// Request is the number of the last request.
	Request int64 `json:"request"`
	// Steps are the webhooks and policies that refused, failed or changed something.
	Steps []Step `json:"steps,omitempty"`

	Operation       string        `json:"operation,omitempty"`
	UID             string        `json:"uid,omitempty"`
	ResourceVersion string        `json:"resourceVersion,omitempty"`
	Fields          []FieldChange `json:"fields,omitempty"`
	MoreFields      int           `json:"moreFields,omitempty"`
}

// AccessExplanation asks why a user may or may not do something.
type AccessExplanation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   authorizationv1.SubjectAccessReviewSpec `json:"spec"`
	Status AccessExplanationStatus                 `json:"status"`
}

// AccessExplanationStatus is the answer.
type AccessExplanationStatus struct {
	Allowed bool `json:"allowed"`
	// Denied says that an authorizer has refused it, and not only that none allows it.
	Denied bool `json:"denied,omitempty"`
	// Reason is what the authorizers say.
	Reason string `json:"reason,omitempty"`
	// Bindings are those that name the user or a group of it, where they apply.
	Bindings []ConsideredBinding `json:"bindings,omitempty"`
	// Would are bindings whose role allows the request, and that name somebody else; at most ten.
	Would []ConsideredBinding `json:"would,omitempty"`
	// Roles are roles that allow the request, to which no binding refers in the place of the request; at most ten.
	Roles []rbacv1.RoleRef `json:"roles,omitempty"`
}

// ConsideredBinding is a binding, and what of its role's rules comes nearest to the request.
type ConsideredBinding struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Role      rbacv1.RoleRef `json:"role"`
	// Subject is the one by which the binding names the user; of a binding that would allow, its first ones.
	Subjects []rbacv1.Subject `json:"subjects"`
	Allows   bool             `json:"allows"`
	// Rule is the rule that allows, or comes nearest.
	Rule *rbacv1.PolicyRule `json:"rule,omitempty"`
	// Missing is what the nearest rule lacks: verb, group, resource, name, path; or role, if it does not exist.
	Missing []string `json:"missing,omitempty"`
}

// ObjectHistoryList exists because every kind has a list; nothing lists histories.
type ObjectHistoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ObjectHistory `json:"items"`
}

// AccessExplanationList exists because every kind has a list; nothing lists explanations.
type AccessExplanationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []AccessExplanation `json:"items"`
}
