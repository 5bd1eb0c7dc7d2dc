package chain

import (
	"log/slog"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authn"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Authentication finds the user of a request, or answers 401. It removes the credentials, so that neither handlers nor
// servers behind a proxy see them.
func Authentication(a authn.Authenticator, proxyHeaders authn.HeaderNames, log *slog.Logger, writeError ErrorWriter) Filter {
	standard := authn.StandardHeaders()
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			u, ok, err := a.Authenticate(r)
			if err != nil {
				log.Log(r.Context(), request.FailureLevel(r.Context(), slog.LevelWarn), "Could not authenticate a request", "err", err,
					"path", r.URL.Path, "from", r.RemoteAddr, "auditID", request.AuditIDFrom(r.Context()))
			}
			if r.ProtoMajor == 2 && (!ok || nobody(u)) {
				// An unknown client gets one request per connection: over HTTP/2, a flood of cancelled requests
				// would cost it too little.
				w.Header().Set("Connection", "close")
			}
			if !ok || err != nil {
				if name, reason := authn.Refusal(r, err); reason != "" {
					request.AddStep(r.Context(), request.Step{Kind: request.StepAuthentication, Name: name, Began: request.ReceivedFrom(r.Context()), Result: request.StepFailed, Reason: reason})
				}
				writeError(w, r, apierrors.NewUnauthorized("Unauthorized"))
				return
			}
			r.Header.Del("Authorization")
			standard.Clear(r.Header)
			proxyHeaders.Clear(r.Header)
			request.Identify(r.Context(), u)
			next(w, r.WithContext(request.WithUser(r.Context(), u)))
		}
	}
}

func nobody(u user.Info) bool {
	return u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated)
}
