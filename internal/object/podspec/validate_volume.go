package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// volumes validates the pod's volumes and records those that mounts may use.
func (v *validator) volumes(e rules.Errors) {
	v.sources = make(map[string]*corev1.VolumeSource, len(v.spec.Volumes))
	for i := range v.spec.Volumes {
		vol, item := &v.spec.Volumes[i], e.Item(i).Apart()
		v.volumeSource(vol, item)
		if item.Present("name", vol.Name) {
			item.DNSLabel("name", vol.Name)
		}
		if v.sources[vol.Name] != nil {
			item.Field("name").Duplicate(vol.Name)
		}
		if list := item.List(); len(list) > 0 {
			e.Add(list)
		} else {
			v.sources[vol.Name] = &vol.VolumeSource
		}
		if c := vol.PersistentVolumeClaim; c != nil && v.makesClaim(c.ClaimName) {
			e.Item(i).Field("persistentVolumeClaim").Field("claimName").Invalid(c.ClaimName, "is made for an ephemeral volume of this pod")
		}
	}
}

// makesClaim reports whether one of the pod's ephemeral volumes gets a claim with this name.
func (v *validator) makesClaim(name string) bool {
	if v.meta == nil || v.meta.Name == "" {
		return false
	}
	for i := range v.spec.Volumes {
		if vol := &v.spec.Volumes[i]; vol.Ephemeral != nil && v.meta.Name+"-"+vol.Name == name {
			return true
		}
	}
	return false
}

// volumeSource checks that there is exactly one source, and validates it.
func (v *validator) volumeSource(vol *corev1.Volume, e rules.Errors) {
	u, s := &rules.Union{Errors: e, What: "volume type"}, &vol.VolumeSource
	rules.Member(u, s.EmptyDir, "emptyDir", func(d *corev1.EmptyDirVolumeSource, e rules.Errors) {
		if d.SizeLimit != nil && d.SizeLimit.Sign() < 0 {
			e.Field("sizeLimit").Forbidden("SizeLimit field must be a valid resource quantity")
		}
		if d.Mode != nil && (*d.Mode < 0 || *d.Mode > 0o1777) {
			e.Field("mode").Invalid(*d.Mode, "must be a number between 0 and 01777 (octal), both inclusive")
		}
	})
	rules.Member(u, s.HostPath, "hostPath", rules.HostPath)
	rules.Member(u, s.GitRepo, "gitRepo", func(g *corev1.GitRepoVolumeSource, e rules.Errors) {
		e.Present("repository", g.Repository)
		e.RelativePath("directory", g.Directory)
	})
	rules.MemberAt(u, s.GCEPersistentDisk, "gcePersistentDisk", "persistentDisk", rules.GCEPersistentDisk)
	rules.Member(u, s.AWSElasticBlockStore, "awsElasticBlockStore", rules.AWSElasticBlockStore)
	rules.Member(u, s.Secret, "secret", func(f *corev1.SecretVolumeSource, e rules.Errors) {
		e.Present("secretName", f.SecretName)
		e.FileMode("defaultMode", f.DefaultMode)
		e.FileUser("defaultUser", f.DefaultUser)
		keysToPaths(f.Items, e.Field("items"))
	})
	rules.Member(u, s.NFS, "nfs", rules.NFS)
	rules.Member(u, s.ISCSI, "iscsi", func(d *corev1.ISCSIVolumeSource, e rules.Errors) { iscsiOf(d).Check(e) })
	if s.ISCSI != nil && iscsiOf(s.ISCSI).TooLongForInitiator(vol.Name) {
		e.Field("name").Invalid(vol.Name, "must be shorter together with the portal of the iSCSI disk")
	}
	rules.Member(u, s.Glusterfs, "glusterfs", func(g *corev1.GlusterfsVolumeSource, e rules.Errors) {
		rules.Glusterfs(g.EndpointsName, g.Path, e)
	})
	rules.Member(u, s.Flocker, "flocker", rules.Flocker)
	rules.Member(u, s.PersistentVolumeClaim, "persistentVolumeClaim", func(c *corev1.PersistentVolumeClaimVolumeSource, e rules.Errors) {
		e.Present("claimName", c.ClaimName)
	})
	rules.Member(u, s.RBD, "rbd", func(d *corev1.RBDVolumeSource, e rules.Errors) { rules.RBD(d.CephMonitors, d.RBDImage, e) })
	rules.Member(u, s.Cinder, "cinder", func(d *corev1.CinderVolumeSource, e rules.Errors) {
		e.Present("volumeID", d.VolumeID)
		secretRef(d.SecretRef, e)
	})
	rules.MemberAt(u, s.CephFS, "cephFS", "cephfs", func(c *corev1.CephFSVolumeSource, e rules.Errors) { rules.CephFS(c.Monitors, e) })
	rules.Member(u, s.Quobyte, "quobyte", rules.Quobyte)
	// The misspelled name is now part of the API.
	rules.MemberAt(u, s.DownwardAPI, "downwarAPI", "downwardAPI", func(d *corev1.DownwardAPIVolumeSource, e rules.Errors) {
		e.FileMode("defaultMode", d.DefaultMode)
		e.FileUser("defaultUser", d.DefaultUser)
		for i := range d.Items {
			downwardFile(&d.Items[i], e)
		}
	})
	rules.Member(u, s.FC, "fc", rules.FC)
	rules.Member(u, s.FlexVolume, "flexVolume", func(f *corev1.FlexVolumeSource, e rules.Errors) { rules.FlexVolume(f.Driver, f.Options, e) })
	rules.Member(u, s.ConfigMap, "configMap", func(c *corev1.ConfigMapVolumeSource, e rules.Errors) {
		e.Present("name", c.Name)
		e.FileMode("defaultMode", c.DefaultMode)
		e.FileUser("defaultUser", c.DefaultUser)
		keysToPaths(c.Items, e.Field("items"))
	})
	rules.Member(u, s.AzureFile, "azureFile", func(a *corev1.AzureFileVolumeSource, e rules.Errors) { rules.AzureFile(a.SecretName, a.ShareName, e) })
	rules.Member(u, s.VsphereVolume, "vsphereVolume", rules.VsphereVolume)
	rules.Member(u, s.PhotonPersistentDisk, "photonPersistentDisk", rules.PhotonPersistentDisk)
	rules.Member(u, s.PortworxVolume, "portworxVolume", rules.PortworxVolume)
	rules.Member(u, s.AzureDisk, "azureDisk", rules.AzureDisk)
	rules.Member(u, s.StorageOS, "storageos", func(o *corev1.StorageOSVolumeSource, e rules.Errors) {
		rules.StorageOS(o.VolumeName, o.VolumeNamespace, e)
		secretRef(o.SecretRef, e)
	})
	rules.Member(u, s.Projected, "projected", v.projected)
	rules.Member(u, s.ScaleIO, "scaleIO", func(d *corev1.ScaleIOVolumeSource, e rules.Errors) {
		rules.ScaleIO(d.Gateway, d.System, d.VolumeName, e)
	})
	rules.Member(u, s.CSI, "csi", func(c *corev1.CSIVolumeSource, e rules.Errors) {
		e.CSIDriverName("driver", c.Driver)
		if r := c.NodePublishSecretRef; r != nil && e.Field("nodePublishSecretRef").Present("name", r.Name) {
			e.Name("name", r.Name, rules.Subdomain)
		}
	})
	rules.Member(u, s.Ephemeral, "ephemeral", func(p *corev1.EphemeralVolumeSource, at rules.Errors) { v.ephemeral(vol.Name, p, at, e) })
	rules.Member(u, s.Image, "image", func(i *corev1.ImageVolumeSource, e rules.Errors) {
		if v.Pod {
			e.Present("reference", i.Reference)
		}
		rules.RequiredOneOf(e, "pullPolicy", i.PullPolicy, pullPolicies)
	})
	if u.Count() == 0 {
		e.Required("must specify a volume type")
	}
}

func iscsiOf(d *corev1.ISCSIVolumeSource) rules.ISCSI {
	return rules.ISCSI{
		Portal: d.TargetPortal, IQN: d.IQN, Lun: d.Lun, InitiatorName: d.InitiatorName,
		NeedsSecret: d.DiscoveryCHAPAuth || d.SessionCHAPAuth, HasSecret: d.SecretRef != nil,
	}
}

func secretRef(r *corev1.LocalObjectReference, e rules.Errors) {
	if r != nil {
		e.Field("secretRef").Present("name", r.Name)
	}
}

// ephemeral validates the template of a claim, and the claim's name, which consists of the pod's and the volume's name.
func (v *validator) ephemeral(name string, p *corev1.EphemeralVolumeSource, at, volume rules.Errors) {
	if p.VolumeClaimTemplate == nil {
		at.Field("volumeClaimTemplate").Required("")
	} else {
		rules.ClaimTemplate(p.VolumeClaimTemplate, at.Field("volumeClaimTemplate"))
	}
	if v.meta == nil || v.meta.Name == "" || name == "" {
		return
	}
	claim := v.meta.Name + "-" + name
	for _, m := range rules.Subdomain(claim, false) {
		volume.Field("name").Invalid(name, fmt.Sprintf("claim %q: %s", claim, m))
	}
}

func keysToPaths(items []corev1.KeyToPath, e rules.Errors) {
	for i := range items {
		k, item := &items[i], e.Item(i)
		item.Present("key", k.Key)
		item.Present("path", k.Path)
		item.VolumeFile("path", k.Path)
		item.FileMode("mode", k.Mode)
		item.FileUser("user", k.User)
	}
}

// downwardFile validates a file with a field of the pod. Errors are reported for the volume, not for the item.
func downwardFile(f *corev1.DownwardAPIVolumeFile, e rules.Errors) {
	e.Present("path", f.Path)
	e.VolumeFile("path", f.Path)
	switch {
	case f.FieldRef != nil:
		fieldRef(f.FieldRef, fileFields, e.Field("fieldRef"))
		if f.ResourceFieldRef != nil {
			e.Invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case f.ResourceFieldRef != nil:
		resourceFieldRef(f.ResourceFieldRef, true, e.Field("resourceFieldRef"))
	default:
		e.Required("one of fieldRef and resourceFieldRef is required")
	}
	e.FileMode("mode", f.Mode)
	e.FileUser("user", f.User)
}

// projected validates a projected volume, whose sources must not overwrite each other's files.
func (v *validator) projected(p *corev1.ProjectedVolumeSource, e rules.Errors) {
	e.FileMode("defaultMode", p.DefaultMode)
	e.FileUser("defaultUser", p.DefaultUser)
	files := map[string]bool{}
	claim := func(file string) {
		if files[file] {
			e.Invalid(file, "conflicting duplicate paths")
		}
		files[file] = true
	}
	claimKeys := func(items []corev1.KeyToPath) {
		for i := range items {
			if items[i].Path != "" {
				claim(items[i].Path)
			}
		}
	}
	for i := range p.Sources {
		s, item, n := &p.Sources[i], e.Field("sources").Item(i), 0
		if c := s.Secret; c != nil {
			n++
			item.Field("secret").Present("name", c.Name)
			keysToPaths(c.Items, item.Field("secret").Field("items"))
			claimKeys(c.Items)
		}
		if c := s.ConfigMap; c != nil {
			n++
			item.Field("configMap").Present("name", c.Name)
			keysToPaths(c.Items, item.Field("configMap").Field("items"))
			claimKeys(c.Items)
		}
		if d := s.DownwardAPI; d != nil {
			n++
			for j := range d.Items {
				downwardFile(&d.Items[j], item.Field("downwardAPI"))
				if d.Items[j].Path != "" {
					claim(d.Items[j].Path)
				}
			}
		}
		if s.ServiceAccountToken != nil {
			n++
			v.projectedToken(s.ServiceAccountToken, item.Field("serviceAccountToken"), e)
		}
		if b := s.ClusterTrustBundle; b != nil {
			n++
			trustBundle(b, item.Field("clusterTrustBundle"))
			claim(b.Path)
		}
		if c := s.PodCertificate; c != nil {
			n++
			podCertificate(c, claim, item.Field("podCertificate"))
		}
		if n > 1 {
			item.Forbidden("may not have more than 1 volume type per source")
		}
	}
}

func (v *validator) projectedToken(t *corev1.ServiceAccountTokenProjection, e, volume rules.Errors) {
	const shortest, longest = 10 * 60, 1 << 32
	if t.ExpirationSeconds != nil {
		e.Range("expirationSeconds", *t.ExpirationSeconds, shortest, longest)
	}
	if t.Path == "" {
		volume.Field("path").Required("")
	} else if !v.AllowNonLocalTokenPaths {
		volume.VolumeFile("path", t.Path)
	}
	e.FileUser("user", t.User)
}

// ValidateTokens rejects service account tokens for a pod without a service account.
func ValidateTokens(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.ServiceAccountName != "" {
		return nil
	}
	e := rules.At(path)
	for i := range spec.Volumes {
		p := spec.Volumes[i].Projected
		if p == nil {
			continue
		}
		for j := range p.Sources {
			if p.Sources[j].ServiceAccountToken != nil {
				e.Field("volumes").Item(i).Field("projected").Field("sources").Item(j).Field("serviceAccountToken").
					Forbidden("must not be specified when serviceAccountName is not set")
			}
		}
	}
	return e.List()
}
