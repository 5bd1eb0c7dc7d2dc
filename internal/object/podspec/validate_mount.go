package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	mountPropagations = []corev1.MountPropagationMode{
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone,
	}
	bindMountOptions = []string{string(corev1.BindMountOptionNoDev), string(corev1.BindMountOptionNoExec), string(corev1.BindMountOptionNoSUID)}
	readOnlyModes    = []corev1.RecursiveReadOnlyMode{
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible,
	}
)

// volumeMounts validates a container's mounts. A volume is either mounted or a device, and each path is used once.
func (v *validator) volumeMounts(c *corev1.Container, e rules.Errors) {
	paths := make(map[string]bool, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		m, item := &c.VolumeMounts[i], e.Item(i)
		item.Present("name", m.Name)
		if v.sources[m.Name] == nil {
			item.Field("name").NotFound(m.Name)
		}
		item.Present("mountPath", m.MountPath)
		if paths[m.MountPath] {
			item.Field("mountPath").Invalid(m.MountPath, "must be unique")
		}
		paths[m.MountPath] = true
		for j := range c.VolumeDevices {
			if c.VolumeDevices[j].Name == m.Name {
				item.Field("name").Invalid(m.Name, "must not already exist in volumeDevices")
			}
			if c.VolumeDevices[j].DevicePath == m.MountPath {
				item.Field("mountPath").Invalid(m.MountPath, "must not already exist as a path in volumeDevices")
			}
		}
		mountOptions(m, c, e, item)
		if len(m.BindMountOptions) > 0 {
			v.bindMountOptions(m, item.Field("bindMountOptions"))
		}
	}
}

// bindMountOptions validates the options with which a volume is mounted in the container; an image has none.
func (v *validator) bindMountOptions(m *corev1.VolumeMount, e rules.Errors) {
	seen := map[string]bool{}
	for i, o := range m.BindMountOptions {
		if !slices.Contains(bindMountOptions, o) {
			e.AddError(field.NotSupported(e.Path().Index(i), o, bindMountOptions))
		}
		if seen[o] {
			e.Item(i).Duplicate(o)
		}
		seen[o] = true
	}
	if s := v.sources[m.Name]; s != nil && s.Image != nil {
		e.Invalid(m.BindMountOptions, "bindMountOptions may not be used with image volumes")
	}
}

// mountOptions validates the options of a mount. Most errors are reported for the list of mounts.
func mountOptions(m *corev1.VolumeMount, c *corev1.Container, mounts, e rules.Errors) {
	if m.SubPath != "" {
		mounts.RelativePath("subPath", m.SubPath)
	}
	if m.SubPathExpr != "" {
		if m.SubPath != "" {
			e.Field("subPathExpr").Invalid(m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
		}
		mounts.RelativePath("subPathExpr", m.SubPathExpr)
	}
	if p := m.MountPropagation; p != nil {
		rules.OneOf(mounts, "mountPropagation", *p, mountPropagations)
		if *p == corev1.MountPropagationBidirectional && !isPrivileged(c.SecurityContext) {
			mounts.Field("mountPropagation").Forbidden("Bidirectional mount propagation is available only to privileged containers")
		}
	}
	r := m.RecursiveReadOnly
	if r == nil {
		return
	}
	rules.OneOf(mounts, "recursiveReadOnly", *r, readOnlyModes)
	if *r != corev1.RecursiveReadOnlyEnabled && *r != corev1.RecursiveReadOnlyIfPossible {
		return
	}
	if !m.ReadOnly {
		mounts.Field("recursiveReadOnly").Forbidden("may only be specified when readOnly is true")
	}
	if p := m.MountPropagation; p != nil && *p != corev1.MountPropagationNone {
		mounts.Field("recursiveReadOnly").Forbidden("may only be specified when mountPropagation is None or not specified")
	}
}

// volumeDevices validates a container's raw block devices.
func (v *validator) volumeDevices(c *corev1.Container, e rules.Errors) {
	names, paths := map[string]bool{}, map[string]bool{}
	for i, d := range c.VolumeDevices {
		item := e.Item(i)
		item.Present("name", d.Name)
		if names[d.Name] {
			item.Field("name").Invalid(d.Name, "must be unique")
		}
		if s := v.sources[d.Name]; s == nil {
			item.Field("name").NotFound(d.Name)
		} else if s.PersistentVolumeClaim == nil && s.Ephemeral == nil {
			item.Field("name").Invalid(d.Name, "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		item.Present("devicePath", d.DevicePath)
		if paths[d.DevicePath] {
			item.Field("devicePath").Invalid(d.DevicePath, "must be unique")
		}
		if rules.HasBackstep(d.DevicePath) {
			item.Field("devicePath").Invalid(d.DevicePath, "can not contain backsteps ('..')")
		} else {
			paths[d.DevicePath] = true
		}
		for j := range c.VolumeMounts {
			if c.VolumeMounts[j].Name == d.Name {
				item.Field("name").Invalid(d.Name, "must not already exist in volumeMounts")
			}
			if c.VolumeMounts[j].MountPath == d.DevicePath {
				item.Field("devicePath").Invalid(d.DevicePath, "must not already exist as a path in volumeMounts")
			}
		}
		if d.Name != "" {
			names[d.Name] = true
		}
	}
}
