// Package podrefs lists the API objects to which a pod refers.
package podrefs

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Secrets yields the names of the secrets that a pod uses, with duplicates.
func Secrets(spec *corev1.PodSpec) iter.Seq[string] {
	return named(func(yield func(string) bool) bool {
		for _, r := range spec.ImagePullSecrets {
			if !yield(r.Name) {
				return false
			}
		}
		for c := range podspec.Containers(spec) {
			for _, e := range c.EnvFrom {
				if e.SecretRef != nil && !yield(e.SecretRef.Name) {
					return false
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !yield(e.ValueFrom.SecretKeyRef.Name) {
					return false
				}
			}
		}
		for i := range spec.Volumes {
			for _, name := range volumeSecrets(&spec.Volumes[i]) {
				if !yield(name) {
					return false
				}
			}
		}
		return true
	})
}

func volumeSecrets(v *corev1.Volume) []string {
	local := func(r *corev1.LocalObjectReference) []string {
		if r == nil {
			return nil
		}
		return []string{r.Name}
	}
	switch {
	case v.AzureFile != nil:
		return []string{v.AzureFile.SecretName}
	case v.CephFS != nil:
		return local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return local(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		return local(v.RBD.SecretRef)
	case v.Secret != nil:
		return []string{v.Secret.SecretName}
	case v.ScaleIO != nil:
		return local(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return local(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		return local(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return local(v.CSI.NodePublishSecretRef)
	case v.Projected != nil:
		var names []string
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				names = append(names, s.Secret.Name)
			}
		}
		return names
	}
	return nil
}

// ConfigMaps yields the names of the config maps that a pod uses, with duplicates.
func ConfigMaps(spec *corev1.PodSpec) iter.Seq[string] {
	return named(func(yield func(string) bool) bool {
		for c := range podspec.Containers(spec) {
			for _, e := range c.EnvFrom {
				if e.ConfigMapRef != nil && !yield(e.ConfigMapRef.Name) {
					return false
				}
			}
			for _, e := range c.Env {
				if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil && !yield(e.ValueFrom.ConfigMapKeyRef.Name) {
					return false
				}
			}
		}
		for _, v := range spec.Volumes {
			if v.ConfigMap != nil && !yield(v.ConfigMap.Name) {
				return false
			}
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil && !yield(s.ConfigMap.Name) {
					return false
				}
			}
		}
		return true
	})
}

// named skips empty names.
func named(walk func(yield func(string) bool) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		walk(func(name string) bool { return name == "" || yield(name) })
	}
}

func anyOf(s iter.Seq[string]) bool {
	for range s {
		return true
	}
	return false
}

// HasSecrets reports whether a pod uses a secret.
func HasSecrets(spec *corev1.PodSpec) bool { return anyOf(Secrets(spec)) }

// Any returns the kind of an API object to which a pod refers, in words; "" means none. It returns an error for an
// unknown type of volume.
func Any(spec *corev1.PodSpec) (string, error) {
	switch {
	case spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case HasSecrets(spec):
		return "secrets", nil
	case anyOf(ConfigMaps(spec)):
		return "configmaps", nil
	case len(spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range spec.Volumes {
		what, err := volumeRefers(&spec.Volumes[i])
		if what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

func volumeRefers(v *corev1.Volume) (string, error) {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			what, err := projectionRefers(v.Name, &v.Projected.Sources[i])
			if what != "" || err != nil {
				return what, err
			}
		}
		return "", nil
	case isSelfContained(&v.VolumeSource):
		return "", nil
	}
	return "", fmt.Errorf("volume %q is of an unknown type", v.Name)
}

// isSelfContained reports whether a volume needs no API object.
func isSelfContained(v *corev1.VolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.AzureDisk != nil || v.CephFS != nil || v.Cinder != nil ||
		v.DownwardAPI != nil || v.EmptyDir != nil || v.FC != nil || v.FlexVolume != nil || v.Flocker != nil ||
		v.GCEPersistentDisk != nil || v.GitRepo != nil || v.HostPath != nil || v.Image != nil || v.ISCSI != nil ||
		v.NFS != nil || v.PhotonPersistentDisk != nil || v.PortworxVolume != nil || v.Quobyte != nil ||
		v.RBD != nil || v.ScaleIO != nil || v.StorageOS != nil || v.VsphereVolume != nil
}

func projectionRefers(volume string, p *corev1.VolumeProjection) (string, error) {
	switch {
	case p.ConfigMap != nil:
		return "configmaps (via projected volumes)", nil
	case p.Secret != nil:
		return "secrets (via projected volumes)", nil
	case p.ServiceAccountToken != nil:
		return "serviceaccounts (via projected volumes)", nil
	case p.ClusterTrustBundle != nil:
		return "clustertrustbundles", nil
	case p.PodCertificate != nil:
		return "podcertificates", nil
	case p.DownwardAPI != nil:
		return "", nil
	}
	return "", fmt.Errorf("projected volume %q has a source of an unknown type", volume)
}
