package snapshot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/url"
	"sort"
	"strings"
)

// canonicalSignature is the signature of a request by AWS Signature Version 4, from its specification.
func canonicalSignature(r, sent *http.Request, secret, day, region, date, signedHeaders string) string {
	var headers strings.Builder
	for _, name := range strings.Split(signedHeaders, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = sent.Host
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	var query []string
	for key, values := range sent.URL.Query() {
		for _, v := range values {
			query = append(query, escape(key)+"="+escape(v))
		}
	}
	sort.Strings(query)
	canonical := strings.Join([]string{sent.Method, sent.URL.EscapedPath(), strings.Join(query, "&"), headers.String(), signedHeaders, sent.Header.Get("X-Amz-Content-Sha256")}, "\n")
	scope := day + "/" + region + "/s3/aws4_request"
	sum := sha256.Sum256([]byte(canonical))
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{day, region, "s3", "aws4_request", toSign} {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	return hex.EncodeToString(key)
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
