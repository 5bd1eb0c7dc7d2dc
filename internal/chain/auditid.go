package chain

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/kanzen-io/kanzen/internal/request"
)

const auditIDHeader = "Audit-Id"

// AuditID gives each request a name that is told to the client and found in
// logs and audit events. A client, or a server in front, may bring its own.
func AuditID(newID func() string) Filter {
	if newID == nil {
		newID = uuid.NewString
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get(auditIDHeader)
			if id == "" {
				id = newID()
			}
			w.Header().Set(auditIDHeader, id)
			next.ServeHTTP(w, r.WithContext(request.WithAuditID(r.Context(), id)))
		})
	}
}
