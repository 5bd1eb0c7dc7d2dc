package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func controllerRevisions() *engine.Resource {
	return &engine.Resource{
		Plural: "controllerrevisions", Kind: "ControllerRevision",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[appsv1.ControllerRevision, appsv1.ControllerRevisionList](v1, nil)},
		Rules: engine.Typed[*appsv1.ControllerRevision]{
			Validate:       validateControllerRevision,
			ValidateUpdate: validateControllerRevisionUpdate,
		}.Rules(),
		Table: controllerRevisionTable(),
	}
}
