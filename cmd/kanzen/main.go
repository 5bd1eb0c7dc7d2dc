// Command kanzen is the Kubernetes API server in one binary. Named
// kube-apiserver it takes that program's place, named etcd it is etcd's server.
package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "etcd" {
		etcdmain.Main(append([]string{"etcd"}, os.Args[2:]...))
		return
	}
	// The first signal shuts down in order; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd := rootCommand()
	if name == "kube-apiserver" {
		cmd = apiserverCommand()
	}
	if err := cmd.ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(os.Stderr, err))
	}
}

// exitCode tells an error and returns the code to end with: that of a program that was run, which has told its own
// errors, that of an endingError, or 1.
func exitCode(w io.Writer, err error) int {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()) // as shells say it
		}
		return max(ended.ExitCode(), 1)
	}
	for _, line := range lines(err) {
		tell(w, "Error: %s\n", line)
	}
	var ending *endingError
	if errors.As(err, &ending) {
		return ending.code
	}
	return 1
}

// lines takes an error apart that holds several, one line each. What is said before them all is said in each line.
func lines(err error) []string {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []string{plain(err.Error()) + hint(err)}
	}
	inner, _ := many.(error)
	var texts, out []string
	for _, e := range many.Unwrap() {
		texts = append(texts, e.Error())
		out = append(out, lines(e)...)
	}
	before, isLast := strings.CutSuffix(err.Error(), inner.Error())
	if inner.Error() != strings.Join(texts, "\n") || !isLast { // one error that wraps several
		return []string{plain(err.Error()) + hint(err)}
	}
	for i := range out {
		out[i] = plain(before) + out[i]
	}
	return out
}

// hint is what to do about a server that is not there.
func hint(err error) string {
	if errors.As(err, new(*url.Error)) && errors.Is(err, syscall.ECONNREFUSED) {
		return "; start the server, or name another with --kubeconfig or --data-dir"
	}
	return ""
}

// noObject is what the decoder of JSON says, with the whole Go type, about a file that holds something else than an object.
var noObject = regexp.MustCompile(`json: cannot unmarshal (string|number|bool|array) into Go value of type .*`)

// plain makes an error one line, in words for people who do not read Go.
func plain(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
	return noObject.ReplaceAllString(text, "it is a $1 and not an object with apiVersion, kind and so on")
}
