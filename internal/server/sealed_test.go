package server

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

const secretsPath = "/api/v1/namespaces/default/secrets"

// sealing starts a server that encrypts secrets with a provider ("": none), and makes some of 6 KB.
func sealing(t testing.TB, provider string, secrets int) *server {
	t.Helper()
	s := startWith(t, func(c *config.Config) {
		if provider == "" {
			return
		}
		c.EncryptionConfigFile = filepath.Join(t.TempDir(), "encryption.yaml")
		text := fmt.Sprintf("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources: [{resources: [secrets], providers: [{%s: {keys: [{name: k, secret: %s}]}}]}]\n",
			provider, base64.StdEncoding.EncodeToString(make([]byte, 32)))
		if err := os.WriteFile(c.EncryptionConfigFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	for n := range secrets {
		do(t, s, "POST", secretsPath, "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":"s-%d"},"stringData":{"a":%q}}`, n, strings.Repeat("x", 6<<10)), 201)
	}
	return s
}

// transformed is how many values of secrets were encrypted or decrypted.
func transformed(t testing.TB, s *server, direction string) (sum int) {
	t.Helper()
	for line := range strings.Lines(string(do(t, s, "GET", "/metrics", "", "", nil, 200))) {
		if strings.HasPrefix(line, "apiserver_storage_transformation_operations_total{") && strings.Contains(line, `resource="secrets"`) && strings.Contains(line, strconv.Quote(direction)) {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// TestSecretsAreDecryptedOnce lists and reads encrypted secrets: each was decrypted at most once, when the view got it.
func TestSecretsAreDecryptedOnce(t *testing.T) {
	const secrets = 20
	s := sealing(t, "aesgcm", secrets)
	do(t, s, "GET", secretsPath, "", "application/json", nil, 200)
	before := transformed(t, s, "from_storage")
	if sealed := transformed(t, s, "to_storage"); sealed < secrets || before > sealed {
		t.Errorf("%d values were encrypted and %d decrypted, of %d secrets", sealed, before, secrets)
	}
	for range 5 {
		for _, accept := range []string{"application/json", protobufType} {
			do(t, s, "GET", secretsPath, "", accept, nil, 200)
			do(t, s, "GET", secretsPath+"?limit=7", "", accept, nil, 200)
			do(t, s, "GET", secretsPath+"/s-1", "", accept, nil, 200)
		}
	}
	if after := transformed(t, s, "from_storage"); after != before {
		t.Errorf("reads have decrypted %d values", after-before)
	}
}

// BenchmarkListSecrets lists 500 secrets of 6 KB that are in memory.
func BenchmarkListSecrets(b *testing.B) {
	for _, provider := range []string{"", "aescbc", "aesgcm", "secretbox"} {
		s := sealing(b, provider, 500)
		for name, accept := range map[string]string{"json": "application/json", "protobuf": protobufType} {
			b.Run(fmt.Sprintf("provider=%s/%s", map[bool]string{true: "none", false: provider}[provider == ""], name), func(b *testing.B) {
				for b.Loop() {
					req := httptest.NewRequest("GET", secretsPath, nil)
					req = req.WithContext(inprocess.WithUser(req.Context(), masters))
					req.Header.Set("Accept", accept)
					w := &discard{h: http.Header{}}
					s.handler.ServeHTTP(w, req)
					if w.code != 200 {
						b.Fatal(w.code)
					}
				}
			})
		}
	}
}
