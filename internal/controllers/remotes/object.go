package remotes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// requestTimeout bounds a request for one object, or for a page of a list.
const requestTimeout = 10 * time.Second

// ErrAway means that an extension server is known not to answer. Nothing can be said of its objects.
var ErrAway = errors.New("the extension server is not available")

// Object is what is read of an object.
type Object struct {
	Namespace, Name, ResourceVersion string
	Links                            engine.Links
}

// objectOf returns what is read of an object, or an error if it cannot be an object of the kind.
func (k *Kind) objectOf(m *metav1.PartialObjectMetadata) (Object, error) {
	if m.Name == "" || strings.Contains(m.Name+m.Namespace, "/") || k.Namespaced != (m.Namespace != "") {
		return Object{}, fmt.Errorf("%s: an object has the name %q and the namespace %q", k.GroupResource(), m.Name, m.Namespace)
	}
	return Object{m.Namespace, m.Name, m.ResourceVersion,
		engine.Links{UID: m.UID, Deleting: m.DeletionTimestamp != nil, Finalizers: m.Finalizers, Owners: m.OwnerReferences}}, nil
}

func (k *Kind) path(namespace, name string) string {
	return inprocess.Target{Resource: k.GroupVersionResource, Namespace: namespace, Name: name}.Path()
}

// Get returns the metadata of an object.
func (c *Client) Get(ctx context.Context, k *Kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	if !k.Current {
		return nil, ErrAway
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m := &metav1.PartialObjectMetadata{}
	return m, c.do(ctx, http.MethodGet, k.path(namespace, name), acceptOne, "", nil, m)
}

// Absent reports whether an error of Get proves that there is no such object. An extension server that answers 404 to
// everything, or is no longer there, proves nothing.
func Absent(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, k *Kind, w request.Which, o *metav1.DeleteOptions) error {
	if !k.Current {
		return ErrAway
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	with := w.Delete(o)
	with.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	return c.Do(ctx, http.MethodDelete, k.path(w.Namespace(), w.Name()), with, nil)
}

// errOther means that an object is not the one that was seen, or no longer as it was.
var errOther = errors.New("it is another object, or it has changed")

// editAttempts is how often an edit is tried while others change the object.
const editAttempts = 5

// Edit changes the owner references and the finalizers of an object by a func. The func is called again after a
// conflict with another writer; its error ends the edit and is returned as it is.
func (c *Client) Edit(ctx context.Context, k *Kind, w request.Which, edit func(obj engine.Object) error) (err error) {
	for range editAttempts {
		var m *metav1.PartialObjectMetadata
		if m, err = c.Get(ctx, k, w.Namespace(), w.Name()); err != nil {
			return err
		}
		if w.OtherUID(m) || w.Changed(m) {
			return apierrors.NewConflict(k.GroupResource(), w.Name(), errOther)
		}
		if err = edit(m); err != nil {
			return err
		}
		patch := map[string]any{"metadata": map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion,
			"ownerReferences": m.OwnerReferences, "finalizers": m.Finalizers}}
		if err = c.patch(ctx, k, w.Namespace(), w.Name(), patch); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// Rewrite has an object stored anew as it is. It is a conflict if the object has changed since it was listed.
func (c *Client) Rewrite(ctx context.Context, k *Kind, o *Object) error {
	return c.patch(ctx, k, o.Namespace, o.Name, map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.Kind,
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion}})
}

func (c *Client) patch(ctx context.Context, k *Kind, namespace, name string, patch any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.do(ctx, http.MethodPatch, k.path(namespace, name), acceptOne, mediaPatch, patch, nil)
}
