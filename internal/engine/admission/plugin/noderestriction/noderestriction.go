// Package noderestriction restricts a node's user to the node's own objects: the
// Node, its lease, the pods bound to it and the objects that those pods use.
package noderestriction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/csr"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "NodeRestriction"

const userPrefix = "system:node:"

// leaseNamespace has the leases that nodes renew as their heartbeat.
const leaseNamespace = "kube-node-lease"

var (
	csiDrivers     = schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}
	csiNodes       = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	resourceSlices = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
)

type plugin struct {
	objects    admission.Objects
	authorizer authz.Authorizer
	gates      features.Set
}

// New makes the plugin. It is one of the mutating plugins, so that it refuses a
// write before others see it.
func New(objects admission.Objects, authorizer authz.Authorizer, gates features.Set) admission.Plugin {
	return admission.Plugin{
		Name: Name, Mutator: &plugin{objects, authorizer, gates},
		On: []admission.Operation{admission.Create, admission.Update, admission.Delete},
		Of: []schema.GroupResource{
			admission.Pods, admission.Nodes, admission.PersistentVolumeClaims, admission.ServiceAccounts,
			admission.Leases, csiNodes, resourceSlices, admission.CertificateSigningRequests,
			admission.PodCertificateRequests,
		},
	}
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	node, ok := nodeOf(a.User)
	if !ok {
		return nil
	}
	if node == "" {
		return admission.Forbiddenf(a, "could not determine node from user %q", a.User.GetName())
	}
	switch a.Resource.GroupResource() {
	case admission.Pods:
		return p.admitPods(ctx, a, node)
	case admission.Nodes:
		return admitNode(a, node)
	case admission.PersistentVolumeClaims:
		return admitClaim(a, node)
	case admission.ServiceAccounts:
		return p.admitToken(ctx, a, node)
	case admission.Leases:
		if a.Namespace != leaseNamespace {
			return admission.Forbiddenf(a, "can only access leases in the %q system namespace", leaseNamespace)
		}
		return admitNamesake(a, node)
	case csiNodes:
		return admitNamesake(a, node)
	case resourceSlices:
		return admitSlice(a, node)
	case admission.CertificateSigningRequests:
		if p.gates.Enabled(features.AllowInsecureKubeletCertificateSigningRequests) {
			return nil
		}
		return admitRequest(a, node)
	case admission.PodCertificateRequests:
		return p.admitPodCertificate(ctx, a, node)
	}
	return nil
}

// nodeOf returns the name of the node that a user is; ok is false if it is not a
// node.
func nodeOf(u user.Info) (name string, ok bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return strings.CutPrefix(u.GetName(), userPrefix)
}

// admitNamesake requires an object with the node's own name.
func admitNamesake(a *admission.Attributes, node string) error {
	name := a.Name
	if a.Operation == admission.Create {
		obj, ok := a.Object.(admission.Object)
		if !ok {
			return admission.Forbiddenf(a, "unexpected type %T", a.Object)
		}
		name = obj.GetName()
	}
	if name != node {
		return admission.Forbiddenf(a, "can only access %s with the same name as the requesting node", a.Resource.Resource)
	}
	return nil
}

// admitSlice checks what the node authorizer cannot see: created objects, and each
// object of a deleted collection.
func admitSlice(a *admission.Attributes, node string) error {
	obj, verb := a.Object, "create"
	switch a.Operation {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.OldObject, "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != node {
		return admission.Forbiddenf(a, "can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// admitRequest lets a node request kubelet certificates only for its own name.
func admitRequest(a *admission.Attributes, node string) error {
	if a.Operation != admission.Create {
		return nil
	}
	obj, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	if s := obj.Spec.SignerName; s != certificatesv1.KubeletServingSignerName && s != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	cert, err := csr.Parse(obj.Spec.Request)
	if err != nil {
		return admission.Forbidden(a, fmt.Errorf("unable to parse csr: %w", err))
	}
	if cert.Subject.CommonName != userPrefix+node {
		return admission.Forbiddenf(a, "can only create a node CSR with CN=%s%s", userPrefix, node)
	}
	return nil
}
