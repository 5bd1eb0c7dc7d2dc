package node

import "fmt"

// The funcs below decide what a node may do with each resource; the string is the reason of a denial.

// readsOne allows to get single objects, and to watch them one by one.
func (a *asked) readsOne(kind Kind) (bool, string) {
	switch {
	case !a.verbIs("get", "list", "watch"):
		return false, "can only read resources of this type"
	case a.Subresource != "":
		return false, "cannot read subresource"
	case a.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return a.related(kind)
}

func (a *asked) gets(kind Kind) (bool, string) {
	if ok, reason := a.onlyGets(); !ok {
		return false, reason
	}
	return a.related(kind)
}

func (a *asked) onlyGets() (bool, string) {
	switch {
	case a.Verb != "get":
		return false, "can only get individual resources of this type"
	case a.Subresource != "":
		return false, "cannot get subresource"
	}
	return true, ""
}

func (a *asked) getsVolume() (bool, string) {
	ok, reason := a.onlyGets()
	switch {
	case !ok:
		return false, reason
	case a.Name == "":
		return false, "No Object name found"
	case a.Namespace != "" || !a.graph.mounts(a.Name, a.node):
		return false, a.unrelated()
	}
	return true, ""
}

// serviceAccount allows a node to get the accounts of its pods and request tokens for them.
func (a *asked) serviceAccount(readable bool) (bool, string) {
	switch {
	case a.Verb == "get" && a.Subresource == "" && !readable:
		return false, "not allowed to get service accounts"
	case a.Verb == "get" && a.Subresource == "":
		return a.readsOne(ServiceAccount)
	case a.Verb != "create" || a.Name == "":
		return false, "can only create tokens for individual service accounts"
	case a.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return a.related(ServiceAccount)
}

// lease and csiNode allow access to the node's own object. On create the name is not known yet; NodeRestriction checks
// it.
func (a *asked) lease() (bool, string) {
	switch {
	case !a.verbIs("get", "create", "update", "patch", "delete"):
		return false, "can only get, create, update, patch, or delete a node lease"
	case a.Namespace != leaseNamespace:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", leaseNamespace)
	case a.Verb != "create" && a.Name != a.node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func (a *asked) csiNode(health bool) (bool, string) {
	switch {
	case a.Subresource == "" && !a.verbIs("get", "create", "update", "patch", "delete"):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case a.Subresource == "status" && !health:
		return false, "CSINode status access requires CSIVolumeHealth feature"
	case a.Subresource == "status" && !a.verbIs("get", "update", "patch"):
		return false, "can only get, update, or patch CSINode status"
	case a.Subresource != "" && a.Subresource != "status":
		return false, "cannot authorize CSINode subresources"
	case a.Verb != "create" && a.Name != a.node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func (a *asked) resourceSlice() (bool, string) {
	if a.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch a.Verb {
	case "create":
		return true, "" // NodeRestriction checks the owner
	case "get", "update", "patch", "delete":
		return a.related(slice)
	case "watch", "list", "deletecollection":
		if a.selects("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

// ownNode compares names instead of querying the graph: a kubelet reads its node before the node exists.
func (a *asked) ownNode() (bool, string) {
	switch {
	case a.Subresource == "status":
		return a.verbIs("update", "patch"), ""
	case a.Subresource != "":
		return false, ""
	case a.verbIs("create", "update", "patch"):
		return true, ""
	case !a.verbIs("get", "list", "watch"):
		return false, ""
	case a.Name == "":
		return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", a.node)
	case a.Name != a.node:
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", a.node, a.Name)
	}
	return true, ""
}

// pods allows a node to read its pods, and to make the writes that NodeRestriction checks.
func (a *asked) pods() (bool, string) {
	switch a.Subresource {
	case "status":
		return a.verbIs("update", "patch"), ""
	case "eviction":
		return a.Verb == "create", ""
	case "":
	default:
		return false, ""
	}
	switch a.Verb {
	case "get":
		return a.related(pod)
	case "list", "watch":
		switch {
		case a.selects("spec.nodeName"):
			return true, ""
		case a.Name != "":
			return a.related(pod)
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	case "create", "delete":
		return true, ""
	}
	return false, ""
}

func (a *asked) podCertificate() (bool, string) {
	if a.Subresource != "" {
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch a.Verb {
	case "create":
		return true, "" // NodeRestriction checks the rest
	case "get":
		return a.related(podCertificate)
	case "list", "watch":
		if a.selects("spec.nodeName") {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", a.Verb)
}
