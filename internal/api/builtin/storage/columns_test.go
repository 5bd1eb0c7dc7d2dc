package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"CSIDriver":             celltest.For[storagev1.CSIDriver](csiDriverTable()),
		"CSINode":               celltest.For[storagev1.CSINode](csiNodeTable()),
		"StorageClass":          celltest.For[storagev1.StorageClass](storageClassTable()),
		"VolumeAttachment":      celltest.For[storagev1.VolumeAttachment](volumeAttachmentTable()),
		"VolumeAttributesClass": celltest.For[storagev1.VolumeAttributesClass](volumeAttributesClassTable()),
	})
}
