package recorder

import (
	"log/slog"
	"net/http"
	"net/http/httptest"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/chain"
)

// chainWriter returns a response writer as filters of the chain get it.
func chainWriter() (found http.ResponseWriter) {
	catch := func(next chain.Handler) chain.Handler {
		return func(w http.ResponseWriter, _ *http.Request) { found = w }
	}
	h := chain.New(chain.Config{Handler: http.NotFoundHandler(), Authenticator: anyone{}, Authorizer: authz.AlwaysAllow{}, Recorder: catch,
		Log: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	return found
}

type anyone struct{}

// Authenticate is part of authn.Authenticator.
func (anyone) Authenticate(*http.Request) (user.Info, bool, error) {
	return &user.DefaultInfo{Name: "anyone"}, true, nil
}
