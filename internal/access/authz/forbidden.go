package authz

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sanitizer escapes HTML characters in text that a client sent.
var sanitizer = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Forbidden returns the 403 error of a denied request. The reason may be empty.
func Forbidden(a *Attributes, reason string) error {
	text := sanitizer.Replace(a.refusal())
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name, errors.New(text))
}

// refusal describes the denied request: user, verb and object.
func (a *Attributes) refusal() string {
	name := ""
	if a.User != nil {
		name = a.User.GetName()
	}
	if !a.IsResource {
		return fmt.Sprintf("User %q cannot %s path %q", name, a.Verb, a.Path)
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	scope := "at the cluster scope"
	if a.Namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", name, a.Verb, resource, a.Group, scope)
}
