// Package apiserverinternal is the API group internal.apiserver.k8s.io: in which versions each server of a cluster stores and
// reads each resource.
package apiserverinternal

import (
	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1alpha1 = internalv1alpha1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource { return engine.Kinds(storageVersions()) }

func storageVersions() *engine.Resource {
	return &engine.Resource{
		Plural: "storageversions", Kind: "StorageVersion",
		Versions: []*engine.Version{engine.VersionOf[internalv1alpha1.StorageVersion, internalv1alpha1.StorageVersionList](v1alpha1, nil)},
		Rules: engine.Typed[*internalv1alpha1.StorageVersion]{
			StatusApart:          true,
			Validate:             validate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*internalv1alpha1.StorageVersion]{
			ValidateUpdate:       validateStatusUpdate,
			NeedsResourceVersion: true,
		})},
		Table: table(),
	}
}

func table() *engine.Table {
	docs := internalv1alpha1.StorageVersionStatus{}.SwaggerDoc()
	return engine.TableOf(row,
		cells.Name(),
		cells.String("CommonEncodingVersion", docs["commonEncodingVersion"]),
		cells.String("StorageVersions", docs["storageVersions"]),
		cells.Age(),
	)
}

// row shows the versions of three servers.
func row(v *internalv1alpha1.StorageVersion) []any {
	var servers []string
	for _, s := range v.Status.StorageVersions {
		servers = append(servers, s.APIServerID+"="+s.EncodingVersion)
	}
	return []any{v.Name, cells.Deref(v.Status.CommonEncodingVersion, "<unset>"), cells.First(3, servers, ","), cells.Since(v.CreationTimestamp)}
}
