package rules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Default sets *p to v if it is the zero value, which in most API fields means that the client omitted it.
func Default[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// DefaultPtr sets *p to a pointer to v if it is nil.
func DefaultPtr[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// DefaultResources rounds quantities up to thousandths, the finest unit of the API.
func DefaultResources(lists ...corev1.ResourceList) {
	for _, l := range lists {
		for name, q := range l {
			q.RoundUp(resource.Milli)
			l[name] = q
		}
	}
}

// DefaultClaimSpec sets the defaults of a claim's or claim template's spec.
func DefaultClaimSpec(spec *corev1.PersistentVolumeClaimSpec) {
	DefaultPtr(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultResources(spec.Resources.Limits, spec.Resources.Requests)
}

// Some network volume sources have two Go types with the same fields, for pods and for persistent volumes; the
// functions below take the fields.

// DefaultRBD sets the defaults of a Ceph RBD volume.
func DefaultRBD(pool, user, keyring *string) {
	Default(pool, "rbd")
	Default(user, "admin")
	Default(keyring, "/etc/ceph/keyring")
}

// DefaultAzureDisk sets the defaults of an Azure disk volume.
func DefaultAzureDisk(v *corev1.AzureDiskVolumeSource) {
	DefaultPtr(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
	DefaultPtr(&v.FSType, "ext4")
	DefaultPtr(&v.ReadOnly, false)
	DefaultPtr(&v.Kind, corev1.AzureSharedBlobDisk)
}

// DefaultScaleIO sets the defaults of a ScaleIO volume.
func DefaultScaleIO(storageMode, fsType *string) {
	Default(storageMode, "ThinProvisioned")
	Default(fsType, "xfs")
}
