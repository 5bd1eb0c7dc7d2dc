package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func controllerRevisions() *engine.Resource {
	return &engine.Resource{
		Plural: "controllerrevisions", Singular: "controllerrevision", Kind: "ControllerRevision",
		Namespaced: true,
		Prefix:     "controllerrevisions",
		Hub:        v1,
		Versions:   []*engine.Version{engine.VersionOf[appsv1.ControllerRevision, appsv1.ControllerRevisionList](v1, nil)},
		Rules: engine.Typed[*appsv1.ControllerRevision]{
			Validate:       validateControllerRevision,
			ValidateUpdate: validateControllerRevisionUpdate,
		}.Rules(),
		Table: controllerRevisionTable(),
	}
}
