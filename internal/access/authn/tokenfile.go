package authn

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// TokenFile reads the users of --token-auth-file once. Each line has a token, a user name, a UID and, in quotes, a list
// of groups. The tokens are valid for the audiences.
func TokenFile(path string, audiences []string, log *slog.Logger) (TokenAuthenticator, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened read-only
	users, err := readTokens(f, log)
	if err != nil {
		return nil, fmt.Errorf("read token file %s: %w", path, err)
	}
	return ForAudiences(audiences, func(_ context.Context, token string) (user.Info, error) {
		if u := users[token]; u != nil {
			return u, nil
		}
		return nil, nil
	}), nil
}

func readTokens(r io.Reader, log *slog.Logger) (map[string]*user.DefaultInfo, error) {
	users := map[string]*user.DefaultInfo{}
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return users, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := lines.FieldPos(0)
		if len(record) < 3 {
			return nil, fmt.Errorf("line %d has %d columns; token, user name and UID are needed", line, len(record))
		}
		if record[0] == "" {
			log.Warn("Empty token in token file, ignored", "line", line)
			continue
		}
		if users[record[0]] != nil {
			log.Warn("Duplicate token in token file, the last one counts", "line", line)
		}
		u := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) > 3 {
			u.Groups = strings.Split(record[3], ",")
		}
		users[record[0]] = u
	}
}
