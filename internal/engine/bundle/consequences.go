package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// settle has controllers do what follows from writes, and tells it.
func (c *carrying) settle(ctx context.Context, written []Change, status *v1.BundleStatus) error {
	err := c.fork.Settle(ctx)
	if status.Unsettled = errors.Is(err, ErrUnsettled); err != nil && !status.Unsettled {
		return err
	}
	c.client = &http.Client{Transport: c.fork.Transport(request.UserFrom(ctx))}
	for _, change := range c.since(written) {
		o, code, err := c.get(ctx, &change)
		if err != nil {
			return err
		}
		switch { // who is authorized is asked first: of what is gone it is told to those who may get the kind
		case code == http.StatusForbidden:
			status.Hidden++
			continue
		case code == http.StatusNotFound && change.Result != v1.Deleted:
			continue // gone by now, where controllers still work
		}
		if version, item := c.items[change.id()]; item && version == versionOf(o) {
			continue // the item's own write, and its answer has it
		}
		status.Consequences = append(status.Consequences, v1.Consequence{
			APIVersion: schema.GroupVersion{Group: change.Group, Version: change.Version}.String(), Kind: change.Kind,
			Namespace: change.Namespace, Name: change.Name, Result: change.Result,
		})
		if code == http.StatusOK {
			status.Consequences[len(status.Consequences)-1].Object.Raw = o
		}
	}
	return nil
}

// since are the changes since some were written, each with what has become of the object since. Those of items are among them: the
// server itself may have written one after it has answered, as it does with the conditions of a definition.
func (c *carrying) since(written []Change) (out []Change) {
	before := map[id]*Change{}
	for n := range written {
		before[written[n].id()] = &written[n]
	}
	for _, now := range c.fork.Written() {
		was := before[now.id()]
		delete(before, now.id())
		if was != nil {
			_, item := c.items[now.id()]
			if gone := now.Result == v1.Deleted; bytes.Equal(was.Value, now.Value) && (gone || !item) {
				continue
			}
			switch {
			case now.Result == v1.Deleted:
			case was.Result == v1.Deleted:
				now.Result = v1.Created
			default:
				now.Result = v1.Changed
			}
		}
		out = append(out, now)
	}
	for _, was := range written { // what was created and is gone is not written, in sum
		if before[was.id()] != nil && was.Result == v1.Created {
			was.Result, was.Value = v1.Deleted, nil
			out = append(out, was)
		}
	}
	return out
}

// get asks for an object as the user of the bundle.
func (c *carrying) get(ctx context.Context, of *Change) (object []byte, code int, err error) {
	t := inprocess.Target{Resource: schema.GroupVersionResource{Group: of.Group, Version: of.Version, Resource: of.Resource}, Namespace: of.Namespace, Name: of.Name}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://in-process"+t.Path(), nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"kanzen-bundle"}}
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	object, err = io.ReadAll(resp.Body)
	return object, resp.StatusCode, err
}

// versionOf is the resourceVersion in an object; "" if there is none.
func versionOf(object []byte) string {
	var meta metav1.PartialObjectMetadata
	if json.Unmarshal(object, &meta) != nil {
		return ""
	}
	return meta.ResourceVersion
}
