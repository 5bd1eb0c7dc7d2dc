package test

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/test/standin"
)

// inScreen runs a command in a terminal of a size. typed sends keys to it, resized another size.
func inScreen(t *testing.T, width, height uint16, cmd *exec.Cmd) (seen *screen, typed func(keys string), resized func(width, height uint16)) {
	t.Helper()
	control, terminal, err := standin.OpenTerminal()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	resized = func(width, height uint16) {
		t.Helper()
		must(t, standin.Resize(control, width, height))
	}
	resized(width, height)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = terminal, terminal, terminal, inTerminal()
	must(t, cmd.Start())
	_ = terminal.Close()
	return newScreen(control), func(keys string) {
		t.Helper()
		_, err := io.WriteString(control, keys)
		must(t, err)
	}, resized
}

// last is the newest of the screens that top has drawn, without colors.
func (s *screen) last() string {
	drawn := strings.Split(s.String(), "\x1b[H")
	plain := regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\r`).ReplaceAllString(drawn[len(drawn)-1], "")
	return regexp.MustCompile(` +(\n|$)`).ReplaceAllString(plain, "$1")
}

// TestTop uses kanzen top as somebody at a terminal does, while the server works, and while it is away.
func TestTop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	k := serve(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tool := k.as("", "tool/7", nil)
	for range 2 {
		w, err := k.as("", "dashboard/9", nil).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		must(t, err)
		defer w.Stop()
	}
	go func() {
		for ctx.Err() == nil {
			m, err := tool.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}, metav1.CreateOptions{})
			if err == nil {
				_ = tool.CoreV1().ConfigMaps("default").Delete(ctx, m.Name, metav1.DeleteOptions{})
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	cmd := exec.Command(binaries.kanzen, "top", "--kubeconfig", k.kubeconfig(), "--window", "2s")
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "NO_COLOR=")
	seen, typed, resized := inScreen(t, 120, 30, cmd)
	shows := func(what, pattern string) {
		t.Helper()
		re := regexp.MustCompile(pattern)
		for deadline := time.Now().Add(20 * time.Second); !re.MatchString(seen.last()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: no %s in\n%s", what, pattern, seen.last())
			}
		}
	}
	shows("the head", `(?s)no problems .*[1-9][0-9.]* requests/s.* CPU [0-9]+% .*memory [0-9.]+ MiB\s.*storage .*seats \d+ of \d+ .* 2 watches`)
	if !seen.has("\x1b[32mno problems\x1b[0m") {
		t.Error("there are no colors")
	}
	typed("2")
	shows("clients", `CLIENTS\n> .* tool/7 127\.0\.0\.1\n`)
	shows("watches", `WATCHES\n .* 2 +\d+ +[0-9.]+ configmaps default: dashboard/9 127\.0\.0\.1 by `)
	if strings.Contains(seen.last(), "kanzen-top") {
		t.Errorf("top shows itself:\n%s", seen.last())
	}
	resized(60, 12)
	shows("a small screen", `(?s)^kanzen top.*P99 +CLIENTS\n> .* tool/7 127\.0\.0\.1\n\n+\? keys  q quit [^\n]{10,40}$`)
	typed("/tool\r")
	shows("the filter", `/tool`)
	typed("\r")
	shows("requests of the client", `clients > tool/7 .*\n +TOOK CODE VERB +OBJECT\n> +[^ ]+ +20[01] (create|delete) +configmaps default/m-`)
	typed("\r")
	shows("a request", `(?s)> r\d+\n(create|delete) configmaps default/m-.* PART +TOOK +0 .*authentication `)
	typed("\x1b")
	shows("requests again", `TOOK CODE`)
	typed("?")
	shows("the keys", `Keys\n.* show or leave this page`)
	typed("?\x1bop")
	shows("its own requests, paused", `(?s) paused\n.*kanzen-top/`)

	k.end(syscall.SIGTERM)
	typed("p")
	shows("that the server is away", `kanzen top .* \d\d:\d\d:\d\d  .+`)
	serve(t, dir, "--secure-port", k.port())
	shows("that it is back", `kanzen top .* \d\d:\d\d:\d\d\n`)
	typed("q")
	must(t, cmd.Wait())
	for deadline := time.Now().Add(20 * time.Second); !strings.HasSuffix(seen.String(), "\x1b[?25h\x1b[?1049l"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the terminal is left as %q", seen.String()[max(0, len(seen.String())-40):])
		}
	}
}
