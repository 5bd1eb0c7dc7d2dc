package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// bearer authenticates by the token of the Authorization header.
type bearer struct{ tokens Tokens }

func (b *bearer) Authenticate(r *http.Request) (user.Info, bool, error) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return nil, false, nil
	}
	token, rest, _ := strings.Cut(token, " ")
	if token == "" {
		if rest != "" {
			request.AddWarning(r.Context(), "the provided Authorization header contains extra space before the bearer token, and is ignored")
		}
		return nil, false, nil
	}
	u, ok, err := b.tokens.forRequest(r.Context(), token)
	if ok {
		// No later code may use the token.
		r.Header.Del("Authorization")
	}
	return u, ok, err
}

const (
	protocolHeader = "Sec-Websocket-Protocol"
	// bearerProtocol is the prefix of a websocket subprotocol that carries a token: browsers cannot set headers on a
	// websocket.
	bearerProtocol = "base64url.bearer.authorization.k8s.io."
)

// websocketBearer authenticates by the token in a websocket's subprotocols.
type websocketBearer struct{ tokens Tokens }

func (b *websocketBearer) Authenticate(r *http.Request) (user.Info, bool, error) {
	if !isWebsocket(r) {
		return nil, false, nil
	}
	token, others, err := websocketToken(r.Header.Values(protocolHeader))
	if token == "" || err != nil {
		return nil, false, err
	}
	u, ok, err := b.tokens.forRequest(r.Context(), token)
	if ok {
		r.Header.Set(protocolHeader, strings.Join(others, ","))
	}
	return u, ok, err
}

// websocketToken extracts the token from the offered subprotocols. The client must also offer a real subprotocol, which
// the server can select in its response.
func websocketToken(headers []string) (token string, others []string, err error) {
	found := false
	for _, protocol := range strings.Split(strings.Join(headers, ","), ",") {
		protocol = strings.TrimSpace(protocol)
		encoded, ok := strings.CutPrefix(protocol, bearerProtocol)
		if !ok {
			others = append(others, protocol)
			continue
		}
		if found {
			return "", nil, errors.New("multiple base64.bearer.authorization tokens specified")
		}
		found = true
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || !utf8.Valid(decoded) {
			return "", nil, errors.New("invalid base64.bearer.authorization token encoding")
		}
		token = string(decoded)
	}
	if token != "" && len(others) == 0 {
		return "", nil, errors.New("missing additional subprotocol")
	}
	return token, others, nil
}

func isWebsocket(r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, value := range r.Header.Values("Connection") {
		for _, option := range strings.Split(value, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
				return true
			}
		}
	}
	return false
}
