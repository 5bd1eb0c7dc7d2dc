package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"CronJob": celltest.For[batchv1.CronJob](cronJobTable()),
		"Job":     celltest.For[batchv1.Job](jobTable()),
	})
}
