package recorder

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// maxDeprecated bounds the uses of deprecated versions that are told apart. What comes later is not counted.
const maxDeprecated = 1000

// deprecated is who uses deprecated versions.
type deprecated struct {
	mu  sync.Mutex
	all map[userOf]*used // guarded by mu
}

type userOf struct {
	schema.GroupVersionResource
	name string
}

type used struct {
	times int64
	last  time.Time
}

func (d *deprecated) init() { d.all = map[userOf]*used{} }

// Deprecated records that the context's request uses a deprecated version.
func (r *Recorder) Deprecated(ctx context.Context, gvr schema.GroupVersionResource) {
	k := userOf{GroupVersionResource: gvr}
	if u := request.UserFrom(ctx); u != nil {
		k.name = shared(u.GetName(), maxUser)
	}
	d := &r.old
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.all[k]
	if of == nil {
		if len(d.all) >= maxDeprecated {
			return
		}
		of = &used{}
		d.all[k] = of
	}
	of.times++
	of.last = r.Clock.Now()
}

// DeprecatedUses returns who uses deprecated versions.
func (r *Recorder) DeprecatedUses() []*v1alpha1.DeprecatedUse {
	r.old.mu.Lock()
	defer r.old.mu.Unlock()
	out := make([]*v1alpha1.DeprecatedUse, 0, len(r.old.all))
	for k, u := range r.old.all {
		of := &v1alpha1.DeprecatedUse{Group: k.Group, Version: k.Version, Resource: k.Resource, User: k.name, Requests: u.times, Last: metav1.NewTime(u.last)}
		h := fnv.New64a()
		_, _ = h.Write([]byte(k.name))
		of.Name = fmt.Sprintf("%s.%s.%x", k.Resource, k.GroupVersion().Version, h.Sum64())
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.DeprecatedUse) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
