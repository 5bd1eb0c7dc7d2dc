package rules

import (
	"net"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// This file validates the volume sources that both pods and persistent volumes have. If the API has two Go types with
// the same rules, the functions take the relevant fields.

var (
	hostPathTypes = []corev1.HostPathType{
		corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
	}
	azureCachingModes = []corev1.AzureDataDiskCachingMode{
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite,
	}
	azureDiskKinds = []corev1.AzureDataDiskKind{
		corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk,
	}
)

// HostPath checks a path on the node.
func HostPath(v *corev1.HostPathVolumeSource, e Errors) {
	if !e.Present("path", v.Path) {
		return
	}
	e.NoBacksteps("path", v.Path)
	if v.Type != nil {
		OneOf(e, "type", *v.Type, hostPathTypes)
	}
}

// GCEPersistentDisk checks a Google disk.
func GCEPersistentDisk(v *corev1.GCEPersistentDiskVolumeSource, e Errors) {
	e.Present("pdName", v.PDName)
	e.Range("partition", int64(v.Partition), 0, 255)
}

// AWSElasticBlockStore checks an Amazon disk.
func AWSElasticBlockStore(v *corev1.AWSElasticBlockStoreVolumeSource, e Errors) {
	e.Present("volumeID", v.VolumeID)
	e.Range("partition", int64(v.Partition), 0, 255)
}

// NFS checks a network file system.
func NFS(v *corev1.NFSVolumeSource, e Errors) {
	e.Present("server", v.Server)
	e.Present("path", v.Path)
	if !path.IsAbs(v.Path) {
		e.Field("path").Invalid(v.Path, "must be an absolute path")
	}
}

// Flocker checks a Flocker dataset: its name or its UUID.
func Flocker(v *corev1.FlockerVolumeSource, e Errors) {
	switch {
	case v.DatasetName == "" && v.DatasetUUID == "":
		e.Required("one of datasetName and datasetUUID is required")
	case v.DatasetName != "" && v.DatasetUUID != "":
		e.Invalid("resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(v.DatasetName, "/") {
		e.Field("datasetName").Invalid(v.DatasetName, "must not contain '/'")
	}
}

// Quobyte checks a Quobyte volume.
func Quobyte(v *corev1.QuobyteVolumeSource, e Errors) {
	switch {
	case v.Registry == "":
		e.Field("registry").Required("must be a host:port pair or multiple pairs separated by commas")
	case len(v.Tenant) > 64:
		e.Field("tenant").Required("must be a UUID and may not exceed a length of 64 characters")
	default:
		for pair := range strings.SplitSeq(v.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				e.Field("registry").Invalid(v.Registry, "must be a host:port pair or multiple pairs separated by commas")
			}
		}
	}
	e.Present("volume", v.Volume)
}

// FC checks a fibre channel disk: world-wide names of targets with a LUN, or
// world-wide identifiers.
func FC(v *corev1.FCVolumeSource, e Errors) {
	switch targets := e.Field("targetWWNs"); {
	case len(v.TargetWWNs) == 0 && len(v.WWIDs) == 0:
		targets.Required("must specify either targetWWNs or wwids, but not both")
	case len(v.TargetWWNs) > 0 && len(v.WWIDs) > 0:
		targets.Invalid(v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if len(v.TargetWWNs) == 0 {
		return
	}
	if v.Lun == nil {
		e.Field("lun").Required("lun is required if targetWWNs is specified")
		return
	}
	e.Range("lun", int64(*v.Lun), 0, 255)
}

// VsphereVolume checks a vSphere disk.
func VsphereVolume(v *corev1.VsphereVirtualDiskVolumeSource, e Errors) {
	e.Present("volumePath", v.VolumePath)
}

// PhotonPersistentDisk checks a Photon disk.
func PhotonPersistentDisk(v *corev1.PhotonPersistentDiskVolumeSource, e Errors) {
	e.Present("pdID", v.PdID)
}

// PortworxVolume checks a Portworx volume.
func PortworxVolume(v *corev1.PortworxVolumeSource, e Errors) { e.Present("volumeID", v.VolumeID) }

// AzureDisk checks an Azure disk, whose URI depends on its kind.
func AzureDisk(v *corev1.AzureDiskVolumeSource, e Errors) {
	e.Present("diskName", v.DiskName)
	e.Present("diskURI", v.DataDiskURI)
	if v.CachingMode != nil {
		OneOf(e, "cachingMode", *v.CachingMode, azureCachingModes)
	}
	if v.Kind == nil {
		return
	}
	OneOf(e, "kind", *v.Kind, azureDiskKinds)
	form := "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	prefix := "https://"
	if *v.Kind == corev1.AzureManagedDisk {
		form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
		prefix = "/subscriptions/"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		OneOf(e, "diskURI", v.DataDiskURI, []string{form})
	}
}

// Glusterfs checks what both kinds of Gluster volumes have.
func Glusterfs(endpoints, path string, e Errors) {
	e.Present("endpoints", endpoints)
	e.Present("path", path)
}

// RBD checks what both kinds of Ceph block devices have.
func RBD(monitors []string, image string, e Errors) {
	CephFS(monitors, e)
	e.Present("image", image)
}

// CephFS checks what both kinds of Ceph file systems have.
func CephFS(monitors []string, e Errors) {
	if len(monitors) == 0 {
		e.Field("monitors").Required("")
	}
}

// AzureFile checks what both kinds of Azure files have.
func AzureFile(secret, share string, e Errors) {
	e.Present("secretName", secret)
	e.Present("shareName", share)
}

// ScaleIO checks what both kinds of ScaleIO volumes have.
func ScaleIO(gateway, system, volume string, e Errors) {
	e.Present("gateway", gateway)
	e.Present("system", system)
	e.Present("volumeName", volume)
}

// FlexVolume validates the fields of both kinds of flex volumes. Options in Kubernetes' own domains are reserved.
func FlexVolume(driver string, options map[string]string, e Errors) {
	e.Present("driver", driver)
	for key := range options {
		domain, _, _ := strings.Cut(key, "/")
		domain = "." + strings.ToLower(domain)
		if strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			e.Field("options").Key(key).Invalid(key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

// StorageOS checks what both kinds of StorageOS volumes have.
func StorageOS(volume, namespace string, e Errors) {
	if e.Present("volumeName", volume) {
		e.DNSLabel("volumeName", volume)
	}
	if namespace != "" {
		e.DNSLabel("volumeNamespace", namespace)
	}
}

// ISCSI is what both kinds of iSCSI disks have.
type ISCSI struct {
	Portal, IQN   string
	Lun           int32
	NeedsSecret   bool
	HasSecret     bool
	InitiatorName *string
}

// Check validates the disk.
func (i ISCSI) Check(e Errors) {
	e.Present("targetPortal", i.Portal)
	if e.Present("iqn", i.IQN) && !isISCSIName(i.IQN) {
		e.Field("iqn").Invalid(i.IQN, "must be valid format")
	}
	e.Range("lun", int64(i.Lun), 0, 255)
	if i.NeedsSecret && !i.HasSecret {
		e.Field("secretRef").Required("")
	}
	if i.InitiatorName != nil && !isISCSIName(*i.InitiatorName) {
		e.Field("initiatorname").Invalid(*i.InitiatorName, "must be valid format")
	}
}

// TooLongForInitiator reports whether the initiator name formed from volume and portal is too long.
func (i ISCSI) TooLongForInitiator(volume string) bool {
	return i.InitiatorName != nil && len(volume+":"+i.Portal) > 64
}

// iscsiNames match the three forms of iSCSI names, by prefix.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func isISCSIName(s string) bool {
	if len(s) < 3 {
		return false
	}
	form := iscsiNames[s[:3]]
	return form != nil && form.MatchString(s)
}

// DefaultPersistentVolumeSource sets the defaults of a persistent volume's source, or of a VolumeAttachment's inline
// volume.
func DefaultPersistentVolumeSource(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		DefaultPtr(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.RBD != nil {
		DefaultRBD(&s.RBD.RBDPool, &s.RBD.RadosUser, &s.RBD.Keyring)
	}
	if s.ISCSI != nil {
		Default(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.AzureDisk != nil {
		DefaultAzureDisk(s.AzureDisk)
	}
	if s.ScaleIO != nil {
		DefaultScaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
}
