package v1alpha1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ObjectHistory asks what was done to an object. Only who may get the object is told.
type ObjectHistory struct {
	metav1.TypeMeta   `json:",inline" doc:"Asks what was done to an object. Only who may get the object is told."`
	metav1.ObjectMeta `json:"metadata"`

	Spec   ObjectReference     `json:"spec" doc:"Which object is meant."`
	Status ObjectHistoryStatus `json:"status" doc:"The answer."`
}

// ObjectReference names an object.
type ObjectReference struct {
	Group     string `json:"group,omitempty" doc:"The API group."`
	Resource  string `json:"resource" doc:"The resource, in the plural."`
	Namespace string `json:"namespace,omitempty" doc:"The namespace."`
	Name      string `json:"name" doc:"The name of the object."`
}

// ObjectHistoryStatus is the answer.
type ObjectHistoryStatus struct {
	Entries   []HistoryEntry `json:"entries" doc:"What was done to the object, oldest first. Older entries may be forgotten."`
	Forgotten int64          `json:"forgotten,omitempty" doc:"How many entries were forgotten."`
}

// HistoryEntry is a write to an object or the refusal of one. Entries that differ in nothing but their values follow one
// another as one, with Count.
type HistoryEntry struct {
	First metav1.MicroTime `json:"first" doc:"When it was done for the first time."`
	Last  metav1.MicroTime `json:"last" doc:"When for the last time."`
	Count int64            `json:"count" doc:"How often, in a row."`

	User          string   `json:"user,omitempty" doc:"Who did it, as authenticated."`
	Impersonated  string   `json:"impersonated,omitempty" doc:"As whom."`
	UserAgent     string   `json:"userAgent,omitempty" doc:"The program, as it calls itself."`
	SourceIP      string   `json:"sourceIP,omitempty" doc:"The address from which it came."`
	Verb          string   `json:"verb" doc:"What was asked."`
	Subresource   string   `json:"subresource,omitempty" doc:"The subresource."`
	Code          int32    `json:"code" doc:"The HTTP status of the answer."`
	Reason        string   `json:"reason,omitempty" doc:"The reason in a refusal."`
	Message       string   `json:"message,omitempty" doc:"What the refusal says; absent after a restart, and for secrets."`
	Unnamed       bool     `json:"unnamed,omitempty" doc:"That a creation was refused before its object was read: it was of the same kind and namespace, but maybe not of this object."`
	RefusedFields []string `json:"refusedFields,omitempty" doc:"The fields that a refusal names."`
	Request       int64    `json:"request" doc:"The number of the last request."`
	Steps         []Step   `json:"steps,omitempty" doc:"The webhooks and policies that refused, failed or changed something."`

	Operation       string        `json:"operation,omitempty" doc:"What was done: Created, Updated, Deleting (its deletion has begun) or Deleted; absent from refusals."`
	UID             string        `json:"uid,omitempty" doc:"The UID of the object."`
	ResourceVersion string        `json:"resourceVersion,omitempty" doc:"The version of the object after the last request."`
	Fields          []FieldChange `json:"fields,omitempty" doc:"The fields that changed."`
	MoreFields      int           `json:"moreFields,omitempty" doc:"How many more fields changed."`
}

// AccessExplanation asks why a user may or may not do something.
type AccessExplanation struct {
	metav1.TypeMeta   `json:",inline" doc:"Asks why a user may or may not do something."`
	metav1.ObjectMeta `json:"metadata"`

	Spec   authorizationv1.SubjectAccessReviewSpec `json:"spec" doc:"Who wants to do what."`
	Status AccessExplanationStatus                 `json:"status" doc:"The answer."`
}

// AccessExplanationStatus is the answer.
type AccessExplanationStatus struct {
	Allowed bool     `json:"allowed" doc:"That it is allowed."`
	Denied  bool     `json:"denied,omitempty" doc:"That an authorizer has refused it, and not only that none allows it."`
	Reason  string   `json:"reason,omitempty" doc:"What the authorizers say."`
	Groups  []string `json:"groups,omitempty" doc:"The groups with which it was decided, if the question has none."`
	// Limited says that the client had to ask otherwise; the server does not set it.
	Limited  bool                `json:"-"`
	Seen     bool                `json:"seen,omitempty" doc:"That groups are those with which the server saw the user last; otherwise they are those that every such user has."`
	Bindings []ConsideredBinding `json:"bindings,omitempty" doc:"The bindings that name the user or a group of it, where they apply."`
	Would    []ConsideredBinding `json:"would,omitempty" doc:"Bindings whose role allows the request, and that name somebody else; at most ten."`
	Roles    []rbacv1.RoleRef    `json:"roles,omitempty" doc:"Roles that allow the request, to which no binding refers in the place of the request; at most ten."`
}

// ConsideredBinding is a binding, and what of its role's rules comes nearest to the request.
type ConsideredBinding struct {
	Kind      string             `json:"kind" doc:"RoleBinding or ClusterRoleBinding."`
	Namespace string             `json:"namespace,omitempty" doc:"The namespace of a RoleBinding."`
	Name      string             `json:"name" doc:"The name of the binding."`
	Role      rbacv1.RoleRef     `json:"role" doc:"The role to which it refers."`
	Subjects  []rbacv1.Subject   `json:"subjects" doc:"Those by which the binding names the user; of a binding that would allow, its first ones."`
	Allows    bool               `json:"allows" doc:"That its role allows the request."`
	Rule      *rbacv1.PolicyRule `json:"rule,omitempty" doc:"The rule of the role that allows, or comes nearest."`
	Missing   []string           `json:"missing,omitempty" doc:"What the nearest rule lacks: verb, group, resource, name, path; or role, if that does not exist."`
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
