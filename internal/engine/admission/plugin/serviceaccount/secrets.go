package serviceaccount

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// limitSecrets refuses a pod that uses secrets not listed by its account.
func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	mountable := mountableSecrets(account)
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && !mountable.Has(v.Secret.SecretName) {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", v.Secret.SecretName, account.Name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if err := limitContainer("init container", &pod.Spec.InitContainers[i], mountable, account); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := limitContainer("container", &pod.Spec.Containers[i], mountable, account); err != nil {
			return err
		}
	}
	pull := sets.New[string]()
	for _, r := range account.ImagePullSecrets {
		pull.Insert(r.Name)
	}
	for i, r := range pod.Spec.ImagePullSecrets {
		if !pull.Has(r.Name) {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, r.Name, account.Name)
		}
	}
	return nil
}

// limitEphemeral refuses ephemeral containers that use secrets not listed by
// the pod's account.
func limitEphemeral(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	mountable := mountableSecrets(account)
	for i := range pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if err := limitContainer("ephemeral container", c, mountable, account); err != nil {
			return err
		}
	}
	return nil
}

func mountableSecrets(account *corev1.ServiceAccount) sets.Set[string] {
	names := sets.New[string]()
	for _, r := range account.Secrets {
		names.Insert(r.Name)
	}
	return names
}

func limitContainer(what string, c *corev1.Container, mountable sets.Set[string], account *corev1.ServiceAccount) error {
	refuse := func(where, name string) error {
		return fmt.Errorf("%s %s with %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret", what, c.Name, where, name, account.Name)
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !mountable.Has(e.ValueFrom.SecretKeyRef.Name) {
			return refuse("envVar "+e.Name, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil && !mountable.Has(e.SecretRef.Name) {
			return refuse("envFrom", e.SecretRef.Name)
		}
	}
	return nil
}
