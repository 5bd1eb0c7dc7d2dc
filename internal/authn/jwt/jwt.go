// Package jwt reads what can be read of a token before its signature is
// checked: enough to know whose business it is.
package jwt

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// UnverifiedIssuer reads the issuer of something that may be a JWT; "" where it
// is none. It is not to be trusted: it only tells who should check the token.
func UnverifiedIssuer(token string) string {
	_, rest, ok := strings.Cut(token, ".")
	if !ok {
		return ""
	}
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Issuer
}
