package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// TestClaimRights crosses users, the node of a claim and what is granted. Only a driver's own service account on the claim's node
// may use the right to report for its node, and nobody binds claims by a right in one namespace.
func TestClaimRights(t *testing.T) {
	const key = "authentication.kubernetes.io/node-name"
	on := func(name string, nodes ...string) user.Info {
		return &user.DefaultInfo{Name: name, Extra: map[string][]string{key: nodes}}
	}
	const account = "system:serviceaccount:drivers:d"
	users := map[string]user.Info{
		"on the node": on(account, "n1"), "on another": on(account, "n2"), "on two": on(account, "n1", "n2"), "nowhere": on(account),
		"a user with the extra": on("mallory", "n1"), "a node": on("system:node:n1", "n1"), "nobody": &user.DefaultInfo{Name: "system:anonymous"},
	}
	grants := []string{"update:binding:", "update:binding:shop", "associated-node:update:driver:shop", "associated-node:update:driver:", "arbitrary-node:update:driver:shop", "arbitrary-node:update:driver:other", "update:driver:shop"}
	for who, u := range users {
		for _, node := range []string{"", "n1", "n2"} {
			for _, granted := range grants {
				rights := Rights{func(_ context.Context, i *request.Info) error {
					if i.Resource != "resourceclaims" || i.Group != "resource.k8s.io" || i.Subresource == "driver" && i.Name != "d.example.com" || i.Subresource == "binding" && i.Name != "" {
						t.Errorf("asked for %+v", i)
					}
					if fmt.Sprintf("%s:%s:%s", i.Verb, i.Subresource, i.Namespace) == granted {
						return nil
					}
					return errors.New("it is not granted")
				}}
				ctx := request.WithInfo(request.WithUser(t.Context(), u), &request.Info{IsResource: true, Verb: "update", Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims", Subresource: "status", Namespace: "shop", Name: "c"})
				err := rights.MayBind(ctx)
				if (err == nil) != (granted == "update:binding:") || err != nil && !strings.HasPrefix(err.Error(), `changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: `) {
					t.Errorf("%s, granted %s: bind: %v", who, granted, err)
				}
				err = rights.MayReport(ctx, "d.example.com", node)
				may := granted == "arbitrary-node:update:driver:shop" || granted == "associated-node:update:driver:shop" &&
					(who == "on the node" && node == "n1" || who == "on another" && node == "n2")
				if (err == nil) != may || err != nil && !strings.HasPrefix(err.Error(), `changing status.devices requires resource="resourceclaims/driver", verb="[`) {
					t.Errorf("%s, a claim of node %q, granted %s: report: %v", who, node, granted, err)
				}
			}
		}
	}
	if (Rights{}).MayBind(t.Context()) != nil || (Rights{}).MayReport(t.Context(), "d", "n") != nil {
		t.Error("the server itself may not")
	}
}
