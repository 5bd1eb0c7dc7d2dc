package rules

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var reclaimPolicies = []corev1.PersistentVolumeReclaimPolicy{
	corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
}

// VolumeOptions relax rules for stored volumes.
type VolumeOptions struct {
	AllowInvalidNodeAffinityValues bool
}

// VolumeSpec validates the spec of the persistent volume called name.
func VolumeSpec(s *corev1.PersistentVolumeSpec, name string, path *field.Path, o VolumeOptions) field.ErrorList {
	e := At(path)
	accessModesOf(s.AccessModes, "", e)
	volumeCapacity(s, e)
	if s.PersistentVolumeReclaimPolicy != "" {
		OneOf(e, "persistentVolumeReclaimPolicy", s.PersistentVolumeReclaimPolicy, reclaimPolicies)
	}
	if a := s.NodeAffinity; a != nil {
		if a.Required != nil {
			NodeSelector(a.Required, o.AllowInvalidNodeAffinityValues, e.Field("nodeAffinity").Field("required"))
		} else {
			e.Field("nodeAffinity").Field("required").Required("must say which nodes")
		}
	}
	persistentSource(s, name, e)
	recycleRoot(s, e)
	if s.StorageClassName != "" {
		e.Name("storageClassName", s.StorageClassName, Subdomain)
	}
	if s.VolumeMode != nil {
		OneOf(e, "volumeMode", *s.VolumeMode, volumeModes)
	}
	volumeAttributesClass(s, e)
	return e.List()
}

// InlineVolumeSpec validates an inline volume spec of a VolumeAttachment: it must be a CSI volume, without fields for
// binding.
func InlineVolumeSpec(s *corev1.PersistentVolumeSpec, name string, path *field.Path) field.ErrorList {
	e := At(path)
	forbid := func(field string, set bool) {
		if set {
			e.Field(field).Forbidden("may not be specified in the context of inline volumes")
		}
	}
	forbid("claimRef", s.ClaimRef != nil)
	forbid("capacity", len(s.Capacity) != 0)
	if s.CSI == nil {
		e.Field("csi").Required("has to be specified in the context of inline volumes")
	}
	accessModesOf(s.AccessModes, "", e)
	forbid("persistentVolumeReclaimPolicy", s.PersistentVolumeReclaimPolicy != "" && s.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain)
	forbid("nodeAffinity", s.NodeAffinity != nil)
	persistentSource(s, name, e)
	recycleRoot(s, e)
	forbid("storageClassName", s.StorageClassName != "")
	forbid("volumeMode", s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem)
	volumeAttributesClass(s, e)
	return e.List()
}

func volumeCapacity(s *corev1.PersistentVolumeSpec, e Errors) {
	capacity := e.Field("capacity")
	if len(s.Capacity) == 0 {
		capacity.Required("")
	}
	if _, found := s.Capacity[corev1.ResourceStorage]; !found || len(s.Capacity) > 1 {
		e.AddError(field.NotSupported(capacity.Path(), s.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, q := range s.Capacity {
		capacity.Key(string(name)).PositiveQuantity(q)
	}
}

func recycleRoot(s *corev1.PersistentVolumeSpec, e Errors) {
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		e.Field("persistentVolumeReclaimPolicy").Forbidden("may not be 'recycle' for a hostPath mount of '/'")
	}
}

func volumeAttributesClass(s *corev1.PersistentVolumeSpec, e Errors) {
	class := s.VolumeAttributesClassName
	if class == nil {
		return
	}
	if e.Present("volumeAttributesClassName", *class) {
		e.Name("volumeAttributesClassName", *class, Subdomain)
	}
	if s.CSI == nil {
		e.Field("csi").Required("has to be specified when using volumeAttributesClassName")
	}
}

// persistentSource checks that there is exactly one source, and validates it.
func persistentSource(s *corev1.PersistentVolumeSpec, name string, e Errors) {
	u := &Union{Errors: e, What: "volume type"}
	Member(u, s.HostPath, "hostPath", HostPath)
	MemberAt(u, s.GCEPersistentDisk, "gcePersistentDisk", "persistentDisk", GCEPersistentDisk)
	Member(u, s.AWSElasticBlockStore, "awsElasticBlockStore", AWSElasticBlockStore)
	Member(u, s.Glusterfs, "glusterfs", glusterfsVolume)
	Member(u, s.Flocker, "flocker", Flocker)
	Member(u, s.NFS, "nfs", NFS)
	Member(u, s.RBD, "rbd", func(v *corev1.RBDPersistentVolumeSource, e Errors) { RBD(v.CephMonitors, v.RBDImage, e) })
	Member(u, s.Quobyte, "quobyte", Quobyte)
	MemberAt(u, s.CephFS, "cephFS", "cephfs", func(v *corev1.CephFSPersistentVolumeSource, e Errors) { CephFS(v.Monitors, e) })
	Member(u, s.ISCSI, "iscsi", func(v *corev1.ISCSIPersistentVolumeSource, e Errors) { iscsiVolume(v, name, e) })
	Member(u, s.Cinder, "cinder", cinderVolume)
	Member(u, s.FC, "fc", FC)
	if s.FlexVolume != nil { // may be a second source
		u.n++
		FlexVolume(s.FlexVolume.Driver, s.FlexVolume.Options, e.Field("flexVolume"))
	}
	Member(u, s.AzureFile, "azureFile", azureFileVolume)
	Member(u, s.VsphereVolume, "vsphereVolume", VsphereVolume)
	Member(u, s.PhotonPersistentDisk, "photonPersistentDisk", PhotonPersistentDisk)
	Member(u, s.PortworxVolume, "portworxVolume", PortworxVolume)
	Member(u, s.AzureDisk, "azureDisk", AzureDisk)
	Member(u, s.ScaleIO, "scaleIO", func(v *corev1.ScaleIOPersistentVolumeSource, e Errors) {
		ScaleIO(v.Gateway, v.System, v.VolumeName, e)
	})
	Member(u, s.Local, "local", func(v *corev1.LocalVolumeSource, local Errors) {
		if local.Present("path", v.Path) {
			local.NoBacksteps("path", v.Path)
		}
		if s.NodeAffinity == nil {
			e.Field("nodeAffinity").Required("Local volume requires node affinity")
		}
	})
	Member(u, s.StorageOS, "storageos", storageOSVolume)
	Member(u, s.CSI, "csi", csiVolume)
	if u.Count() == 0 {
		e.Required("must specify a volume type")
	}
}

func glusterfsVolume(v *corev1.GlusterfsPersistentVolumeSource, e Errors) {
	Glusterfs(v.EndpointsName, v.Path, e)
	if n := v.EndpointsNamespace; n != nil {
		if *n == "" {
			e.Field("endpointsNamespace").Invalid(*n, "if the endpointnamespace is set, it must be a valid namespace name")
		} else {
			e.Name("endpointsNamespace", *n, NamespaceName)
		}
	}
}

func iscsiVolume(v *corev1.ISCSIPersistentVolumeSource, name string, e Errors) {
	i := ISCSI{
		Portal: v.TargetPortal, IQN: v.IQN, Lun: v.Lun, InitiatorName: v.InitiatorName,
		NeedsSecret: v.DiscoveryCHAPAuth || v.SessionCHAPAuth, HasSecret: v.SecretRef != nil,
	}
	i.Check(e)
	if i.TooLongForInitiator(name) {
		e.Field("targetportal").Invalid(v.TargetPortal, "must be shorter together with the name of the volume")
	}
	if v.SecretRef != nil {
		e.Field("secretRef").Present("name", v.SecretRef.Name)
	}
}

func cinderVolume(v *corev1.CinderPersistentVolumeSource, e Errors) {
	e.Present("volumeID", v.VolumeID)
	if v.SecretRef != nil {
		e.Field("secretRef").Present("name", v.SecretRef.Name)
		e.Field("secretRef").Present("namespace", v.SecretRef.Namespace)
	}
}

func azureFileVolume(v *corev1.AzureFilePersistentVolumeSource, e Errors) {
	AzureFile(v.SecretName, v.ShareName, e)
	if v.SecretNamespace != nil {
		e.Present("secretNamespace", *v.SecretNamespace)
	}
}

func storageOSVolume(v *corev1.StorageOSPersistentVolumeSource, e Errors) {
	StorageOS(v.VolumeName, v.VolumeNamespace, e)
	if v.SecretRef != nil {
		e.Field("secretRef").Present("name", v.SecretRef.Name)
		e.Field("secretRef").Present("namespace", v.SecretRef.Namespace)
	}
}

func csiVolume(v *corev1.CSIPersistentVolumeSource, e Errors) {
	e.CSIDriverName("driver", v.Driver)
	e.Present("volumeHandle", v.VolumeHandle)
	for _, s := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", v.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", v.ControllerExpandSecretRef},
		{"nodePublishSecretRef", v.NodePublishSecretRef},
		{"nodeExpandSecretRef", v.NodeExpandSecretRef},
	} {
		if s.ref == nil {
			continue
		}
		e := e.Field(s.name)
		if e.Present("name", s.ref.Name) {
			e.DNSSubdomain("name", s.ref.Name)
		}
		if e.Present("namespace", s.ref.Namespace) {
			e.DNSLabel("namespace", s.ref.Namespace)
		}
	}
}
