package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/object/transcode"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/store"
)

// projection is the fields to which a list or watch cuts its objects.
type projection struct {
	out    output
	form   *form             // that is cut, unless it is protobuf
	fields jsonobject.Fields // of JSON
	wire   *transcode.Cut    // of protobuf; nil: it is JSON
	key    any               // a handle of a projected: every item is asked for it, so it must be cheap to compare
}

// projected is the key under which an item keeps a form that is cut. Its paths are in one order, however they were asked for.
type projected struct {
	form  *form
	media media
	paths string
}

const (
	maxFields = 100 // that a request may name
	maxDepth  = 20
)

// projection returns the fields that a list or watch asks for; nil: all. A watch has besides what clients need to go on.
func (c *call) projection(out output, isWatch bool) (*projection, error) {
	asked := c.asked(extensions.Fields, "fields")
	if asked == "" {
		return nil, nil
	}
	if out.media != mediaJSON && out.media != mediaProtobuf || out.shape != shapeObject {
		return nil, apierrors.NewBadRequest("fields: only objects in JSON and protobuf can be cut; ask with Accept: application/json")
	}
	paths := slices.Compact(slices.Sorted(strings.SplitSeq(asked, ",")))
	if len(paths) > maxFields {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("fields: there may be %d", maxFields))
	}
	for _, path := range paths {
		if !c.knowsField(strings.Split(path, ".")) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("fields: %s of %s have no %q", c.R.Plural, c.V.GroupVersion, path))
		}
	}
	if isWatch {
		paths = slices.Compact(slices.Sorted(slices.Values(append(paths, "apiVersion", "kind", "metadata.resourceVersion"))))
	}
	f := c.prepared().forms.of(out)
	p := &projection{out: out, form: f, fields: jsonobject.Fields{}, key: unique.Make(projected{f, out.media, strings.Join(paths, ",")})}
	split := make([][]string, len(paths))
	for n, path := range paths {
		split[n] = strings.Split(path, ".")
		p.fields.Add(split[n]...)
	}
	if out.media == mediaProtobuf {
		var ok bool
		if p.wire, ok = transcode.CompileCut(apitype.Of(reflect.TypeOf(c.V.New()).Elem()), split); !ok {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("fields: some of %s are not in protobuf; ask with Accept: application/json", asked))
		}
	}
	return p, nil
}

// knowsField reports whether objects have a field. Of custom resources that is known of metadata.
func (ep *Endpoint) knowsField(path []string) bool {
	if len(path) > maxDepth || slices.Contains(path, "") {
		return false
	}
	t := reflect.TypeOf(ep.V.New())
	if ep.R.Codec != nil {
		if path[0] != "metadata" {
			return true
		}
		t, path = reflect.TypeFor[metav1.ObjectMeta](), path[1:]
	}
	for _, name := range path {
		if t = memberOf(elementOf(t), name); t == nil {
			return false
		}
	}
	return true
}

// elementOf is the type behind pointers, and of the items of lists.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// memberOf is the type of a member in JSON; nil: there is none.
func memberOf(t reflect.Type, name string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for n := range t.NumField() {
			f := t.Field(n)
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == name {
				return f.Type
			}
			if tag == "" && (f.Anonymous || options == "inline") {
				if of := memberOf(elementOf(f.Type), name); of != nil {
					return of
				}
			}
		}
	}
	return nil
}

// only returns an item cut to the fields of a projection. The whole form is kept only if it is already.
func (ep *Endpoint) only(ctx context.Context, i *store.Item, p *projection) ([]byte, error) {
	f := p.form
	return i.Encoding(ep.e.Store.Encodings, p.key, func(i *store.Item) ([]byte, error) {
		if p.wire != nil {
			return ep.onlyWire(ctx, i, p)
		}
		room, small := gatherBuffers.Get().(*[]byte), gatherBuffers.Get().(*[]byte)
		defer gatherBuffers.Put(room)
		defer gatherBuffers.Put(small)
		whole, ok := i.Kept(ep.e.Store.Encodings, f)
		if !ok && f.plan != nil {
			whole, ok = ep.appendDirect((*room)[:0], i, i.Value(), f)
		}
		if !ok {
			var err error
			if whole, ok = ep.direct(i, f); !ok {
				if whole, err = ep.decodedJSON(ctx, i, f); err != nil {
					return nil, err
				}
			}
		}
		b, ok := jsonobject.AppendOnly((*small)[:0], whole, p.fields)
		if !ok {
			return nil, fmt.Errorf("cut %s %s: its JSON cannot be read", ep.R.Plural, i.Key)
		}
		return slices.Clone(b), nil
	})
}

// onlyWire cuts the protobuf of an item.
func (ep *Endpoint) onlyWire(ctx context.Context, i *store.Item, p *projection) ([]byte, error) {
	room, small := gatherBuffers.Get().(*[]byte), gatherBuffers.Get().(*[]byte)
	defer gatherBuffers.Put(room)
	defer gatherBuffers.Put(small)
	whole, err := ep.protobuf(ctx, (*room)[:0], i, p.out)
	if err != nil {
		return nil, err
	}
	b, err := p.wire.Append((*small)[:0], whole)
	if err != nil {
		return nil, fmt.Errorf("cut %s %s: %w", ep.R.Plural, i.Key, err)
	}
	return slices.Clone(b), nil
}

// onlyItems makes the items of a list, cut to the fields that were asked for.
func (c *call) onlyItems(p *page) itemFunc {
	ctx, batch := c.req.Context(), c.batches(p.items)
	return func(n int) (head, rest []byte, err error) {
		if some := batch(n); some != nil {
			if err := c.encodeTogether(ctx, some, p.only.form); err != nil {
				return nil, nil, err
			}
		}
		rest, err = c.only(ctx, p.items[n], p.only)
		return nil, rest, err
	}
}

// refuseForComputed refuses extensions for resources whose objects are not stored: they have no keys, and no order.
func (c *call) refuseForComputed() error {
	for parameter, extension := range map[string]string{
		"namespaces": extensions.Namespaces, "namespaceSelector": extensions.Namespaces, "fields": extensions.Fields, "sort": extensions.Sort,
	} {
		if c.asked(extension, parameter) != "" {
			return apierrors.NewBadRequest(fmt.Sprintf("%s: %s are computed, and have no such lists", parameter, c.R.Plural))
		}
	}
	return nil
}
