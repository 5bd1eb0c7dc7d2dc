package autoscaling

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"HorizontalPodAutoscaler": celltest.For[autoscalingv2.HorizontalPodAutoscaler](horizontalPodAutoscalerTable()),
	})
}
