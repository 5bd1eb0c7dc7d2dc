package serviceaccount

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// volumePrefix begins the names of token volumes.
	volumePrefix = "kube-api-access-"
	// mountPath is the directory where clients in containers look for their
	// token.
	mountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is an hour and seven seconds: from this odd value the token
	// endpoint knows that no user chose it.
	tokenSeconds = int64(60*60 + 7)
)

// mountsToken says whether to mount the account's token: the pod decides, else
// the account, and the default is yes.
func mountsToken(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the token into every container that mounts nothing at its
// path.
func (p *plugin) mountToken(spec *corev1.PodSpec) {
	name := ""
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Name, volumePrefix) {
			name = v.Name
			break
		}
	}
	exists := name != ""
	if !exists {
		name = volumePrefix + p.nameSuffix()
	}
	used := mountInto(spec.InitContainers, name)
	used = mountInto(spec.Containers, name) || used
	if used && !exists {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenVolume()}})
	}
}

func mountInto(containers []corev1.Container, volume string) (used bool) {
next:
	for i := range containers {
		c := &containers[i]
		for _, m := range c.VolumeMounts {
			if m.MountPath == mountPath {
				continue next
			}
		}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: mountPath})
		used = true
	}
	return used
}

// tokenVolume returns a volume with what a client in a pod needs: a token, the
// CA of the API server and the pod's namespace.
func tokenVolume() *corev1.ProjectedVolumeSource {
	mode, seconds := corev1.ProjectedVolumeSourceDefaultMode, tokenSeconds
	return &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
