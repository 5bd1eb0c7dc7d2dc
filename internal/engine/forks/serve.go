package forks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	forklog "github.com/kanzen-io/kanzen/internal/store/fork"
)

// Path is where the forks are: GET lists them. At Path/NAME one is created (POST, with ttl and at as parameters), looked at (GET) and ended
// (DELETE); below that it answers itself, what is asked for by the user of the request. Who may do that is a question of rules for
// paths, as for all that is no resource.
const Path = "/forks"

// Info is what is told of a fork.
type Info struct {
	Name    string    `json:"name"`
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// ResourceVersion is what it began with.
	ResourceVersion string `json:"resourceVersion"`
	// Changes are the objects that were written since. They are not in lists.
	Changes []bundlev1.Other `json:"changes,omitempty"`
}

func (p *fork) info() Info {
	return Info{Name: p.name, Creator: p.creator, Created: p.made, Expires: p.expires, ResourceVersion: fmt.Sprint(p.Since())}
}

// Serve answers requests at Path and below. The error is a refusal.
func (f *Forks) Serve(w http.ResponseWriter, r *http.Request) error {
	name, rest, below := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path), "/"), "/")
	switch {
	case name == "":
		return f.serveList(w, r)
	case below:
		return f.pass(w, r, name, rest)
	}
	return f.serveOne(w, r, name)
}

func (f *Forks) serveList(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return refuseMethod(r)
	}
	list := []Info{}
	for _, p := range f.list() {
		list = append(list, p.info())
	}
	return answer(w, http.StatusOK, map[string]any{"items": list})
}

func (f *Forks) serveOne(w http.ResponseWriter, r *http.Request, name string) error {
	switch r.Method {
	case http.MethodPost:
		life, err := lifeOf(r.URL.Query())
		if err != nil {
			return err
		}
		p, err := f.create(r.Context(), name, request.UserFrom(r.Context()).GetName(), r.URL.Query().Get("at"), life)
		if err != nil {
			return err
		}
		return answer(w, http.StatusCreated, p.info())
	case http.MethodGet:
		p, err := f.enter(r.Context(), name) // kinds are known while it runs
		if err != nil {
			return err
		}
		defer f.leave(p)
		info := p.info()
		info.Changes = p.Changes()
		return answer(w, http.StatusOK, info)
	case http.MethodDelete:
		if err := f.remove(name); err != nil {
			return err
		}
		return answer(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	}
	return refuseMethod(r)
}

func refuseMethod(r *http.Request) error {
	return apierrors.NewMethodNotSupported(resource, r.Method)
}

// lifeOf reads how long a fork is to live.
func lifeOf(query url.Values) (time.Duration, error) {
	text := query.Get("ttl")
	if text == "" {
		return defaultLife, nil
	}
	life, err := time.ParseDuration(text)
	if err != nil || life <= 0 || life > longestLife {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("ttl: %q is not a duration of up to %v, such as 30m", text, longestLife))
	}
	return life, nil
}

// pass has a fork answer a request.
func (f *Forks) pass(w http.ResponseWriter, r *http.Request, name, rest string) error {
	u := request.UserFrom(r.Context())
	if u == nil {
		return apierrors.NewInternalError(errors.New("nobody asks"))
	}
	p, err := f.enter(r.Context(), name)
	if err != nil {
		return err
	}
	defer f.leave(p)
	prefix := Path + "/" + name
	at := *r.URL
	at.Path = "/" + rest
	if at.RawPath != "" {
		raw, ok := strings.CutPrefix(at.RawPath, prefix)
		if !ok {
			return apierrors.NewBadRequest("the name of the fork is written with escapes, which it does not need")
		}
		at.RawPath = raw
	}
	// The fork's filters begin anew: what this server's have learned is not theirs, but for the user.
	ctx, cancel := context.WithCancel(inprocess.WithUser(context.Background(), u))
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	inner := r.Clone(ctx)
	inner.URL, inner.RequestURI = &at, at.RequestURI()
	if info, err := request.NewInfo(inner); err == nil && info.IsResource {
		about := schema.GroupResource{Group: info.Group, Resource: info.Resource}
		inner = inner.WithContext(forklog.Outside(ctx, about.String()))
	}
	p.ServeHTTP(w, inner)
	return nil
}

// answer writes JSON.
func answer(w http.ResponseWriter, code int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // the client is gone if this fails
	return nil
}
