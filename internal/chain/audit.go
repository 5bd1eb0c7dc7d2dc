package chain

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// Audit makes the audit events of requests. If a strict backend cannot store the first event, the request is refused.
func Audit(a *audit.Auditor, writeError ErrorWriter) Filter {
	if a == nil {
		return nil
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			rec := a.Begin(r)
			if rec == nil {
				next(w, r)
				return
			}
			if !rec.Received() {
				writeError(w, r, apierrors.NewInternalError(errors.New("failed to store audit event")))
				return
			}
			resp, w := responseOf(w)
			long := LongRunning(request.InfoFrom(r.Context()))
			if long {
				resp.before = append(resp.before, func(code int, _ http.Header) { rec.Started(code) })
			}
			defer func() {
				if fault := recover(); fault != nil {
					rec.Panicked(fault)
					panic(fault)
				}
				rec.Complete(resp.code, long)
			}()
			next(w, r)
		}
	}
}

// auditFailure makes the audit event of a request that is refused before it reaches the audit filter. There is one
// event, when the refusal is sent; message returns its text.
func auditFailure(a *audit.Auditor, message func(r *http.Request, err error) string, refuse ErrorWriter) ErrorWriter {
	if a == nil {
		return refuse
	}
	return func(w http.ResponseWriter, r *http.Request, err error) {
		if rec := a.Begin(r); rec != nil {
			rec.Status = &metav1.Status{Message: message(r, err)}
			resp, _ := responseOf(w)
			resp.before = append(resp.before, func(code int, _ http.Header) { rec.Started(code) })
		}
		refuse(w, r, err)
	}
}

// Refusal returns an ErrorWriter for requests that are refused before they reach a chain. The answer has an audit ID, and there is an audit
// event as for a request that the chain refuses before its audit filter.
func Refusal(a *audit.Auditor, clk clock.PassiveClock) ErrorWriter {
	if a == nil {
		return WriteStatus
	}
	refuse := auditFailure(a, errorText, WriteStatus)
	return func(w http.ResponseWriter, r *http.Request, err error) {
		last := Handler(func(w http.ResponseWriter, r *http.Request) { refuse(w, r, err) })
		begin(AuditID(nil, true)(Received(clk)(Info(nil, false, extensions.Set{})(last))))(w, r)
	}
}

func errorText(_ *http.Request, err error) string { return err.Error() }

// attempted lists the kinds of credentials in a request that failed to authenticate.
func attempted(r *http.Request, _ error) string {
	var methods []string
	if _, _, ok := r.BasicAuth(); ok {
		methods = append(methods, "basic")
	}
	if scheme, _, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok && strings.EqualFold(scheme, "bearer") {
		methods = append(methods, "bearer")
	}
	if strings.TrimSpace(r.URL.Query().Get("access_token")) != "" {
		methods = append(methods, "access_token")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		methods = append(methods, "x509")
	}
	if len(methods) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(methods, ", ")
}
