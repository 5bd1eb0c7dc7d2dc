package crd

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store"
)

// definition is what the index keeps of a CustomResourceDefinition: little, as
// there may be thousands. It is immutable; a changed object makes another one.
type definition struct {
	name, group string
	uid         types.UID
	created     time.Time
	generation  int64
	namespaced  bool
	// accepted are the names under which it may be served, empty until they
	// are found to be free.
	accepted apiextensionsv1.CustomResourceDefinitionNames
	versions []version
	// namesAccepted, established and terminating are its conditions.
	namesAccepted, established, terminating bool
	// unsettled says that the controller may have something to do about it.
	unsettled bool
	// item holds the whole object, as it is in the view of definitions.
	item *store.Item
	// serving is what has been made to serve it. Definitions that differ in
	// nothing that matters to that share it.
	serving *serving
}

// version is what discovery says of a version.
type version struct {
	name            string
	served, storage bool
	status, scale   bool
}

// servable says that requests for the resource are let through.
func (d *definition) servable() bool {
	return (d.namesAccepted || d.established) && d.accepted.Plural != "" && d.accepted.Kind != ""
}

func (d *definition) version(name string) *version {
	if i := slices.IndexFunc(d.versions, func(v version) bool { return v.name == name }); i >= 0 {
		return &d.versions[i]
	}
	return nil
}

// storage is the version that objects are stored in.
func (d *definition) storage() string {
	for _, v := range d.versions {
		if v.storage {
			return v.name
		}
	}
	return ""
}

// gv is the definition's group with one of its versions.
func (d *definition) gv(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: d.group, Version: version}
}

// cameBefore says which of two definitions has the older right to a name.
func (d *definition) cameBefore(other *definition) bool {
	if d.created.Equal(other.created) {
		return d.uid < other.uid
	}
	return d.created.Before(other.created)
}

// young says that a definition was made so lately that another server may have
// given its names to one that was made at the same time. What has been served
// for longer than that keeps its names.
func (d *definition) young(now time.Time) bool { return now.Sub(d.created) < time.Minute }

// servesAlike says that what was made to serve one definition serves the other.
func servesAlike(a, b *definition) bool {
	return a.uid == b.uid && a.generation == b.generation && a.servable() == b.servable() && a.terminating == b.terminating &&
		equality.Semantic.DeepEqual(a.accepted, b.accepted)
}
