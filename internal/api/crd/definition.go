package crd

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// definition is the index entry of a CustomResourceDefinition. It is small, because there may be thousands. It is
// immutable: a changed object gets a new one.
type definition struct {
	name, group string
	uid         types.UID
	created     time.Time
	generation  int64
	namespaced  bool
	// accepted are its accepted names; empty until they are accepted.
	accepted apiextensionsv1.CustomResourceDefinitionNames
	versions []version
	hidden   bool       // see hiddenAnnotation
	indexed  [][]string // paths of the fields that indexAnnotation names
	// namesAccepted, established and terminating are the status of its conditions.
	namesAccepted, established, terminating bool
	// statusStale means that the controller may have to update its status.
	statusStale bool
	// item is the stored object in the view of definitions.
	item *store.Item
	// serving is the state needed to serve it. Definitions that differ in nothing relevant to serving share it.
	serving *serving
	// finish, convert, engine and connects are Fixed.Finish, Fixed.Convert, Fixed.Engine and Fixed.Connects.
	finish   func(*engine.Resource)
	convert  converter
	connects []catalog.Connect
	engine   *engine.Engine
}

// version is a version's discovery information.
type version struct {
	name            string
	served, storage bool
	status, scale   bool
}

// servable reports whether the resource accepts requests.
func (d *definition) servable() bool {
	return (d.namesAccepted || d.established) && d.accepted.Plural != "" && d.accepted.Kind != ""
}

func (d *definition) version(name string) *version {
	if i := slices.IndexFunc(d.versions, func(v version) bool { return v.name == name }); i >= 0 {
		return &d.versions[i]
	}
	return nil
}

// storage returns the storage version.
func (d *definition) storage() string {
	for _, v := range d.versions {
		if v.storage {
			return v.name
		}
	}
	return ""
}

// gv returns the definition's group with a version.
func (d *definition) gv(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: d.group, Version: version}
}

// cameBefore reports whether d has the older right to a name.
func (d *definition) cameBefore(other *definition) bool {
	if d.created.Equal(other.created) {
		return d.uid < other.uid
	}
	return d.created.Before(other.created)
}

// young reports whether a definition is so new that another server may have accepted its names for a concurrent
// definition. An older definition keeps its names.
func (d *definition) young(now time.Time) bool { return now.Sub(d.created) < time.Minute }

// prefix is where the objects lie in the log, without the slash at the end.
func (d *definition) prefix() string { return d.group + "/" + d.accepted.Plural }

// servesAlike reports whether the serving state of one definition also fits the other.
func servesAlike(a, b *definition) bool {
	return a.uid == b.uid && a.generation == b.generation && a.servable() == b.servable() && a.terminating == b.terminating &&
		a.hidden == b.hidden && slices.EqualFunc(a.indexed, b.indexed, slices.Equal) &&
		equality.Semantic.DeepEqual(a.accepted, b.accepted)
}

// beganDeletion reports whether d is old but for its deletion, which has begun.
func (d *definition) beganDeletion(old *definition) bool {
	alive := *d
	alive.terminating = false
	return d.terminating && !old.terminating && servesAlike(old, &alive)
}
