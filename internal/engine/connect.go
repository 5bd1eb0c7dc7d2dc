package engine

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// connect serves a subresource that streams to a kubelet, pod or service, once
// admission allows it to be opened.
func (c *call) connect() error {
	if c.e.Connect == nil {
		return apierrors.NewServiceUnavailable("this server has no connection to kubelets")
	}
	var options runtime.Object
	if c.sub.Options != nil {
		if len(c.req.URL.Query()["dryRun"]) > 0 {
			return apierrors.NewBadRequest("dryRun is not supported")
		}
		var err error
		if options, err = c.admitConnect(); err != nil {
			return err
		}
	}
	if c.sub.MustCreate && c.info.Verb != "create" {
		if err := c.mayCreate(c.req.Context()); err != nil {
			return err
		}
	}
	return c.e.Connect(c.w, c.req, c.sub, options)
}

// delegate has a func answer a request for a subresource of an object.
func (c *call) delegate() error {
	if c.sub.MustCreate && c.info.Verb != "create" {
		if err := c.mayCreate(c.req.Context()); err != nil {
			return err
		}
	}
	obj, err := c.GetObject(c.req.Context(), c.namespace, c.name)
	if err != nil {
		return err
	}
	return c.sub.Answer(c.w, c.req, obj)
}

// admitConnect asks admission about the options of a connection, and returns
// them as plugins have changed them.
func (c *call) admitConnect() (runtime.Object, error) {
	options, err := c.sub.Options(c.req.URL.Query(), c.behind())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	ctx := c.req.Context()
	a := c.attributes(ctx, admission.Connect, nil, nil, nil)
	a.Kind, a.Object = c.subKind(), options
	options.GetObjectKind().SetGroupVersionKind(a.Kind)
	if err := c.e.Admit.Admit(ctx, a); err != nil {
		return nil, err
	}
	if err := c.e.Admit.Validate(ctx, a); err != nil {
		return nil, err
	}
	return a.Object, nil
}

// behind returns the path after the subresource, with its slashes.
func (c *call) behind() string {
	path := ""
	if len(c.info.Parts) > 3 {
		path = "/" + strings.Join(c.info.Parts[3:], "/")
	}
	if strings.HasSuffix(c.info.Path, "/") && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	return path
}
