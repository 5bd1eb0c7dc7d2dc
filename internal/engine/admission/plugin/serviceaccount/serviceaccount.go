// Package serviceaccount gives every new pod an existing service account, the
// account's image pull secrets, and its containers the account's token.
package serviceaccount

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/podrefs"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "ServiceAccount"

// defaultAccount is the account of pods that name none.
const defaultAccount = "default"

// enforceAnnotation, if true, restricts an account's pods to the secrets that
// the account lists.
const enforceAnnotation = "kubernetes.io/enforce-mountable-secrets"

// A controller creates the default account after its namespace. A pod may be
// created right after the namespace, so the plugin waits for the account.
const (
	defaultTries    = 10
	defaultInterval = 150 * time.Millisecond
)

type plugin struct {
	objects    admission.Objects
	nameSuffix func() string
	clock      clock.Clock
}

// New makes the plugin. nameSuffix makes the suffixes of generated names.
func New(objects admission.Objects, nameSuffix func() string, clock clock.Clock) admission.Plugin {
	p := &plugin{objects, nameSuffix, clock}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Subresource != "" || a.Operation != admission.Create {
		return nil
	}
	// The kubelet deletes a mirror pod that was changed.
	if !isMirror(pod) {
		if pod.Spec.ServiceAccountName == "" {
			pod.Spec.ServiceAccountName = defaultAccount
		}
		pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
		account, err := p.account(ctx, a, pod)
		if err != nil {
			return err
		}
		if mountsToken(account, pod) {
			p.mountToken(&pod.Spec)
		}
		if len(pod.Spec.ImagePullSecrets) == 0 {
			pod.Spec.ImagePullSecrets = append([]corev1.LocalObjectReference(nil), account.ImagePullSecrets...)
		}
	}
	return p.Validate(ctx, a)
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	switch {
	case a.Operation == admission.Create && a.Subresource == "" && isMirror(pod):
		return validateMirror(a, pod)
	case a.Operation == admission.Create && a.Subresource == "":
	case a.Operation == admission.Update && a.Subresource == "ephemeralcontainers":
	default:
		return nil
	}
	if pod.Spec.ServiceAccountName == "" {
		return admission.Forbiddenf(a, "no service account specified for pod %s/%s", a.Namespace, pod.Name)
	}
	account, err := p.account(ctx, a, pod)
	if err != nil {
		return err
	}
	if enforced, _ := strconv.ParseBool(account.Annotations[enforceAnnotation]); !enforced {
		return nil
	}
	if a.Operation == admission.Update {
		return limitEphemeral(account, pod)
	}
	if err := limitSecrets(account, pod); err != nil {
		return admission.Forbidden(a, err)
	}
	return nil
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// validateMirror refuses a mirror pod that refers to API objects: it runs
// already, without them.
func validateMirror(a *admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.Forbiddenf(a, "a mirror pod may not reference service accounts")
	}
	if podrefs.HasSecrets(&pod.Spec) {
		return admission.Forbiddenf(a, "a mirror pod may not reference secrets")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return admission.Forbiddenf(a, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

// account returns the service account of a pod.
func (p *plugin) account(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	tries := 1
	if name == defaultAccount {
		tries = defaultTries
	}
	for {
		account, err := admission.Seen[*corev1.ServiceAccount](ctx, p.objects, admission.ServiceAccounts, a.Namespace, name)
		if err == nil {
			return account, nil
		}
		if apierrors.IsNotFound(err) {
			err = apierrors.NewNotFound(corev1.Resource("serviceaccount"), name) // clients know kube-apiserver's words
		}
		if tries--; tries == 0 || !apierrors.IsNotFound(err) {
			// Not %w: the account's 404 must not become the pod's.
			return nil, admission.Forbidden(a, fmt.Errorf("error looking up service account %s/%s: %v", a.Namespace, name, err))
		}
		select {
		case <-p.clock.After(defaultInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
