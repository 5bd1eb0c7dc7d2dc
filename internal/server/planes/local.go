package planes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authentication/user"
)

// This file lets a program that holds a fleet use planes without a socket.

// Create creates a plane and returns when it is ready.
func (f *Fleet) Create(ctx context.Context, name string) error {
	if err := f.up(ctx); err != nil {
		return err
	}
	p := map[string]any{"apiVersion": Group + "/" + Version, "kind": "Plane", "metadata": map[string]any{"name": name}}
	if err := f.root.Do(ctx, http.MethodPost, planesPath, "application/json", p, nil); err != nil {
		return err
	}
	for {
		var p Plane
		if err := f.root.Do(ctx, http.MethodGet, planesPath+"/"+name, "", nil, &p); err != nil {
			return err
		}
		if meta.IsStatusConditionTrue(p.Status.Conditions, ready) {
			return nil
		}
		if err := f.pause(ctx); err != nil {
			return fmt.Errorf("plane %s is not ready: %w", name, err)
		}
	}
}

// Delete deletes a plane and returns when nothing of it is left.
func (f *Fleet) Delete(ctx context.Context, name string) error {
	for {
		if err := f.root.Do(ctx, http.MethodDelete, planesPath+"/"+name, "", nil, nil); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		if err := f.pause(ctx); err != nil {
			return err
		}
	}
}

// up waits until the planes that exist are known.
func (f *Fleet) up(ctx context.Context) error {
	select {
	case <-f.listed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.on.Clock.After(time.Minute):
		return fmt.Errorf("planes are not served")
	}
}

// Kubeconfig returns the kubeconfig of a plane's administrator, as Client.Kubeconfig does.
func (f *Fleet) Kubeconfig(ctx context.Context, name string) (data []byte, reason string, err error) {
	return (&Client{f.root}).Kubeconfig(ctx, name)
}

// Transport returns a transport for requests of a user to a plane; without one the credentials in the requests decide.
func (f *Fleet) Transport(name string, u user.Info) http.RoundTripper { return &transport{f, name, u} }

type transport struct {
	fleet *Fleet
	name  string
	user  user.Info
}

// RoundTrip is part of http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	h := t.fleet.find(t.name)
	if h == nil {
		return fail(fmt.Errorf("there is no plane %s", t.name))
	}
	p, err := h.enter(r.Context())
	var elsewhere *elsewhereError
	if errors.As(err, &elsewhere) {
		return t.fleet.owners.Load().Transport(elsewhere.owner, pathPrefix+t.name, t.user).RoundTrip(r)
	}
	if err != nil {
		return fail(err)
	}
	resp, err := p.Transport(t.user).RoundTrip(r)
	if err != nil {
		h.leave()
		return nil, err
	}
	resp.Body = &leaving{resp.Body, sync.OnceFunc(h.leave)}
	return resp, nil
}

// leaving is the body of an answer, with whose end the request has ended.
type leaving struct {
	io.ReadCloser
	leave func()
}

// Close is part of io.Closer.
func (l *leaving) Close() error {
	defer l.leave()
	return l.ReadCloser.Close()
}
