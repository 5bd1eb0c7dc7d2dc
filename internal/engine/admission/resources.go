package admission

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resources that plugins work on or look things up in.
var (
	CertificateSigningRequests = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	ClusterTrustBundles        = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
	CompositePodGroups         = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "compositepodgroups"}
	DeviceClasses              = schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}
	IngressClasses             = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"}
	Ingresses                  = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	Leases                     = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	LimitRanges                = schema.GroupResource{Resource: "limitranges"}
	Namespaces                 = schema.GroupResource{Resource: "namespaces"}
	Nodes                      = schema.GroupResource{Resource: "nodes"}
	PersistentVolumeClaims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	PersistentVolumes          = schema.GroupResource{Resource: "persistentvolumes"}
	PodCertificateRequests     = schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}
	PodGroups                  = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "podgroups"}
	Pods                       = schema.GroupResource{Resource: "pods"}
	PriorityClasses            = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
	ResourceClaims             = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	ResourceQuotas             = schema.GroupResource{Resource: "resourcequotas"}
	RuntimeClasses             = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	ServiceAccounts            = schema.GroupResource{Resource: "serviceaccounts"}
	Services                   = schema.GroupResource{Resource: "services"}
	StorageClasses             = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}
	VolumeAttributesClasses    = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattributesclasses"}
)

// Resource is the resource of a kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
}
