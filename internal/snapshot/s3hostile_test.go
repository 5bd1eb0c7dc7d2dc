package snapshot

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
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
			srv := httptest.NewServer(handler)
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
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			names, err := s.List(ctx)
			runtime.ReadMemStats(&after)
			if err == nil || strings.Contains(err.Error(), "another-secret") {
				t.Errorf("%d names, %v", len(names), err)
			}
			if used := (after.HeapAlloc - before.HeapAlloc) >> 20; after.HeapAlloc > before.HeapAlloc && used > 200 {
				t.Errorf("%d MiB are used", used)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}
