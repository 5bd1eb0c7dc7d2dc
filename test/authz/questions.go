package authz

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// question asks about somebody of this world, as a SubjectAccessReview.
func (w *world) question() authorizationv1.SubjectAccessReviewSpec {
	s := authorizationv1.SubjectAccessReviewSpec{}
	switch n := w.IntN(20); {
	case n < 7: // a node
		s.User, s.Groups = "system:node:"+named("n", w.IntN(4)), []string{"system:nodes", "system:authenticated"}
		if w.IntN(20) == 0 {
			s.Groups = s.Groups[1:]
		}
		s.ResourceAttributes = w.nodeResource()
		if w.IntN(10) == 0 {
			s.ResourceAttributes, s.NonResourceAttributes = nil, w.path()
		}
		return s
	case n < 9:
		ns := pick(w, namespaces()...)
		s.User, s.Groups = "system:serviceaccount:"+ns+":"+pick(w, "sa0", "sa1"), []string{"system:serviceaccounts", "system:serviceaccounts:" + ns, "system:authenticated"}
	case n < 12:
		s.User = pick(w, "system:kube-scheduler", "system:kube-controller-manager", "system:kube-proxy", "system:anonymous",
			"system:serviceaccount:kube-system:"+pick(w, "namespace-controller", "generic-garbage-collector", "deployment-controller", "clusterrole-aggregation-controller", "root-ca-cert-publisher"))
		s.Groups = some(w, "system:authenticated", "system:unauthenticated", "system:monitoring", "system:bootstrappers")
	default:
		s.User = named("u", w.IntN(7))
		s.Groups = some(w, "g0", "g1", "g2", "g3", "system:authenticated")
		if w.IntN(60) == 0 {
			s.Groups = append(s.Groups, "system:masters")
		}
	}
	if w.IntN(5) == 0 {
		s.NonResourceAttributes = w.path()
	} else {
		s.ResourceAttributes = w.resource()
	}
	return s
}

func (w *world) path() *authorizationv1.NonResourceAttributes {
	return &authorizationv1.NonResourceAttributes{Verb: pick(w, "get", "post", "GET", "*", ""),
		Path: pick(w, "/healthz", "/healthz/", "/healthz/etcd", "//healthz", "/livez", "/version", "/version/", "/metrics", "/metrics/slis", "/api", "/api/", "/api/v1", "/apis",
			"/apis/apps/v1", "/openapi/v2", "/openapi/v3/x", "/foo", "/foobar/x", "/logs/", "/logs/a", "/", "", "*", "/healthz/*", "/.well-known/openid-configuration", "/openid/v1/jwks")}
}

func (w *world) resource() *authorizationv1.ResourceAttributes {
	r := &authorizationv1.ResourceAttributes{
		Verb:        pick(w, "get", "list", "watch", "create", "update", "delete", "deletecollection", "impersonate", "bind", "*", "GET", ""),
		Group:       pick(w, "", "", "", "apps", "example.com", "*", "rbac.authorization.k8s.io"),
		Version:     pick(w, "", "v1", "*", "v9"),
		Resource:    pick(w, "pods", "pods", "secrets", "deployments", "deployments/scale", "users", "nodes", "pods/log", "*", "pods/", "anything", ""),
		Subresource: pick(w, "", "", "", "log", "scale", "status", "*"),
		Namespace:   pick(w, "ns0", "ns1", "ns2", "", "other", "*"),
		Name:        pick(w, "", "", "a", "b", "name0", "*"),
	}
	w.selectors(r)
	return r
}

func (w *world) selectors(r *authorizationv1.ResourceAttributes) {
	switch w.IntN(10) {
	case 0:
		r.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: pick(w, "spec.nodeName=n1", "spec.nodeName!=n1", "metadata.name=a", "a=b,c!=d", "=", "x")}
	case 1:
		r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: "spec.nodeName", Operator: pick(w, metav1.FieldSelectorOpIn, metav1.FieldSelectorOpNotIn, metav1.FieldSelectorOpExists), Values: pick(w, []string{"n1"}, []string{"n0"})}}}
		if r.FieldSelector.Requirements[0].Operator == metav1.FieldSelectorOpExists {
			r.FieldSelector.Requirements[0].Values = nil
		}
	case 2:
		r.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: pick(w, "a=b", "a in (b,c)", "!a", "a in", "a,b!=c")}
	}
}

func (w *world) nodeResource() *authorizationv1.ResourceAttributes {
	kinds := []struct{ group, resource, name string }{
		{"", "secrets", "secret"}, {"", "secrets", "secret"}, {"", "configmaps", "map"}, {"", "persistentvolumeclaims", "claim"}, {"", "persistentvolumes", "pv"},
		{"resource.k8s.io", "resourceclaims", "rc"}, {"storage.k8s.io", "volumeattachments", "va"}, {"", "serviceaccounts", "sa"}, {"resource.k8s.io", "resourceslices", "slice"},
		{"coordination.k8s.io", "leases", "n"}, {"storage.k8s.io", "csinodes", "n"}, {"", "nodes", "n"}, {"", "pods", "pod"}, {"", "services", "x"}, {"", "events", "x"},
		{"certificates.k8s.io", "podcertificaterequests", "x"}, {"certificates.k8s.io", "certificatesigningrequests", "x"}, {"certificates.k8s.io", "clustertrustbundles", "x"},
		{"node.k8s.io", "runtimeclasses", "x"},
	}
	k := pick(w, kinds...)
	r := &authorizationv1.ResourceAttributes{Group: k.group, Resource: k.resource, Name: named(k.name, w.IntN(6)), Version: "v1",
		Verb:        pick(w, "get", "get", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		Namespace:   pick(w, "ns0", "ns1", "ns2", "ns0", "ns1", "", "kube-node-lease"),
		Subresource: pick(w, "", "", "", "", "status", "token", "eviction", "log"),
	}
	switch {
	case k.resource == "secrets" && w.IntN(3) == 0:
		r.Name += pick(w, "-stage", "-publish", "-controller")
	case k.resource == "pods":
		r.Name = named("pod", w.IntN(24))
	case k.resource == "persistentvolumeclaims" && w.IntN(3) == 0:
		r.Name = named("pod", w.IntN(24)) + "-own"
	}
	if k.group != "" && k.group != "coordination.k8s.io" && k.resource != "resourceclaims" || k.name == "pv" || k.name == "n" && w.IntN(4) > 0 {
		r.Namespace = ""
	}
	if k.resource == "leases" && w.IntN(3) > 0 {
		r.Namespace = "kube-node-lease"
	}
	if k.resource == "serviceaccounts" && w.IntN(2) == 0 {
		r.Verb, r.Subresource = "create", "token"
	}
	if w.IntN(6) == 0 {
		r.Name = ""
	}
	w.selectors(r)
	return r
}
