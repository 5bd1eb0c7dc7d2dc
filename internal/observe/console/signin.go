package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// cookieName is that of the session's cookie. The browser takes it from a secure connection only, and sends it to this
// path only: nothing that the API proxies to gets it.
const cookieName = "__Secure-kanzen-console"

// codeHeader has the one-time code in the request that begins a session. It is no part of the URL, which is logged.
const codeHeader = "Kanzen-Console-Code"

var errUsed = errors.New("the code of the console is unknown, has been used or has expired")

// Authenticator finds the user of a request to the console by its code or session. All other requests, and those with
// credentials of another kind, are for Next. Next also decides who gets the files of the page anonymously: where nobody may
// be anonymous, a browser needs a client certificate for them.
type Authenticator struct {
	Console *Console
	Next    authn.Authenticator
}

// Authenticator returns next for the console, too; for nil it is next.
func (c *Console) Authenticator(next authn.Authenticator) authn.Authenticator {
	if c == nil {
		return next
	}
	return Authenticator{Console: c, Next: next}
}

// Authorizer returns next for the console, too; for nil it is next.
func (c *Console) Authorizer(next authz.Authorizer) authz.Authorizer {
	if c == nil {
		return next
	}
	return Authorizer{Next: next}
}

// Authenticate is part of authn.Authenticator.
func (a Authenticator) Authenticate(r *http.Request) (user.Info, bool, error) {
	what := askedFrom(r.Context())
	if what == nil {
		return a.Next.Authenticate(r)
	}
	c := a.Console
	switch what.purpose {
	case forSession:
		if code := r.Header.Get(codeHeader); code != "" {
			r.Header.Del(codeHeader)
			if u := c.codes.take(code); u != nil {
				return u, true, nil
			}
			return nil, false, errUsed
		}
	case forData, forEnd, forPage:
		if u := c.sessions.find(what.session); u != nil {
			return u, true, nil
		}
	}
	u, ok, err := a.Next.Authenticate(r)
	if ok && err == nil && nobody(u) && what.purpose != forPage {
		return nil, false, nil // the page asks to sign in
	}
	return u, ok, err
}

func nobody(u user.Info) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}

// Authorizer lets everybody whom authentication lets in have what tells nothing: the files of the page, a session and a code for oneself, one's own
// name. What data there is is for Next to decide, also if it is no resource: paths of data are those of the API by then.
type Authorizer struct{ Next authz.Authorizer }

// Authorize is part of authz.Authorizer.
func (a Authorizer) Authorize(ctx context.Context, at *authz.Attributes) (authz.Decision, string, error) {
	// The request itself, and not one that a review asks about.
	if i := request.InfoFrom(ctx); askedFrom(ctx) != nil && i != nil && !i.IsResource && !at.IsResource && at.Path == i.Path && own(i.Path) {
		return authz.Allow, "the console tells nothing at this path", nil
	}
	return a.Next.Authorize(ctx, at)
}

// own says that a path is the console's, or one that says which kinds there are.
func own(path string) bool {
	return path == Prefix || strings.HasPrefix(path, Prefix+"/") || path == "/api" || path == "/apis"
}

// serveCode makes a one-time code for the user of the request.
func (c *Console) serveCode(w http.ResponseWriter, r *http.Request) {
	if !only(w, r, http.MethodPost) {
		return
	}
	code, err := c.codes.issue(request.UserFrom(r.Context()))
	if err != nil {
		c.WriteError(w, r, err)
		return
	}
	writeJSON(w, map[string]any{"code": code, "seconds": int(codeLife.Seconds())})
}

// serveSession begins a session of the user of the request, or ends the one of its cookie.
func (c *Console) serveSession(w http.ResponseWriter, r *http.Request) {
	what := askedFrom(r.Context())
	cookie := &http.Cookie{Name: cookieName, Path: Prefix, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode, MaxAge: -1}
	if what.purpose == forEnd {
		c.sessions.take(what.session)
		http.SetCookie(w, cookie)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !only(w, r, http.MethodPost) {
		return
	}
	c.sessions.take(what.session) // another sign-in of the same browser
	u := request.UserFrom(r.Context())
	session, err := c.sessions.issue(u)
	if err != nil {
		c.WriteError(w, r, err)
		return
	}
	cookie.Value, cookie.MaxAge = session, int(sessionLife.Seconds())
	http.SetCookie(w, cookie)
	what.session = session
	c.serveWho(w, r)
}

// serveWho tells a viewer who the server thinks it is.
func (c *Console) serveWho(w http.ResponseWriter, r *http.Request) {
	u := request.UserFrom(r.Context())
	writeJSON(w, map[string]any{"user": u.GetName(), "groups": u.GetGroups(), "version": c.Version, "session": askedFrom(r.Context()).session != "",
		"started": c.began.UTC(), "time": c.Clock.Now().UTC()})
}

// only refuses other methods.
func only(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method {
		return true
	}
	w.Header().Set("Allow", method)
	http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	return false
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // the client may have closed the connection
}
