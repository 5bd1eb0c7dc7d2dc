package side

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"
)

// Registration is the path of what configures admission.
const Registration = "/apis/admissionregistration.k8s.io/v1/"

// InForce is how long kube-apiserver may take until it goes by what was
// written there.
const InForce = 5 * time.Second

// Webhooks are admission webhooks, served over TLS in this process, whose
// processor time does not count.
type Webhooks struct{ server *httptest.Server }

// ServeWebhooks serves them until Close. Each review is allowed, with the JSON
// patch that answer returns for its request; empty: none.
func ServeWebhooks(answer func(r *http.Request) (patch string)) *Webhooks {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { review(w, r, answer(r)) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{}
	s.StartTLS()
	return &Webhooks{s}
}

// Close ends serving.
func (h *Webhooks) Close() { h.server.Close() }

// ClientConfig is, as JSON, how the webhook at a path is reached.
func (h *Webhooks) ClientConfig(path string) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}))
	return fmt.Sprintf(`{"url":"%s/%s","caBundle":%q}`, h.server.URL, path, ca)
}

// review answers an AdmissionReview with yes.
func review(w http.ResponseWriter, r *http.Request, patch string) {
	var in struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if patch != "" {
		patch = `,"patchType":"JSONPatch","patch":"` + base64.StdEncoding.EncodeToString([]byte(patch)) + `"`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true%s}}`, in.Request.UID, patch)
}
