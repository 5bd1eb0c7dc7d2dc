// Package console serves the page at /console, and signs browsers in to it.
//
// The page shows what the API group flightrecorder.kanzen.io tells, and the objects of the API. It has no rights of its own:
// a request for data below /console/data/ becomes the request to the API that it stands for, always one that reads, and
// passes the rest of the chain as its viewer. So authorization, flow control, audit and the flight recorder see a list of requests, and not a
// page that reads them for somebody.
//
// A viewer is known by a client certificate, by a bearer token, or by the cookie of a session. A session begins with a
// one-time code (a link that `kanzen console` prints) or a bearer token, and is the user who had that. Its cookie is good
// for reading below /console/data/ and for ending the session; everywhere else it is not looked at. Codes and sessions
// are in memory only, as hashes, few for each user, and expire. Nobody can fill what there is room for (secrets).
package console

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Prefix is the path of the page.
const Prefix = "/console"

// Paths below the prefix that are no files of the page.
const (
	codesPath   = Prefix + "/codes"
	sessionPath = Prefix + "/session"
	whoPath     = Prefix + "/data/whoami"
	dataPrefix  = Prefix + "/data/"
)

// Config configures a Console. All fields but Space and Random are required.
type Config struct {
	Clock clock.PassiveClock
	// WriteError answers a request with an error.
	WriteError chain.ErrorWriter
	// Version is what the page says that the server is.
	Version string
	// Space is the path at which the server says what takes the room of its database; "": it says it nowhere.
	Space string
	// Random makes codes; nil is crypto/rand.
	Random io.Reader
}

// Console serves the page. It is safe for concurrent use.
type Console struct {
	Config
	pages    files
	codes    *secrets
	sessions *secrets
	began    time.Time
}

// New makes a Console.
func New(c Config) *Console {
	if c.Random == nil {
		c.Random = rand.Reader
	}
	return &Console{Config: c, pages: pages(), began: c.Clock.Now(),
		codes:    newSecrets(c.Clock, c.Random, codeLife, codeLife, maxCodes),
		sessions: newSecrets(c.Clock, c.Random, sessionLife, sessionIdle, maxSessions)}
}

// purpose is what a request to the console is for.
type purpose int

const (
	forPage    purpose = iota // a file of the page: it says nothing, and whoever may be anonymous gets it
	forCode                   // a one-time code is to be made
	forSession                // a session is to begin
	forEnd                    // a session is to end
	forData                   // the viewer reads something
)

// asked is in the context of each request to the console. Only Filter puts it there.
type asked struct {
	purpose purpose
	// session is the secret in the cookie; "" if there is none, or if another site made the browser send it.
	session string
}

type askedKey struct{}

func askedFrom(ctx context.Context) *asked {
	a, _ := ctx.Value(askedKey{}).(*asked)
	return a
}

// Filter finds out what requests to the console are for, and makes those for data what they stand for. It must come before
// everything that looks at the path.
func (c *Console) Filter(next chain.Handler) chain.Handler {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Prefix && !strings.HasPrefix(r.URL.Path, Prefix+"/") {
			next(w, r)
			return
		}
		harden(w.Header())
		a := &asked{}
		if cookie, err := r.Cookie(cookieName); err == nil && fromPage(r) {
			a.session = cookie.Value
		}
		r = r.WithContext(context.WithValue(r.Context(), askedKey{}, a))
		r.Header = r.Header.Clone()
		r.Header.Del("Cookie") // nobody behind a proxy may learn it
		switch path := r.URL.Path; {
		case path == codesPath:
			a.purpose = forCode
		case path == sessionPath && r.Method == http.MethodDelete:
			a.purpose = forEnd
		case path == sessionPath:
			a.purpose = forSession
		case path == whoPath:
			a.purpose = forData
		case strings.HasPrefix(path, dataPrefix):
			a.purpose = forData
			if navigates(r) {
				a.session = ""
			}
			if !stand(r, strings.TrimPrefix(path, dataPrefix), c.Space) {
				http.NotFound(w, r)
				return
			}
		}
		if _, file := c.pages[r.URL.Path]; file || a.purpose == forData {
			r = r.WithContext(request.WithConsole(r.Context()))
		}
		if a.purpose != forPage && a.purpose != forData && !fromPage(r) {
			http.Error(w, "The console takes this from its own page only.", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// harden sets the headers of all answers: a page may load only what this server has, may be framed by nobody, and answers
// are what they say they are.
func harden(h http.Header) {
	for _, each := range [][2]string{
		{"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
		{"X-Content-Type-Options", "nosniff"}, {"X-Frame-Options", "DENY"}, {"Referrer-Policy", "no-referrer"},
		{"Cross-Origin-Resource-Policy", "same-origin"}, {"Cross-Origin-Opener-Policy", "same-origin"},
		{"Permissions-Policy", "camera=(), geolocation=(), microphone=()"},
	} {
		h.Set(each[0], each[1])
	}
}

// fromPage reports whether a request comes from the page itself, or from no page at all. Browsers say where a request comes
// from; other sites cannot change that. SameSite does not tell other ports of this host apart.
func fromPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// navigates says that a browser would show the answer as a page, or run it as a script, instead of giving it to the page's
// script. Answers may come from extension API servers.
func navigates(r *http.Request) bool {
	to := r.Header.Get("Sec-Fetch-Dest")
	return to != "" && to != "empty"
}

var _ authn.Authenticator = Authenticator{}
