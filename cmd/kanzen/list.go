package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// listPage is how many objects are asked for at a time.
const listPage = 500

// listedObject is an object of a list.
type listedObject struct {
	Namespace, Name, ResourceVersion string
	UID                              types.UID

	resource *served
	text     json.RawMessage
}

func (o *listedObject) key() string { return o.Namespace + "/" + o.Name }

// object reads the object; nil: there is none.
func (o *listedObject) object() (*unstructured.Unstructured, error) {
	if o == nil {
		return nil, nil
	}
	out, err := objectOf(o.text)
	if err != nil {
		return nil, err
	}
	out.SetAPIVersion(apiVersionOf(o.resource)) // items of a list have neither
	if o.resource.ResponseKind != nil {
		out.SetKind(o.resource.ResponseKind.Kind)
	}
	return out, nil
}

// list passes on all objects of a kind, in a namespace ("": all) and as of a moment ("": now). They are asked for in pages.
func (a *asker) list(ctx context.Context, r *served, namespace, at string, yield func(*listedObject) error) error {
	query := url.Values{"limit": {fmt.Sprint(listPage)}}
	if at != "" {
		query.Set("at", at)
	}
	for {
		var page struct {
			Metadata metav1.ListMeta
			Items    []json.RawMessage
		}
		if err := a.get(ctx, r.path(namespace, "")+"?"+query.Encode(), &page); err != nil {
			return err
		}
		for _, text := range page.Items {
			item := struct{ Metadata listedObject }{listedObject{resource: r, text: text}}
			if err := json.Unmarshal(text, &item); err != nil {
				return err
			}
			if err := yield(&item.Metadata); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}
