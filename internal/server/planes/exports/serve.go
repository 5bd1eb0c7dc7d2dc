package exports

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Path is where exports are in a provider's plane: at Path/NAME is the view of all planes, at Path/NAME/planes the planes, and at
// Path/NAME/planes/PLANE one of them. Who may use them is a question of rules for paths, as for all that is no resource.
const Path = "/exports"

// resource is what refusals call exports.
var resource = schema.GroupResource{Group: Group, Resource: "exports"}

// Serve answers requests at Path of a provider's plane. The error is a refusal.
func (e *Exports) Serve(plane string) func(w http.ResponseWriter, r *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, Path+"/"), "/")
		of := ref{plane, name}
		o, err := e.offered(r.Context(), of)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if o == nil {
			return apierrors.NewNotFound(resource, name)
		}
		v, err := e.views.enter(e, of, o)
		if err != nil {
			return apierrors.NewServiceUnavailable(err.Error())
		}
		defer e.views.leave(e, v)
		if rest == "planes" {
			return e.servePlanes(w, r, v, recordsOf(o.plane.UID, name))
		}
		if below, ok := strings.CutPrefix(rest, "planes/"); ok {
			one, _, _ := strings.Cut(below, "/")
			return e.serveOne(w, r, v, o, of, one)
		}
		inner, err := below(r, Path+"/"+name)
		if err != nil {
			return err
		}
		if err := manyOnly(inner); err != nil {
			return err
		}
		// The filters of the view begin anew: what those of the plane have learned is not theirs.
		ctx, cancel := context.WithCancel(inprocess.WithUser(context.Background(), nobody))
		defer cancel()
		defer context.AfterFunc(r.Context(), cancel)()
		defer context.AfterFunc(v.ctx, cancel)()
		v.handler.ServeHTTP(w, inner.WithContext(ctx))
		return nil
	}
}

// manyOnly refuses requests for single objects: there may be several of a name.
func manyOnly(r *http.Request) error {
	i, err := request.NewInfo(r)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if i.IsResource && i.Verb != "list" && i.Verb != "watch" {
		return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, i.Verb, schema.GroupResource{Group: i.Group, Resource: i.Resource}, i.Name,
			"the view of all planes has lists and watches only; single objects are below "+Path+"/EXPORT/planes/PLANE", 0, true)
	}
	return nil
}

// Below returns what a path of an export is there, in the view of all planes or in a single one; ok is false if it is of no export.
func Below(path string) (inner string, ok bool) {
	rest, ok := strings.CutPrefix(path, Path+"/")
	if !ok {
		return "", false
	}
	_, rest, _ = strings.Cut(rest, "/")
	if one, ok := strings.CutPrefix(rest, "planes/"); ok {
		_, rest, _ = strings.Cut(one, "/")
	}
	return "/" + rest, true
}

// below returns a request as it is below a path.
func below(r *http.Request, prefix string) (*http.Request, error) {
	at := *r.URL
	at.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(at.Path, prefix), "/")
	if at.RawPath != "" {
		raw, ok := strings.CutPrefix(at.RawPath, prefix)
		if !ok {
			return nil, apierrors.NewBadRequest("the names of exports and planes are written with escapes, which they do not need")
		}
		at.RawPath = raw
	}
	inner := r.Clone(r.Context())
	inner.URL, inner.RequestURI = &at, at.RequestURI()
	return inner, nil
}

// WatchesPlanes reports whether a request watches the planes of an export: it lasts as long as its client wants.
func WatchesPlanes(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, Path+"/")
	_, rest, _ = strings.Cut(rest, "/")
	return ok && rest == "planes" && watches(r)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// serveOne passes a request on to one plane, if the record of that gives the right to it.
func (e *Exports) serveOne(w http.ResponseWriter, r *http.Request, v *view, o *offer, of ref, plane string) error {
	inner, err := below(r, Path+"/"+of.name+"/planes/"+plane)
	if err != nil {
		return err
	}
	record, err := e.recordOf(r.Context(), o, of, plane)
	if err != nil {
		return err
	}
	info, err := request.NewInfo(inner)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if !info.IsResource {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return apierrors.NewMethodNotSupported(resource, r.Method)
		}
		v.one.ServeHTTP(w, inner)
		return nil
	}
	which, err := record.allows(info, of)
	if err != nil {
		return err
	}
	transport := e.Planes.Transport(plane, provider(of))
	if !which.Empty() {
		if err := e.narrow(inner, info, which, through(transport)); err != nil {
			return err
		}
	}
	Pass(w, inner, transport)
	return nil
}

// recordOf returns the record of a plane. Of one that has not bound the export nothing is said, not even whether there is one.
func (e *Exports) recordOf(ctx context.Context, o *offer, of ref, plane string) (*record, error) {
	none := apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: "planes"}, plane)
	p, ok := e.Planes.Find(plane)
	if !ok {
		return nil, none
	}
	records, err := readRecords(ctx, e.DB, recordsOf(o.plane.UID, of.name)+string(p.UID), 0)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if records[""] == nil {
		return nil, none
	}
	return records[""], nil
}

// allows returns which objects a request may be about, or the refusal.
func (r *record) allows(i *request.Info, of ref) (labels.Selector, error) {
	about := GroupResource{i.Group, i.Resource}
	if slices.Contains(r.Resources, about) {
		if i.Subresource == "" || i.Subresource == "status" || i.Subresource == "scale" {
			return labels.Everything(), nil
		}
	} else if g := r.grant(about); g != nil && i.Subresource == "" && slices.Contains(g.Verbs, i.Verb) {
		which, err := g.selector()
		if err == nil {
			return which, nil
		}
	}
	return nil, apierrors.NewForbidden(schema.GroupResource{Group: i.Group, Resource: i.Resource}, i.Name,
		fmt.Errorf("the binding of %s in plane %s does not give the export %s the verb %q", about, r.Plane, of, i.Verb))
}

// narrow has a request be only about objects that a selector selects. Writes are checked where they are made (guard.go).
func (e *Exports) narrow(r *http.Request, i *request.Info, which labels.Selector, one api) error {
	if query := r.URL.Query(); query.Has("revisions") || query.Has("at") {
		return apierrors.NewBadRequest("at, revisions: a claim with a label selector gives no right to the past of objects")
	}
	switch i.Verb {
	case "list", "watch":
		query := r.URL.Query()
		all := which.String()
		if own := query.Get("labelSelector"); own != "" {
			all = own + "," + all
		}
		query.Set("labelSelector", all)
		r.URL.RawQuery = query.Encode()
		r.RequestURI = r.URL.RequestURI()
	case "get":
		var object struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
		}
		if err := one.Do(r.Context(), http.MethodGet, r.URL.Path, "", nil, &object); err != nil {
			return err
		}
		if !which.Matches(labels.Set(object.Metadata.Labels)) {
			return apierrors.NewNotFound(schema.GroupResource{Group: i.Group, Resource: i.Resource}, i.Name)
		}
	}
	return nil
}

// Pass passes a request on to a plane, for somebody who is known.
func Pass(w http.ResponseWriter, r *http.Request, to http.RoundTripper) {
	proxy := httputil.ReverseProxy{
		Transport: to, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "https", Host: "plane", Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			// Who asks is known, and may not be somebody else there.
			for name := range p.Out.Header {
				if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
					p.Out.Header.Del(name)
				}
			}
			// No protocol can be changed to inside of the process: a watch is answered as one without that wish.
			p.Out.Header.Del("Connection")
			p.Out.Header.Del("Upgrade")
		},
		ModifyResponse: func(resp *http.Response) error {
			for name := range w.Header() { // this request has its own audit ID, and such
				if name != "Warning" {
					resp.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the control plane is not available", http.StatusServiceUnavailable)
		},
	}
	proxy.ServeHTTP(w, r)
}
