package apiregistration

import (
	"fmt"

	apiregv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func apiServiceTable() *engine.Table {
	return engine.TableOf(apiServiceRow,
		cells.Name(),
		cells.String("Service", "The service that serves this group and version."),
		cells.String("Available", "Whether the service answers."),
		cells.Age(),
	)
}

func apiServiceRow(s *apiregv1.APIService) []any {
	service := "Local"
	if ref := s.Spec.Service; ref != nil {
		service = ref.Namespace + "/" + ref.Name
	}
	available := string(apiregv1.ConditionUnknown)
	for _, c := range s.Status.Conditions {
		if c.Type != apiregv1.Available {
			continue
		}
		available = string(c.Status)
		if c.Status != apiregv1.ConditionTrue && c.Reason != "" {
			available = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
		break
	}
	return []any{s.Name, service, available, cells.Since(s.CreationTimestamp)}
}
