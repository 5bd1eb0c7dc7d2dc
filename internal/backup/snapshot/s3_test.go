package snapshot

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// s3Store is a small stand-in for an S3-compatible store with one bucket. It checks signatures: it signs each request
// itself, as the one who knows the secret, and compares.
type s3Store struct {
	t      *testing.T
	secret string

	mu      sync.Mutex
	objects map[string][]byte
	refused int
	parts   map[int][]byte // of the upload that is going on, by number; nil: there is none
	failing int            // the number of a part that is not taken
	aborted int
}

func (s *s3Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.signed(r) {
		s.refused++
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Error><Code>SignatureDoesNotMatch</Code><Message>the signature is wrong</Message></Error>`)
		return
	}
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/backups"), "/")
	switch query := r.URL.Query(); {
	case query.Has("uploads"), query.Has("uploadId"):
		s.upload(w, r, key, unchunked(r, body))
	case r.Method == http.MethodPut && key != "":
		s.objects[key] = unchunked(r, body)
		w.Header().Set("ETag", `"x"`)
	case r.Method == http.MethodDelete && key != "":
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && key == "":
		type content struct{ Key string }
		var list struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []content
		}
		for k := range s.objects {
			if strings.HasPrefix(k, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, content{k})
			}
		}
		_ = xml.NewEncoder(w).Encode(list)
	default:
		s.t.Errorf("unexpected %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	}
}

// upload is the part of the API that takes large objects in parts.
func (s *s3Store) upload(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.parts = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>backups</Bucket><Key>%s</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>", key)
	case r.Method == http.MethodPut:
		n, err := strconv.Atoi(query.Get("partNumber"))
		sum := md5.Sum(body)
		if sent := r.Header.Get("Content-Md5"); err != nil || sent == "" || sent != base64.StdEncoding.EncodeToString(sum[:]) || n == s.failing {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "<Error><Code>BadDigest</Code><Message>the part is not what was sent</Message></Error>")
			return
		}
		s.parts[n] = body
		w.Header().Set("ETag", fmt.Sprintf("%q", hex.EncodeToString(sum[:])))
	case r.Method == http.MethodPost:
		var list struct {
			Part []struct {
				PartNumber int
				ETag       string
			}
		}
		if err := xml.Unmarshal(body, &list); err != nil {
			s.t.Error(err)
		}
		var whole []byte
		for _, p := range list.Part {
			sum := md5.Sum(s.parts[p.PartNumber])
			if strings.Trim(p.ETag, `"`) != hex.EncodeToString(sum[:]) {
				s.t.Errorf("part %d is named %s", p.PartNumber, p.ETag)
			}
			whole = append(whole, s.parts[p.PartNumber]...)
		}
		s.objects[key], s.parts = whole, nil
		fmt.Fprintf(w, `<CompleteMultipartUploadResult><Bucket>backups</Bucket><Key>%s</Key><ETag>"x-%d"</ETag></CompleteMultipartUploadResult>`, key, len(list.Part))
	case r.Method == http.MethodDelete:
		s.parts = nil
		s.aborted++
		w.WriteHeader(http.StatusNoContent)
	}
}

// TestS3InParts stores a file that is larger than what is sent at once. If a part does not arrive, nothing is left of the rest.
func TestS3InParts(t *testing.T) {
	for name, serve := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		store := &s3Store{t: t, secret: "the-secret", objects: map[string][]byte{}}
		srv := serve(store)
		defer srv.Close()
		dir := t.TempDir()
		c := S3Config{URL: srv.URL, Bucket: "backups", Prefix: "one", Region: "us-east-1", CredentialsFile: filepath.Join(dir, "credentials")}
		write(t, c.CredentialsFile, "[default]\naws_access_key_id = key-id\naws_secret_access_key = the-secret\n")
		if cert := srv.Certificate(); cert != nil {
			c.CAFile = filepath.Join(dir, "ca.crt")
			write(t, c.CAFile, string(pemOf(cert.Raw)))
		}
		s, err := NewS3(c)
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, 35<<20+7)
		rand.NewChaCha8([32]byte{1}).Read(content)
		file := filepath.Join(dir, "file")
		write(t, file, string(content))
		if err := s.Put(t.Context(), "kanzen-20260501T123000Z.db", file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := store.objects["one/kanzen-20260501T123000Z.db"]; !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes are stored, want %d", name, len(got), len(content))
		}
		store.failing = 2
		if err := s.Put(t.Context(), "kanzen-20260501T133000Z.db", file); err == nil || len(store.objects) != 1 || store.aborted == 0 || store.parts != nil {
			t.Errorf("%s: %v; %d objects, aborted %d times", name, err, len(store.objects), store.aborted)
		}
	}
}

// signed signs the request as its sender should have, and compares.
func (s *s3Store) signed(r *http.Request) bool {
	got := r.Header.Get("Authorization")
	const begin = "AWS4-HMAC-SHA256 Credential=key-id/"
	if !strings.HasPrefix(got, begin) {
		return false
	}
	_, list, _ := strings.Cut(got, "SignedHeaders=")
	list, _, _ = strings.Cut(list, ",")
	again, _ := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	for _, name := range strings.Split(list, ";") {
		for _, v := range r.Header.Values(name) {
			again.Header.Add(name, v)
		}
	}
	date := r.Header.Get("X-Amz-Date")
	scope := strings.Split(strings.TrimPrefix(got, begin), "/")
	if len(scope) < 4 || !strings.HasPrefix(date, scope[0]) {
		return false
	}
	return canonicalSignature(again, r, s.secret, scope[0], scope[1], date, list) == got[strings.LastIndex(got, "=")+1:]
}

// unchunked takes the signed chunks apart that clients send over plain HTTP.
func unchunked(r *http.Request, body []byte) []byte {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return body
	}
	var out []byte
	for len(body) > 0 {
		head, rest, ok := bytes.Cut(body, []byte("\r\n"))
		var n int
		if _, err := fmt.Sscanf(string(head), "%x;", &n); !ok || err != nil || n == 0 {
			break
		}
		out, body = append(out, rest[:n]...), rest[n+2:]
	}
	return out
}

func TestS3(t *testing.T) {
	store := &s3Store{t: t, secret: "the-secret", objects: map[string][]byte{"clusters/one/mine.db": nil, "clusters/two/kanzen-20200101T000000Z.db": nil}}
	for name, serve := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		srv := serve(store)
		defer srv.Close()
		dir := t.TempDir()
		place := func(secret string) *S3 {
			file := filepath.Join(dir, "credentials-"+secret)
			write(t, file, "[default]\naws_access_key_id = key-id\naws_secret_access_key = "+secret+"\n")
			c := S3Config{URL: srv.URL, Bucket: "backups", Prefix: "clusters/one", Region: "us-east-1", CredentialsFile: file}
			if cert := srv.Certificate(); cert != nil {
				c.CAFile = filepath.Join(dir, "ca.crt")
				write(t, c.CAFile, string(pemOf(cert.Raw)))
			}
			s, err := NewS3(c)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, db := place("the-secret"), database(t)
		scheduler, clk, log := scheduled(t, db.Snapshot, s)
		for range 3 {
			scheduler.attempt(t.Context())
			clk.Step(3600e9)
		}
		names, err := s.List(t.Context())
		slices.Sort(names)
		if want := []string{"kanzen-20260501T123000Z.db", "kanzen-20260501T133000Z.db"}; err != nil || !slices.Equal(names, want) {
			t.Fatalf("%s: %v, %v; %s", name, names, err, log)
		}
		path := filepath.Join(dir, "back.db")
		if err := os.WriteFile(path, store.objects["clusters/one/"+names[1]], 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Verify(t.Context(), path, filepath.Join(dir, "restored")); err != nil || len(f.Entries) != 20 {
			t.Errorf("%s: what was stored: %v", name, err)
		}
		if len(store.objects) != 4 {
			t.Errorf("%s: %d objects: those of others were deleted", name, len(store.objects))
		}
		// Who has another secret gets nowhere, and the secret is in no log.
		wrong, _, log := scheduled(t, db.Snapshot, place("another-secret"))
		wrong.attempt(t.Context())
		if text := log.String(); !strings.Contains(text, "a scheduled snapshot failed") || strings.Contains(text, "another-secret") || store.refused == 0 {
			t.Errorf("%s: %s", name, text)
		}
		for k := range store.objects {
			if strings.HasPrefix(k, "clusters/one/kanzen-") {
				delete(store.objects, k)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
