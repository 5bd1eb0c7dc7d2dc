package resource

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	apiserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Rights decides who may write which part of the status of a ResourceClaim, beyond the right to write it at all.
type Rights struct {
	// Require returns an error if the context's user may not do what the request describes.
	Require func(ctx context.Context, i *request.Info) error
}

// may requires the right to a verb on a part of claims that exists only for authorization.
func (r Rights) may(ctx context.Context, verb, sub, namespace, name string) error {
	return r.Require(ctx, &request.Info{IsResource: true, Verb: verb, Group: resourcev1.GroupName, Version: request.InfoFrom(ctx).Version,
		Resource: "resourceclaims", Subresource: sub, Namespace: namespace, Name: name})
}

// MayBind requires the right of a scheduler: the request's verb on all claims of all namespaces.
func (r Rights) MayBind(ctx context.Context) error {
	i := request.InfoFrom(ctx)
	if i == nil {
		return nil // the server itself
	}
	if err := r.may(ctx, i.Verb, resourcev1.SubresourceBinding, "", ""); err != nil {
		return fmt.Errorf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %w`, i.Verb, err)
	}
	return nil
}

// MayReport requires the right of a driver, in the claim's namespace. A driver that runs on the claim's node needs it for claims of its node
// only, any other user for those of all nodes.
func (r Rights) MayReport(ctx context.Context, driver, node string) error {
	i := request.InfoFrom(ctx)
	if i == nil {
		return nil
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + i.Verb}
	if runsOn(request.UserFrom(ctx), node) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + i.Verb, verbs[0]}
	}
	var first error
	for _, verb := range verbs {
		err := r.may(ctx, verb, resourcev1.SubresourceDriver, i.Namespace, driver)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return fmt.Errorf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %w`, verbs, first)
}

// runsOn says that a user is a service account whose token is bound to a pod on a node.
func runsOn(u user.Info, node string) bool {
	if u == nil || node == "" {
		return false
	}
	_, _, err := apiserviceaccount.SplitUsername(u.GetName())
	on := u.GetExtra()[serviceaccount.NodeNameKey]
	return err == nil && len(on) == 1 && on[0] == node
}
