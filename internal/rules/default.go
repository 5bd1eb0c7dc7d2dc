package rules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Default sets *p to v where it is the zero value, which is how most API
// fields say that the client left them out.
func Default[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// DefaultPtr sets *p to a pointer to v where it is nil.
func DefaultPtr[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// DefaultResources rounds quantities up to thousandths, the finest step that
// the API keeps.
func DefaultResources(lists ...corev1.ResourceList) {
	for _, l := range lists {
		for name, q := range l {
			q.RoundUp(resource.Milli)
			l[name] = q
		}
	}
}

// DefaultClaimSpec fills in the spec of a claim or of a claim template.
func DefaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	DefaultPtr(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultResources(spec.Resources.Limits, spec.Resources.Requests)
}

// The network volume sources that a pod and a persistent volume both have are
// different Go types with the same fields; these take the fields.

// DefaultRBD fills in a Ceph RBD volume.
func DefaultRBD(pool, user, keyring *string) {
	Default(pool, "rbd")
	Default(user, "admin")
	Default(keyring, "/etc/ceph/keyring")
}

// DefaultAzureDisk fills in an Azure disk volume.
func DefaultAzureDisk(v *corev1.AzureDiskVolumeSource) {
	DefaultPtr(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	DefaultPtr(&v.FSType, "ext4")
	DefaultPtr(&v.ReadOnly, false)
	DefaultPtr(&v.Kind, corev1.AzureSharedBlobDisk)
}

// DefaultScaleIO fills in a ScaleIO volume.
func DefaultScaleIO(storageMode, fsType *string) {
	Default(storageMode, "ThinProvisioned")
	Default(fsType, "xfs")
}
