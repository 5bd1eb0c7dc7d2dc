package noderestriction

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// admitToken lets a node request tokens of service accounts, each bound to a
// pod on the node and for an audience that the pod requests.
func (p *plugin) admitToken(ctx context.Context, a *admission.Attributes, node string) error {
	if a.Operation != admission.Create || a.Subresource != "token" {
		return nil
	}
	tr, ok := a.Object.(*authenticationv1.TokenRequest)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	ref := tr.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return admission.Forbiddenf(a, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return admission.Forbiddenf(a, "node requested token with a pod binding without a uid")
	}
	pod, err := admission.Seen[*corev1.Pod](ctx, p.objects, admission.Pods, a.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return err
	case err != nil:
		return admission.Forbidden(a, err)
	case ref.UID != pod.UID:
		return admission.Forbiddenf(a, "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != node:
		return admission.Forbiddenf(a, "node requested token bound to a pod scheduled on a different node")
	}
	if p.gates.Off(features.ServiceAccountNodeAudienceRestriction) {
		return nil
	}
	if len(tr.Spec.Audiences) > 1 {
		return admission.Forbiddenf(a, "node may only request 0 or 1 audiences")
	}
	audience := ""
	if len(tr.Spec.Audiences) == 1 {
		audience = tr.Spec.Audiences[0]
	}
	return p.admitAudience(ctx, a, pod, audience)
}

// admitAudience requires that the pod requests the audience, or that the node
// is authorized for it by name.
func (p *plugin) admitAudience(ctx context.Context, a *admission.Attributes, pod *corev1.Pod, audience string) error {
	asked, err := p.asksFor(ctx, pod, audience)
	if err != nil {
		return admission.Forbidden(a, fmt.Errorf("error validating audience %q: %w", audience, err))
	}
	if asked {
		return nil
	}
	allowed, err := p.mayAct(ctx, a, "request-serviceaccounts-token-audience", audience, a.Name)
	switch {
	case allowed:
		return nil
	case err != nil:
		return admission.Forbidden(a, fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", a.User.GetName(), audience, err))
	}
	return admission.Forbiddenf(a, "%s is not authorized to request tokens for audience %q", a.User.GetName(), audience)
}

// mayAct says whether the node has a verb, for a service account, on a resource that exists only for authorization. An
// authorizer may allow in spite of an error.
func (p *plugin) mayAct(ctx context.Context, a *admission.Attributes, verb, resource, account string) (bool, error) {
	decision, _, err := p.authorizer.Authorize(ctx, &authz.Attributes{
		User: a.User, Verb: verb, IsResource: true, Namespace: a.Namespace,
		Group: a.Resource.Group, Version: a.Resource.Version, Resource: resource, Name: account,
	})
	return decision == authz.Allow, err
}

// asksFor says that a volume of a pod requests tokens for an audience:
// directly, or through its CSI driver.
func (p *plugin) asksFor(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
		}
		driver, err := p.driverOf(ctx, pod, v)
		if err == nil && driver != "" {
			var asks bool
			if asks, err = p.driverAsksFor(ctx, driver, audience); asks {
				return true, nil
			}
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

func (p *plugin) driverAsksFor(ctx context.Context, name, audience string) (bool, error) {
	driver, err := admission.Seen[*storagev1.CSIDriver](ctx, p.objects, csiDrivers, "", name)
	if err != nil {
		return false, singular(err, "csidriver.storage.k8s.io", name)
	}
	for _, r := range driver.Spec.TokenRequests {
		if r.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}

// driverOf returns the CSI driver of a volume; "" is none.
func (p *plugin) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return p.driverOfClaim(ctx, pod.Namespace, pod.Name+"-"+v.Name)
	case v.PersistentVolumeClaim != nil:
		return p.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	}
	return successor(v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.AzureFile != nil, v.Cinder != nil,
		v.GCEPersistentDisk != nil, v.PortworxVolume != nil, v.VsphereVolume != nil), nil
}

func (p *plugin) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	claim, err := admission.Seen[*corev1.PersistentVolumeClaim](ctx, p.objects, admission.PersistentVolumeClaims, namespace, name)
	if err != nil {
		return "", singular(err, "persistentvolumeclaim", name)
	}
	volume, err := admission.Seen[*corev1.PersistentVolume](ctx, p.objects, admission.PersistentVolumes, "", claim.Spec.VolumeName)
	if err != nil {
		return "", singular(err, "persistentvolume", claim.Spec.VolumeName)
	}
	v := &volume.Spec
	if v.CSI != nil {
		return v.CSI.Driver, nil
	}
	return successor(v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.AzureFile != nil, v.Cinder != nil,
		v.GCEPersistentDisk != nil, v.PortworxVolume != nil, v.VsphereVolume != nil), nil
}

// singular says what is missing in the words of kube-apiserver, which names it in the singular here.
func singular(err error, what, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(schema.ParseGroupResource(what), name)
	}
	return err
}

// successor returns the CSI driver that has replaced a volume type that was
// once built in.
func successor(ebs, azureDisk, azureFile, cinder, gce, portworx, vsphere bool) string {
	switch {
	case ebs:
		return "ebs.csi.aws.com"
	case azureDisk:
		return "disk.csi.azure.com"
	case azureFile:
		return "file.csi.azure.com"
	case cinder:
		return "cinder.csi.openstack.org"
	case gce:
		return "pd.csi.storage.gke.io"
	case portworx:
		return "pxd.portworx.com"
	case vsphere:
		return "csi.vsphere.vmware.com"
	}
	return ""
}
