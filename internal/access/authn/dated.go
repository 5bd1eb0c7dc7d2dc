package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/request"
)

// handedOut is how long tokens of issuers are valid that people hand to programs. Those with which people sign in are valid for minutes or
// hours, and are renewed when they end: nobody has to be told.
const handedOut = 7 * 24 * time.Hour

// Dated says of the tokens that another authenticator accepts how long they are valid, as they say themselves. They must be JWTs, whose
// signature that one has verified.
func Dated(next TokenAuthenticator) TokenAuthenticator { return dated{next} }

type dated struct{ next TokenAuthenticator }

func (d dated) AuthenticateToken(ctx context.Context, token string, audiences []string) (*Response, error) {
	r, err := d.next.AuthenticateToken(ctx, token, audiences)
	if r == nil || err != nil {
		return r, err
	}
	if c := datesOf(token); c != nil && c.Until.Sub(c.From) >= handedOut {
		r.Valid = c
	}
	return r, nil
}

// datesOf reads when a token was made, and when it ends; nil: it does not say so.
func datesOf(token string) *request.Credential {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil
	}
	var claims struct{ Iat, Exp float64 } // seconds, which may have fractions
	if json.Unmarshal(raw, &claims) != nil || claims.Iat <= 0 || claims.Exp <= claims.Iat {
		return nil
	}
	return &request.Credential{Kind: request.CredentialToken, From: time.Unix(int64(claims.Iat), 0), Until: time.Unix(int64(claims.Exp), 0)}
}
