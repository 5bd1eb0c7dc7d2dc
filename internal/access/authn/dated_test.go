package authn

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TestDated reads how long tokens are valid. Of those with which people sign in nothing is told.
func TestDated(t *testing.T) {
	day := 24 * time.Hour
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
	}
	life := func(d time.Duration) string {
		return fmt.Sprintf(`{"iat":%d,"exp":%d.5}`, now.Unix(), now.Add(d).Unix())
	}
	a := Dated(ForAudiences(audiences, func(_ context.Context, token string) (user.Info, error) {
		if token == "unknown" {
			return nil, nil
		}
		return &user.DefaultInfo{Name: "alice"}, nil
	}))
	for token, want := range map[string]time.Duration{token(life(30 * day)): 30 * day, token(life(day)): 0, token(`{"exp":5e18}`): 0, token(`{"iat":"soon"}`): 0, "no.jwt": 0, "": 0} {
		r, err := a.AuthenticateToken(t.Context(), token, nil)
		if err != nil || r == nil || (r.Valid != nil) != (want > 0) || r.Valid != nil && (r.Valid.Until.Sub(r.Valid.From) != want || !r.Valid.From.Equal(now.Truncate(time.Second))) {
			t.Errorf("%s: %+v, %v", token, r, err)
		}
	}
	if r, err := a.AuthenticateToken(t.Context(), "unknown", nil); r != nil || err != nil {
		t.Errorf("an unknown token: %v %v", r, err)
	}
}
