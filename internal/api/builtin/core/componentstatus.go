package core

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func componentStatuses(d Deps) *engine.Resource {
	version := engine.VersionOf[corev1.ComponentStatus, corev1.ComponentStatusList](v1, nil)
	return &engine.Resource{
		Plural: "componentstatuses", Kind: "ComponentStatus",
		ShortNames: []string{"cs"},
		Versions:   only(version),
		Verbs:      []string{"get", "list"},
		Get: func(ctx context.Context, name string) (engine.Object, error) {
			all, err := d.ComponentStatuses(ctx)
			if err != nil {
				return nil, err
			}
			for _, s := range all {
				if s.Name == name {
					return s, nil
				}
			}
			return nil, apierrors.NewNotFound(corev1.Resource("componentstatuses"), name)
		},
		List: func(ctx context.Context, p engine.Page) (iter.Seq[engine.Object], error) {
			all, err := d.ComponentStatuses(ctx)
			return engine.Listed(all, p), err
		},
		Table: componentStatusTable(),
	}
}
