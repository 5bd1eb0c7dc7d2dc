package apiextensions

import (
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func customResourceDefinitionTable() *engine.Table {
	created := cells.String("Created At", metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"])
	created.Type = "date"
	t := engine.TableOf(customResourceDefinitionRow,
		cells.Name(),
		cells.String("Scope", "Cluster/Namespaced"),
		cells.String("Versions", "Served versions"),
		created,
		cells.Wide(cells.String("Group", "API group")),
		cells.Wide(cells.String("Kind", "CustomResource kind")),
		cells.Wide(cells.String("ShortNames", "Short names")),
		cells.Wide(cells.Boolean("Established", "Established status")),
	)
	t.NullRows = true
	return t
}

func customResourceDefinitionRow(d *apiextensionsv1.CustomResourceDefinition) []any {
	var served []string
	for _, v := range d.Spec.Versions {
		switch {
		case v.Served && v.Storage:
			served = append(served, v.Name+"(storage)")
		case v.Served:
			served = append(served, v.Name)
		}
	}
	slices.Sort(served)
	established := slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	return []any{
		d.Name, string(d.Spec.Scope), strings.Join(served, ","), d.CreationTimestamp.UTC().Format(time.RFC3339),
		d.Spec.Group, d.Spec.Names.Kind, strings.Join(d.Spec.Names.ShortNames, ","), established,
	}
}
