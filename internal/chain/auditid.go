package chain

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/kanzen-io/kanzen/internal/request"
)

const auditIDHeader = "Audit-Id"

// AuditID gives each request a name that is told to the client and found in
// logs and audit events. A client, or a server in front, may bring its own.
// Audited says that a policy will be asked what to keep of the request; before
// it has been, everything is.
func AuditID(newID func() string, audited bool) Filter {
	level := request.AuditNone
	if audited {
		level = request.AuditUndecided
	}
	if newID == nil {
		newID = uuid.NewString
	}
	return func(next Handler) Handler {
		return func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get(auditIDHeader)
			if id == "" {
				id = newID()
			}
			w.Header().Set(auditIDHeader, id)
			next(w, r.WithContext(request.WithAudit(r.Context(), request.NewAudit(id, level))))
		}
	}
}
