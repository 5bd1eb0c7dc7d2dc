package chain

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/kanzen-io/kanzen/internal/request"
)

const auditIDHeader = "Audit-Id"

// AuditID gives each request an ID, which the response, the log and the audit events contain. A client, or a proxy in
// front, may send its own. With audited, the audit policy decides later what is kept of the request; until then
// everything is kept.
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
