package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file reads what top shows. It looks again every second, so whatever the server sends, an answer costs little memory
// and time.

const (
	maxItem      = 1 << 20  // bytes of an object or event
	maxList      = 32 << 20 // bytes of a list
	maxItems     = 100_000
	maxSeen      = 200_000  // requests of a window
	maxSeenBytes = 64 << 20 // bytes of their texts
	lookFor      = 5 * time.Second
)

var errTooLong = errors.New("the server sends more than an answer may contain")

// bounded reads so many bytes and then fails.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// items returns the objects of a list, at most maxItems of them, and its resourceVersion. They are decoded one by one: a
// list of very many empty objects is short, and large in memory.
func items[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, a *asker, path string) (out []T, version string, err error) {
	body, err := a.send(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	d := json.NewDecoder(&bounded{body, maxList})
	if err := begins(d, '{'); err != nil {
		return nil, "", err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, "", err
		}
		switch name {
		case "metadata":
			var m metav1.ListMeta
			if err := d.Decode(&m); err != nil {
				return nil, "", err
			}
			version = m.ResourceVersion
		case "items":
			if out, err = elements[T, P](d); err != nil || len(out) == maxItems {
				return out, version, err
			}
		default:
			if err := d.Decode(new(json.RawMessage)); err != nil {
				return nil, "", err
			}
		}
	}
	_, err = d.Token()
	return out, version, err
}

func elements[T any, P interface {
	*T
	metav1.Object
}](d *json.Decoder) (out []T, err error) {
	if err := begins(d, '['); err != nil {
		return nil, err
	}
	for d.More() && len(out) < maxItems {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		if len(raw) > maxItem {
			return nil, errTooLong
		}
		var item T
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, err
		}
		// Nothing of the recorder has these. Lists of empty ones are short, and large in memory.
		o := P(&item)
		o.SetOwnerReferences(nil)
		o.SetManagedFields(nil)
		o.SetFinalizers(nil)
		o.SetLabels(nil)
		o.SetAnnotations(nil)
		out = append(out, item)
	}
	if len(out) == maxItems {
		return out, nil
	}
	_, err = d.Token()
	return out, err
}

func begins(d *json.Decoder, with json.Delim) error {
	t, err := d.Token()
	if err == nil && t != with {
		err = fmt.Errorf("the server answered with %v instead of %v", t, with)
	}
	return err
}
