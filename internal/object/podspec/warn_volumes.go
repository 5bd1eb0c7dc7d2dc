package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		v := &w.spec.Volumes[i]
		at := func() *field.Path { return w.at.Child("volumes").Index(i) }
		w.deprecatedSource(&v.VolumeSource, at)
		if e := v.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			w.list = append(w.list, rules.WarnClaimSpec(&e.VolumeClaimTemplate.Spec, at().Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	for i := range w.spec.Volumes {
		w.overlaps(&w.spec.Volumes[i])
	}
}

func (w *warner) deprecatedSource(v *corev1.VolumeSource, at func() *field.Path) {
	for _, d := range [...]struct {
		used         bool
		name, advice string
	}{
		{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
		{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
		{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
		{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if d.used {
			w.warn(at().Child(d.name), "%s", d.advice)
		}
	}
}

// file is a file in a volume, and its source.
type file struct{ path, source string }

// overlaps warns about files of a volume with the same path, or of which one is in the other's path.
func (w *warner) overlaps(v *corev1.Volume) {
	check := func(files []file, have []file) []file {
		for _, f := range files {
			f.path = strings.TrimRight(f.path, "/")
			for _, other := range have {
				if overlap(f.path, other.path) {
					w.list = append(w.list, fmt.Sprintf("volume %q: overlapping paths: %q (%s) with %q (%s)", v.Name, f.path, f.source, other.path, other.source))
				}
			}
			have = append(have, f)
		}
		return have
	}
	switch s := &v.VolumeSource; {
	case s.ConfigMap != nil:
		check(keyFiles(s.ConfigMap.Items, "ConfigMap "+s.ConfigMap.Name), nil)
	case s.Secret != nil:
		check(keyFiles(s.Secret.Items, "Secret "+s.Secret.SecretName), nil)
	case s.DownwardAPI != nil:
		check(downwardFiles(s.DownwardAPI.Items), nil)
	case s.Projected != nil:
		var have []file
		for i := range s.Projected.Sources {
			if s.Projected.Sources[i] == (corev1.VolumeProjection{}) {
				w.list = append(w.list, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
				continue
			}
			have = check(projectedFiles(&s.Projected.Sources[i]), have)
		}
	}
}

func projectedFiles(p *corev1.VolumeProjection) []file {
	switch {
	case p.ConfigMap != nil && p.ConfigMap.Items != nil:
		return keyFiles(p.ConfigMap.Items, "ConfigMap "+p.ConfigMap.Name)
	case p.Secret != nil && p.Secret.Items != nil:
		return keyFiles(p.Secret.Items, "Secret "+p.Secret.Name)
	case p.DownwardAPI != nil && p.DownwardAPI.Items != nil:
		return downwardFiles(p.DownwardAPI.Items)
	case p.ServiceAccountToken != nil:
		return []file{{p.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case p.ClusterTrustBundle != nil:
		return []file{{p.ClusterTrustBundle.Path, "ClusterTrustBundle"}}
	case p.PodCertificate != nil:
		var out []file
		for _, path := range []string{p.PodCertificate.CertificateChainPath, p.PodCertificate.KeyPath, p.PodCertificate.CredentialBundlePath} {
			if path != "" {
				out = append(out, file{path, "PodCertificate"})
			}
		}
		return out
	}
	return nil
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	out := make([]file, 0, len(items))
	for _, i := range items {
		out = append(out, file{i.Path, source})
	}
	return out
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile) []file {
	out := make([]file, 0, len(items))
	for _, i := range items {
		out = append(out, file{i.Path, "DownwardAPI"})
	}
	return out
}

// overlap reports whether two paths are equal or one contains the other.
func overlap(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}
