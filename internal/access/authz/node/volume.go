package node

import corev1 "k8s.io/api/core/v1"

// mountSecrets returns the secrets that a kubelet needs to mount a volume, without those that only the control plane
// uses. An old volume may name a secret without a namespace; this means the claim's namespace.
func mountSecrets(pv *corev1.PersistentVolume) []Ref {
	var out []Ref
	add := func(namespace, name string) {
		if name != "" {
			out = append(out, Ref{Secret, namespace, name})
		}
	}
	claims := ""
	if pv.Spec.ClaimRef != nil {
		claims = pv.Spec.ClaimRef.Namespace
	}
	orClaims := func(r *corev1.SecretReference) {
		switch {
		case r == nil:
		case r.Namespace == "":
			add(claims, r.Name)
		default:
			add(r.Namespace, r.Name)
		}
	}
	s := &pv.Spec.PersistentVolumeSource
	switch {
	case s.AzureFile != nil:
		namespace := claims
		if n := s.AzureFile.SecretNamespace; n != nil && *n != "" {
			namespace = *n
		}
		add(namespace, s.AzureFile.SecretName)
	case s.CephFS != nil:
		orClaims(s.CephFS.SecretRef)
	case s.Cinder != nil:
		if r := s.Cinder.SecretRef; r != nil {
			add(r.Namespace, r.Name)
		}
	case s.FlexVolume != nil:
		orClaims(s.FlexVolume.SecretRef)
	case s.RBD != nil:
		orClaims(s.RBD.SecretRef)
	case s.ScaleIO != nil:
		orClaims(s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		orClaims(s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		if r := s.StorageOS.SecretRef; r != nil {
			add(r.Namespace, r.Name)
		}
	case s.CSI != nil:
		for _, r := range []*corev1.SecretReference{s.CSI.NodePublishSecretRef, s.CSI.NodeStageSecretRef, s.CSI.NodeExpandSecretRef} {
			if r != nil {
				add(r.Namespace, r.Name)
			}
		}
	}
	return out
}
