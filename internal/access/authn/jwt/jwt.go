// Package jwt reads the issuer of a token before its signature is verified, to select the authenticator.
package jwt

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// UnverifiedIssuer returns the issuer of a JWT, or "" if token is not one. It is not trustworthy: it only selects which
// authenticator verifies the token.
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
