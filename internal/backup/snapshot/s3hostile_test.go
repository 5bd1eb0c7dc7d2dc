package snapshot

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHostileStore has servers that answer without end, not at all, or send elsewhere. A snapshot fails, memory stays, the
// secret goes nowhere.
func TestHostileStore(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	const page = `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>%s</ListBucketResult>`
	entry := `<Contents><Key>one/kanzen-20260501T123000Z.db</Key></Contents>`
	for name, handler := range map[string]http.HandlerFunc{
		"an answer without end": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			for {
				if _, err := io.WriteString(w, strings.Repeat(entry, 1000)); err != nil {
					return
				}
			}
		},
		"pages without end": func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, page, strings.Repeat(entry, 10_000)) },
		"no answer":         func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"another region": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "../../"+strings.TrimPrefix(other.URL, "http://"))
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `<Error><Code>AuthorizationHeaderMalformed</Code><Message>the-secret?</Message><Region>`+strings.TrimPrefix(other.URL, "http://")+`</Region></Error>`)
		},
		"garbage": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strings.Repeat("<", 100_000)) },
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(measured{w, &sent}, r) }))
			defer srv.Close()
			defer srv.CloseClientConnections()
			file := filepath.Join(t.TempDir(), "credentials")
			write(t, file, "[default]\naws_access_key_id = key-id\naws_secret_access_key = another-secret\n")
			s, err := NewS3(S3Config{URL: srv.URL, Bucket: "backups", Prefix: "one", Region: "us-east-1", CredentialsFile: file, patience: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			names, err := s.List(ctx)
			if err == nil || strings.Contains(err.Error(), "another-secret") {
				t.Errorf("%d names, %v", len(names), err)
			}
			// Several attempts at an answer, and what lies between both sides.
			if taken := sent.Load(); taken > 8*maxAnswer {
				t.Errorf("%d MiB were taken", taken>>20)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// measured is an answer whose bytes are counted.
type measured struct {
	http.ResponseWriter
	sent *atomic.Int64
}

// Write is part of http.ResponseWriter.
func (m measured) Write(p []byte) (int, error) {
	n, err := m.ResponseWriter.Write(p)
	m.sent.Add(int64(n))
	return n, err
}

// WriteString is part of io.StringWriter.
func (m measured) WriteString(s string) (int, error) { return m.Write([]byte(s)) }
