//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/test/machine"
)

// Where pods find the git repository, and what takes messages for its team.
const (
	gitHost = machine.Address + ":3000"
	gitURL  = "http://" + gitHost + "/apps.git"
	hookURL = "http://" + gitHost + "/messages"
)

func (w *world) gitFolder(name string) string { return filepath.Join(w.l.Run(), "git", name) }

// serveGit makes the repository and serves it over HTTP until the context ends. What is posted to hookURL goes into a file, a line each.
func (w *world) serveGit(ctx context.Context) error {
	if err := w.makeRepository(ctx); err != nil {
		return err
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/apps.git/", &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + w.gitFolder(""), "GIT_HTTP_EXPORT_ALL=1"}})
	mux.HandleFunc("POST /messages", func(rw http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, err := b.ReadFrom(http.MaxBytesReader(rw, r.Body, 1<<20))
		if err == nil {
			err = appendLine(w.gitFolder("messages"), b.String())
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	})
	s := &http.Server{Addr: gitHost, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(os.Stderr, "serving git: %v\n", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return nil
}

// makeRepository makes an empty one, and beside it the folder of a user.
func (w *world) makeRepository(ctx context.Context) error {
	if err := os.MkdirAll(w.gitFolder(""), 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main", "apps.git"}, {"init", "-q", "-b", "main", "tree"}} {
		if _, err := w.git(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// messages are those that were posted.
func (w *world) messages() (string, error) {
	b, err := os.ReadFile(w.gitFolder("messages"))
	return string(b), err
}

// git runs git in a folder beside the repository.
func (w *world) git(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = w.gitFolder(folder)
	// Nothing of the machine's own configuration counts.
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=user", "GIT_AUTHOR_EMAIL=user@example.org", "GIT_COMMITTER_NAME=user",
		"GIT_COMMITTER_EMAIL=user@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// push commits files by their paths and pushes them. A file without a text is removed. It returns the commit.
func (w *world) push(ctx context.Context, message string, files map[string]string) (commit string, err error) {
	for name, text := range files {
		path := filepath.Join(w.gitFolder("tree"), name)
		if text == "" {
			err = os.Remove(path)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", message}, {"push", "-q", w.gitFolder("apps.git"), "main"}} {
		if _, err := w.git(ctx, "tree", args...); err != nil {
			return "", err
		}
	}
	return w.git(ctx, "tree", "rev-parse", "HEAD")
}
